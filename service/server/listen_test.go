package server_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"wolffia/internal/test/suite"
	"wolffia/internal/test/testenv"
	"wolffia/runtime"
	"wolffia/service/server"
)

// dialPath has this program connect to a socket, as the user that it then is.
const dialPath = "WOLFFIA_TEST_DIAL"

// dialAndLeave asks for something, and prints what came.
func dialAndLeave(path string) {
	client := &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", path)
		},
	}}
	res, err := client.Post("http://wolffia/", "application/json", strings.NewReader("{}"))
	if err != nil {
		fmt.Println("no answer:", err)
		os.Exit(0)
	}
	defer res.Body.Close()
	fmt.Println("answered", res.StatusCode)
	os.Exit(0)
}

// as runs dialAndLeave as another user.
func as(t suite.T, uid uint32, path string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Ctx, "/proc/self/exe")
	cmd.Env = []string{dialPath + "=" + path}
	cmd.Dir = "/"
	if int(uid) != os.Geteuid() {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("as uid %d: %v: %s", uid, err, out)
	}
	return string(out)
}

// answers is a server that only says that it is there.
func answers(t suite.T, l net.Listener) {
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })}
	go func() { _ = s.Serve(l) }() // ends with Close
	t.Cleanup(func() { _ = s.Close() })
}

// Only the service's own user and root are let in, though others can reach the
// socket.
func TestPeers(t *testing.T) {
	testenv.Both(t)
	w := suite.New(t)
	dir := t.TempDir()
	for _, d := range []string{filepath.Dir(dir), dir} {
		w.OK(os.Chmod(d, 0o755))
	}
	path := filepath.Join(dir, "sock")
	l, err := server.Listen(path)
	w.OK(err)
	answers(w, l)
	self := uint32(os.Geteuid())
	if got := as(w, self, path); !strings.Contains(got, "answered 418") {
		t.Errorf("the service's own user: %s", got)
	}
	if self != 0 {
		t.Log("other users need root to be tried")
		return
	}
	const nobody = 65534
	if got := as(w, nobody, path); !strings.Contains(got, "permission denied") {
		t.Errorf("another user, by the socket's mode: %s", got)
	}
	w.OK(os.Chmod(path, 0o666))
	if got := as(w, nobody, path); !strings.Contains(got, "no answer") || strings.Contains(got, "permission denied") {
		t.Errorf("another user: %s", got)
	}
	if got := as(w, 0, path); !strings.Contains(got, "answered 418") {
		t.Errorf("root, after that: %s", got)
	}
}

func TestListen(t *testing.T) {
	syscall.Umask(0) // whatever it is
	defer syscall.Umask(0o077)
	w := suite.New(t)
	dir := t.TempDir()
	w.OK(os.Chmod(dir, 0o755))
	path := filepath.Join(dir, "made", "sock")
	l, err := server.Listen(path)
	w.OK(err)
	for name, mode := range map[string]os.FileMode{"made": os.ModeDir | 0o700, "made/sock": os.ModeSocket | 0o600, "made/sock.lock": 0o600} {
		if st, err := os.Lstat(filepath.Join(dir, name)); err != nil || st.Mode() != mode {
			t.Errorf("%s: got %v, %v; want %v, nil", name, st.Mode(), err, mode)
		}
	}
	_, err = server.Listen(path)
	w.Wrong("a live one", err, runtime.ErrConflict)
	w.OK(l.Close())
	w.OK(l.Close())
	if _, err := os.Lstat(path); !os.IsNotExist(err) {
		t.Errorf("the socket is there when it is closed: %v", err)
	}

	// What was left by one that was killed is replaced.
	dead, err := net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: path})
	w.OK(err)
	dead.SetUnlinkOnClose(false)
	w.OK(dead.Close())
	l, err = server.Listen(path)
	w.OK(err)
	answers(w, l)
	if got := as(w, uint32(os.Geteuid()), path); !strings.Contains(got, "answered") {
		t.Errorf("in the place of a dead one: %s", got)
	}

	// Somebody else's is left alone, also one that has no lock.
	other := filepath.Join(dir, "other")
	foreign, err := net.Listen("unix", other)
	w.OK(err)
	defer foreign.Close()
	_, err = server.Listen(other)
	w.Wrong("somebody listens", err, runtime.ErrConflict)
	file := filepath.Join(dir, "file")
	w.OK(os.WriteFile(file, []byte("mine"), 0o600))
	link := filepath.Join(dir, "link")
	w.OK(os.Symlink(file, link))
	for _, p := range []string{file, link, dir + "/made"} {
		_, err = server.Listen(p)
		w.Wrong(p, err, runtime.ErrConflict)
	}
	if b, err := os.ReadFile(file); err != nil || string(b) != "mine" {
		t.Errorf("the file is %q, %v", b, err)
	}
	_, err = server.Listen(filepath.Join(dir, strings.Repeat("x", 108)))
	w.Wrong("too long", err, runtime.ErrInvalid)
	_, err = server.Listen(filepath.Join(dir, "not", "there", "sock"))
	w.Wrong("no directory", err, runtime.ErrUnavailable)
	open := filepath.Join(dir, "open")
	w.OK(os.Mkdir(open, 0o777))
	_, err = server.Listen(filepath.Join(open, "sock"))
	w.Wrong("others may write in it", err, runtime.ErrUnavailable)
	w.OK(os.Chmod(open, 0o777|os.ModeSticky))
	_, err = server.Listen(filepath.Join(open, "sock"))
	w.Wrong("others may take the name when the service has ended", err, runtime.ErrUnavailable)
}
