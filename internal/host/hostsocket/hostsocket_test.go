package hostsocket_test

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"wolffia/internal/host/hostsocket"
	"wolffia/runtime"
)

func listen(t *testing.T, path string) {
	t.Helper()
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
}

func TestResolve(t *testing.T) {
	dir := t.TempDir()
	agent, engine := filepath.Join(dir, "agent.1"), filepath.Join(dir, "docker.sock")
	listen(t, agent)
	listen(t, engine)
	link, hidden, file := filepath.Join(dir, "link"), filepath.Join(dir, "harmless"), filepath.Join(dir, "file")
	for name, target := range map[string]string{link: agent, hidden: engine} {
		if err := os.Symlink(target, name); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{agent, link} {
		if got, err := hostsocket.Resolve(path, false); err != nil || filepath.Base(got) != "agent.1" {
			t.Errorf(`%s: got %q, err %v; want err == nil and filepath.Base(got) == "agent.1"`, path, got, err)
		}
	}
	for path, want := range map[string]string{
		engine: "--socket-force", hidden: "--socket-force", file: "not a socket", filepath.Join(dir, "none"): "no such file",
	} {
		if _, err := hostsocket.Resolve(path, false); runtime.Class(err) != runtime.ErrInvalid || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", path, err, want)
		}
	}
	if _, err := hostsocket.Resolve(hidden, true); err != nil {
		t.Errorf("with force: %v", err)
	}
}

// The program that listens decides too: this one calls itself an engine.
func TestDial(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x")
	listen(t, path)
	conn, err := hostsocket.Dial(t.Context(), path, false)
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.Close()
	comm, err := os.ReadFile("/proc/self/comm")
	if err != nil {
		t.Fatal(err)
	}
	rename := func(name string) {
		if err := os.WriteFile("/proc/self/comm", []byte(name), 0); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { rename(string(comm)) })
	rename("dockerd")
	if _, err := hostsocket.Dial(t.Context(), path, false); runtime.Class(err) != runtime.ErrInvalid {
		t.Errorf("an engine: %v", err)
	}
	conn, err = hostsocket.Dial(t.Context(), path, true)
	if err != nil {
		t.Errorf("with force: %v", err)
	} else {
		_ = conn.Close()
	}
}

// A program that cannot be named, for lack of a descriptor, may be an engine.
func TestDialUnknownProgram(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x")
	listen(t, path)
	next, err := os.Open(path[:len(path)-2])
	if err != nil {
		t.Fatal(err)
	}
	most := next.Fd() + 2 // enough for the socket's file and the connection
	_ = next.Close()
	var before unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &before); err != nil {
		t.Fatal(err)
	}
	few := before
	few.Cur = uint64(most)
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &few); err != nil {
		t.Fatal(err)
	}
	conn, err := hostsocket.Dial(t.Context(), path, false)
	if rerr := unix.Setrlimit(unix.RLIMIT_NOFILE, &before); rerr != nil {
		t.Fatal(rerr)
	}
	if err == nil {
		_ = conn.Close()
	}
	if runtime.Class(err) != runtime.ErrUnavailable || !strings.Contains(err.Error(), "which program listens there") {
		t.Errorf("without a descriptor: %v", err)
	}
}
