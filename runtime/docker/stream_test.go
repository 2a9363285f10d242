package docker

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"golang.org/x/sys/unix"

	"wolffia/internal/test/wait"
	"wolffia/runtime"
)

// A connection reads what the engine sends, and keeps what is sent to it.
type connection struct {
	io.Reader
	bytes.Buffer
	closed int
}

func (c *connection) Read(b []byte) (int, error) { return c.Reader.Read(b) }
func (c *connection) Close() error               { c.closed++; return nil }

func frame(kind byte, payload string) string {
	h := [frameHeader]byte{kind}
	binary.BigEndian.PutUint32(h[4:], uint32(len(payload)))
	return string(h[:]) + payload
}

func TestStream(t *testing.T) {
	for name, tt := range map[string]struct {
		sent           string
		stdout, stderr string
		err            string
	}{
		"empty":         {"", "", "", ""},
		"both":          {frame(1, "a") + frame(2, "x") + frame(1, "") + frame(1, "bc") + frame(2, "yz"), "abc", "xyz", ""},
		"engine's own":  {frame(3, "trouble"), "", "trouble", ""},
		"cut header":    {frame(1, "a") + "\x01\x00", "a", "", "unexpected EOF"},
		"cut frame":     {frame(1, "abc")[:10], "ab", "", "EOF"},
		"cut stderr":    {frame(2, "abc")[:10], "", "ab", "EOF"},
		"kind 0":        {frame(0, "abc"), "", "", "kind 0"},
		"kind 4":        {frame(4, "abc"), "", "", "kind 4"},
		"no frame":      {"HTTP/1.1 500 Oops\r\n", "", "", "header"},
		"far too large": {"\x01\x00\x00\x00\xff\xff\xff\xff", "", "", "header"},
	} {
		for _, slow := range []bool{false, true} {
			var r io.Reader = strings.NewReader(tt.sent)
			if slow {
				r = iotest.OneByteReader(r)
			}
			var stderr bytes.Buffer
			s := newStream(&connection{Reader: r}, &stderr)
			stdout, err := io.ReadAll(s)
			if string(stdout) != tt.stdout || stderr.String() != tt.stderr {
				t.Errorf("%s: got %q, %q; want %q, %q", name, stdout, stderr.String(), tt.stdout, tt.stderr)
			}
			if tt.err != "" && tt.err != "EOF" && (err == nil || !strings.Contains(err.Error(), tt.err)) {
				t.Errorf(`%s: got err %v; want tt.err == "" or tt.err == "EOF" or (err != nil and err.Error() contains %v)`, name, err, tt.err)
			}
			select {
			case <-s.over:
			default:
				t.Errorf("%s: it is not over", name)
			}
		}
	}
}

func TestStreamCloseOnce(t *testing.T) {
	c := &connection{Reader: strings.NewReader("")}
	s := newStream(c, io.Discard)
	if _, err := s.Write([]byte("in")); err != nil || c.String() != "in" {
		t.Error(err)
	}
	_, _ = s.Close(), s.Close()
	if c.closed != 1 {
		t.Errorf("closed %d times", c.closed)
	}
}

// When the shim closes the connection it is over, though somebody else has it.
func TestStreamCloseForAll(t *testing.T) {
	ours, engine := socketPair(t)
	other, err := ours.File()
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if err := newStream(ours, io.Discard).Close(); err != nil {
		t.Error(err)
	}
	if err := engine.SetReadDeadline(time.Now().Add(wait.Limit)); err != nil {
		t.Fatal(err)
	}
	if n, err := engine.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("Read: got n %d, err %v; want err is io.EOF", n, err)
	}
}

// socketPair returns the two ends of a connection.
func socketPair(t *testing.T) (*net.UnixConn, *net.UnixConn) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	var ends [2]*net.UnixConn
	for i, fd := range fds {
		f := os.NewFile(uintptr(fd), "socket")
		c, err := net.FileConn(f)
		if err != nil {
			t.Fatal(err)
		}
		_ = f.Close()
		ends[i] = c.(*net.UnixConn)
		t.Cleanup(func() { _ = c.Close() })
	}
	return ends[0], ends[1]
}

// Whatever an engine sends, what is read is bounded by it, and comes to an end.
func FuzzStream(f *testing.F) {
	f.Add([]byte(frame(1, "a") + frame(2, "b")))
	f.Add([]byte{1, 0, 0, 0, 255, 255, 255, 255})
	f.Fuzz(func(t *testing.T, sent []byte) {
		var stderr bytes.Buffer
		stdout, _ := io.ReadAll(newStream(&connection{Reader: bytes.NewReader(sent)}, &stderr))
		if len(stdout)+stderr.Len() > len(sent) {
			t.Errorf("%d and %d bytes of %d", len(stdout), stderr.Len(), len(sent))
		}
	})
}

func TestComplete(t *testing.T) {
	there := func(paths ...string) func(string) bool {
		return func(p string) bool { return strings.Contains(strings.Join(paths, " "), p) }
	}
	for name, tt := range map[string]struct {
		asked, host, dir string
		there            []string
		want             string // empty: unsupported
	}{
		"default":         {want: "unix:///var/run/docker.sock"},
		"asked":           {asked: "unix:///mine", host: "unix:///other", want: "unix:///mine"},
		"DOCKER_HOST":     {host: "unix:///other", there: []string{"/var/run/docker.sock"}, want: "unix:///other"},
		"the system's":    {dir: "/run/user/1", there: []string{"/var/run/docker.sock", "/run/user/1/docker.sock"}, want: "unix:///var/run/docker.sock"},
		"the user's":      {dir: "/run/user/1", there: []string{"/run/user/1/docker.sock"}, want: "unix:///run/user/1/docker.sock"},
		"Podman":          {dir: "/run/user/1", there: []string{"/run/user/1/podman/podman.sock"}, want: "unix:///run/user/1/podman/podman.sock"},
		"another machine": {host: "tcp://10.0.0.1:2375"},
		"ssh":             {host: "ssh://somebody@somewhere"},
		"relative":        {host: "unix://sock"},
	} {
		c := &runtime.SandboxConfig{}
		if tt.asked != "" {
			c.Docker = &runtime.DockerConfig{Host: tt.asked}
		}
		before := c.Docker
		err := complete(c, func(k string) string {
			return map[string]string{"DOCKER_HOST": tt.host, "XDG_RUNTIME_DIR": tt.dir}[k]
		}, there(tt.there...))
		if tt.want == "" {
			if !errors.Is(err, runtime.ErrUnsupported) {
				t.Errorf("%s: got %v, want runtime.ErrUnsupported", name, err)
			}
			continue
		}
		if err != nil || c.Docker.Host != tt.want || before != nil && before.Host != tt.asked {
			t.Errorf("%s: got c.Docker %+v, err %v; want err == nil and c.Docker.Host == %v and (before == nil or before.Host == %v)",
				name, c.Docker, err, tt.want, tt.asked)
		}
	}
}
