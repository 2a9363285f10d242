package session_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"wolffia/guest"
	"wolffia/internal/host/probe"
	"wolffia/internal/test/testenv"
	"wolffia/internal/test/wait"
	"wolffia/wire"
	"wolffia/wire/client"
)

// The test process is the guest, PID 1. Its reaper waits for every child, so all tests share it,
// and no test starts a process in another way.
var theGuest = sync.OnceValues(func() (*client.Conn, error) {
	ours, theirs, err := socketPair()
	if err != nil {
		return nil, err
	}
	go func() { // ends with the connection
		_ = guest.Serve(theirs, counted{theirs}, sessionsDir, nil, nil, func() error { return nil }, os.Exit)
		close(served)
	}()
	conn := client.New(ours)
	ctx, cancel := context.WithTimeout(context.Background(), wait.Limit)
	defer cancel()
	if err := conn.Hello(ctx); err != nil {
		return nil, err
	}
	guestRuns.Store(true)
	return conn, nil
})

var (
	guestRuns atomic.Bool
	served    = make(chan struct{})
)

// written is how often the guest has written to its host.
var written atomic.Int64

type counted struct{ io.WriteCloser }

func (c counted) Write(b []byte) (int, error) {
	written.Add(1)
	return c.WriteCloser.Write(b)
}

// closeGuest ends the guest, if there is one.
func closeGuest() {
	if !guestRuns.Load() {
		return
	}
	if conn, err := theGuest(); err == nil {
		_ = conn.Close()
		<-served
	}
}

func socketPair() (_, _ net.Conn, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	var conns [2]net.Conn
	for i, fd := range fds {
		f := os.NewFile(uintptr(fd), "socket")
		if conns[i], err = net.FileConn(f); err != nil {
			return nil, nil, err
		}
		_ = f.Close()
	}
	return conns[0], conns[1], nil
}

// connect joins the guest.
func connect(t testing.TB) *client.Conn {
	t.Helper()
	if outside != nil {
		testenv.Need(t, probe.UserNamespaces)
		t.Fatal(outside) // though the host can
	}
	conn, err := theGuest()
	if err != nil {
		t.Fatal(err)
	}
	return conn
}

// environ is the environment of sessions; home is the tests' own.
func environ() []string {
	return []string{"PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", "HOME=/tmp", "LANG=C.UTF-8", "TERM=xterm"}
}

// A sess is a session under test.
type sess struct {
	conn *client.Conn
	name string
}

var sessions atomic.Int64

// open makes a session with this shell, which ends with the test.
func open(t testing.TB, shell string) *sess {
	t.Helper()
	return create(t, &wire.StartRequest{Dir: "/", Env: environ(), Session: &wire.SessionRequest{Shell: shell}})
}

func create(t testing.TB, req *wire.StartRequest) *sess {
	t.Helper()
	s := &sess{connect(t), fmt.Sprintf("t%d", sessions.Add(1))}
	req.Session.Op, req.Session.Name = wire.SessionCreate, s.name
	ctx, cancel := context.WithTimeout(context.Background(), wait.Limit)
	defer cancel()
	if _, err := s.conn.CreateSession(ctx, req); err != nil {
		t.Fatalf("create a session: %v", err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), wait.Limit)
		defer cancel()
		var failed *client.StartError
		if err := s.conn.DestroySession(ctx, s.name); err != nil && (!errors.As(err, &failed) || failed.Class != wire.ClassNotFound) {
			t.Errorf("destroy the session: %v", err)
		}
	})
	return s
}

// A result is all that is known of a command.
type result struct {
	wire.ExitStatus
	stdout, stderr string
	err            error
}

func (r result) String() string {
	return fmt.Sprintf("%+v, stdout %q, stderr %q, error %v", r.ExitStatus, cut(r.stdout), cut(r.stderr), r.err)
}

func cut(s string) string {
	if len(s) > 300 {
		return s[:300] + "..."
	}
	return s
}

// A running is a command whose output is collected.
type running struct {
	*client.Process
	out, err lockedBuffer
}

type lockedBuffer struct {
	mu   sync.Mutex
	b    bytes.Buffer
	grew chan struct{}
}

func (l *lockedBuffer) add(b []byte) {
	l.mu.Lock()
	l.b.Write(b)
	if l.grew != nil {
		close(l.grew)
		l.grew = nil
	}
	l.mu.Unlock()
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// await waits until the output holds want.
func (l *lockedBuffer) await(t testing.TB, want string) {
	t.Helper()
	late := time.After(wait.Limit)
	for {
		l.mu.Lock()
		if bytes.Contains(l.b.Bytes(), []byte(want)) {
			l.mu.Unlock()
			return
		}
		l.grew = make(chan struct{})
		grew := l.grew
		l.mu.Unlock()
		select {
		case <-grew:
		case <-late:
			t.Fatalf("no %q in %q", want, cut(l.String()))
		}
	}
}

// start begins a command; change may alter the request.
func (s *sess) start(t testing.TB, text string, change ...func(*wire.StartRequest)) *running {
	t.Helper()
	r := &running{}
	req := wire.StartRequest{Args: []string{text}, Session: &wire.SessionRequest{Op: wire.SessionExec, Name: s.name}}
	for _, f := range change {
		f(&req)
	}
	var err error
	r.Process, err = s.conn.Start(&client.Request{StartRequest: req, OnStdout: r.out.add, OnStderr: r.err.add})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *running) wait(t testing.TB) result {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), wait.Limit)
	defer cancel()
	st, err := r.Wait(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("a command hangs; so far %q, %q", cut(r.out.String()), cut(r.err.String()))
	}
	return result{st, r.out.String(), r.err.String(), err}
}

func (s *sess) run(t testing.TB, text string, change ...func(*wire.StartRequest)) result {
	t.Helper()
	return s.start(t, text, change...).wait(t)
}

// exec is one that has to work; it returns what was printed.
func (s *sess) exec(t testing.TB, text string) string {
	t.Helper()
	r := s.run(t, text)
	if r.err != nil || r.Code != 0 || r.SessionEnded {
		t.Fatalf("%s: got r %v; want r.err == nil and r.Code == 0 and not r.SessionEnded", text, r)
	}
	return r.stdout
}

func (s *sess) info(t testing.TB) wire.SessionInfo {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), wait.Limit)
	defer cancel()
	i, err := s.conn.Session(ctx, s.name)
	if err != nil {
		t.Fatal(err)
	}
	return i
}

// awaitEnd waits until there is no such session.
func (s *sess) awaitEnd(t testing.TB) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), wait.Limit)
	defer cancel()
	wait.Until(t, "the end of session "+s.name, func() bool {
		_, err := s.conn.Session(ctx, s.name)
		failed, ok := errors.AsType[*client.StartError](err)
		if err != nil && (!ok || failed.Class != wire.ClassNotFound) {
			t.Fatalf("the session stays: %v", err)
		}
		return err != nil
	})
}

// alive checks that the session gives exact results.
func (s *sess) alive(t testing.TB) {
	t.Helper()
	r := s.run(t, "echo alive; echo err >&2; (exit 7)")
	if r.err != nil || r.stdout != "alive\n" || r.stderr != "err\n" || r.Code != 7 || r.TimedOut || r.SessionEnded || r.StatusLost {
		t.Errorf("afterwards: %v", r)
	}
}

func timeout(d time.Duration) func(*wire.StartRequest) {
	return func(r *wire.StartRequest) { r.TimeoutMS = uint64(d.Milliseconds()) }
}

func withInput(r *wire.StartRequest) { r.Stdin = true }

// give sends all of a command's input.
func (r *running) give(t testing.TB, in string) {
	t.Helper()
	if _, err := io.WriteString(r.Stdin(), in); err != nil && !errors.Is(err, io.ErrClosedPipe) { // it has ended without reading
		t.Error(err)
	}
	if err := r.Stdin().Close(); err != nil {
		t.Error(err)
	}
}

// shells are those of this machine, by the name that tests give them. ash is
// busybox by that name.
func shells(t testing.TB) map[string]string {
	t.Helper()
	testenv.Tools(t, "bash", "dash", "busybox")
	all := map[string]string{}
	for _, name := range []string{"bash", "dash", "busybox"} {
		if path, err := exec.LookPath(name); err == nil {
			all[name] = path
		}
	}
	ash := filepath.Join(t.TempDir(), "ash")
	if err := os.Symlink(all["busybox"], ash); err != nil {
		t.Fatal(err)
	}
	return map[string]string{"bash": all["bash"], "dash": all["dash"], "ash": ash}
}
