package guest_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"wolffia/guest"
	"wolffia/internal/test/wait"
	"wolffia/wire"
	"wolffia/wire/client"
)

// In the child the test binary is PID 1 of a PID namespace of its own without
// any capability, as the guest is in a sandbox.
func TestMain(m *testing.M) {
	var err error
	switch os.Getenv("WOLFFIA_TEST_GUEST") {
	case "":
		os.Exit(m.Run())
	case "prepare":
		runtime.LockOSThread() // capabilities are the thread's that executes the next stage
		if err = unix.Mount("proc", "/proc", "proc", 0, ""); err == nil {
			err = dropCapabilities()
		}
		if err == nil {
			err = unix.Exec("/proc/self/exe", os.Args, []string{"WOLFFIA_TEST_GUEST=serve", rlimitsVariable + "=" + os.Getenv(rlimitsVariable), guardVariable + "=" + os.Getenv(guardVariable), outsideVariable + "=" + os.Getenv(outsideVariable), aloneVariable + "=" + os.Getenv(aloneVariable), sessionsVariable + "=" + os.Getenv(sessionsVariable)})
		}
	case "serve":
		var limits *guest.Rlimits
		if s := os.Getenv(rlimitsVariable); s != "" {
			limits, err = guest.ParseRlimits(s)
		}
		if err == nil {
			err = guest.Harden()
		}
		if name := os.Getenv(outsideVariable); err == nil && name != "" {
			err = guest.ServeOutside(name, alone(), os.Getenv(sessionsVariable), limits, guard, os.Exit)
			break
		}
		if err == nil {
			_ = unix.SetNonblock(3, true)
			err = guest.Serve(os.Stdin, os.Stdout, "", limits, os.NewFile(3, "clients"), guard, os.Exit)
		}
	case "connect":
		err = guest.Connect(os.Getenv(outsideVariable), os.Stdin, os.Stdout)
	case "connect by a child":
		err = connectByChild(os.Getenv(outsideVariable))
	case "answer":
		_, err = io.CopyN(os.Stdin, os.Stdin, 16)
		if err == nil {
			_, err = io.Copy(os.Stdout, os.Stdin)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// guard is the guest's. With guardVariable it fails once the host has asked for a process.
func guard() error {
	if os.Getenv(guardVariable) == "" {
		return guest.Guard(nil, 0)
	}
	_, err := unix.Poll([]unix.PollFd{{Fd: int32(unix.Stdin), Events: unix.POLLIN}}, int(wait.Limit.Milliseconds()))
	return errors.Join(err, errors.New("no guard"))
}

const guardVariable = "WOLFFIA_TEST_GUARD"

// rlimitsVariable has the limits that the guest puts on what it starts.
const rlimitsVariable = "WOLFFIA_TEST_RLIMITS"

// dropCapabilities leaves none, for the children either, as in a sandbox.
func dropCapabilities() error {
	for c := uintptr(0); unix.Prctl(unix.PR_CAPBSET_READ, c, 0, 0, 0) == nil; c++ {
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0); err != nil {
			return err
		}
	}
	var none [2]unix.CapUserData
	return unix.Capset(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &none[0])
}

type pipes struct {
	io.Reader
	io.WriteCloser
}

// start runs a guest and returns a connection to it and its process.
func start(t testing.TB) (*client.Conn, *exec.Cmd) {
	t.Helper()
	p, cmd := launch(t)
	conn := client.New(p)
	t.Cleanup(func() { _ = conn.Close() })
	hello(t, conn)
	return conn, cmd
}

func hello(t testing.TB, conn *client.Conn) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), wait.Limit)
	defer cancel()
	if err := conn.Hello(ctx); err != nil {
		t.Fatalf("no greeting: %v", err)
	}
}

// launch runs a guest and returns its input and output.
func launch(t testing.TB) (pipes, *exec.Cmd) {
	t.Helper()
	p, cmd, _ := launchForClients(t)
	return p, cmd
}

// launchForClients is launch, and returns the socket by which the guest gets connections of
// clients.
func launchForClients(t testing.TB) (pipes, *exec.Cmd, *os.File) {
	t.Helper()
	fd, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	fdSocket, theirs := os.NewFile(uintptr(fd[0]), "fd socket"), os.NewFile(uintptr(fd[1]), "clients")
	defer theirs.Close()
	t.Cleanup(func() { _ = fdSocket.Close() })
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), "WOLFFIA_TEST_GUEST=prepare")
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWPID | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
		Pdeathsig:   syscall.SIGKILL,
	}
	cmd.ExtraFiles = []*os.File{theirs}
	runtime.LockOSThread() // the parent-death signal is bound to this thread
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatalf("start a guest in namespaces of its own: %v", err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		kill := time.AfterFunc(wait.Limit, func() { _ = cmd.Process.Kill() })
		_ = cmd.Wait()
		if !kill.Stop() {
			t.Error("the guest did not end with its input")
		}
		runtime.UnlockOSThread()
	})
	return pipes{out, in}, cmd, fdSocket
}

// Without its guard PID 1 starts nothing of what it was asked for, and ends.
func TestNothingStartsWithoutGuard(t *testing.T) {
	t.Setenv(guardVariable, "fails")
	conn, _ := start(t)
	made := filepath.Join(t.TempDir(), "made")
	p, err := conn.Start(&client.Request{StartRequest: wire.StartRequest{Args: []string{"touch", made}, Env: env}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), wait.Limit)
	defer cancel()
	if _, err := p.Wait(ctx); !errors.Is(err, client.ErrClosed) {
		t.Errorf("the guest goes on: %v", err)
	}
	if _, err := os.Lstat(made); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a process was started: %v", err)
	}
}

var env = []string{"PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"}

type result struct {
	wire.ExitStatus
	stdout, stderr string
}

func run(t testing.TB, conn *client.Conn, req client.Request) (result, error) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	req.OnStdout = func(b []byte) { stdout.Write(b) }
	req.OnStderr = func(b []byte) { stderr.Write(b) }
	if req.Env == nil {
		req.Env = env
	}
	p, err := conn.Start(&req)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), wait.Limit)
	defer cancel()
	status, err := p.Wait(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("%q hung; so far %q and %q", req.Args, stdout.String(), stderr.String())
	}
	return result{status, stdout.String(), stderr.String()}, err
}

func sh(t testing.TB, conn *client.Conn, script string) result {
	t.Helper()
	r, err := run(t, conn, client.Request{StartRequest: wire.StartRequest{Args: []string{"sh", "-c", script}}})
	if err != nil {
		t.Fatalf("%s: %v", script, err)
	}
	return r
}

func TestExec(t *testing.T) {
	conn, _ := start(t)
	for _, tt := range []struct {
		script         string
		code, signal   int
		stdout, stderr string
	}{
		{"echo out; echo err >&2; exit 7", 7, 0, "out\n", "err\n"},
		{"printf 'no newline\\0\\377'", 0, 0, "no newline\x00\xff", ""},
		{"kill -9 $$", 128 + 9, 9, "", ""},
		{"kill -TERM $$", 128 + 15, 15, "", ""},
		{"cat", 0, 0, "", ""}, // standard input is empty, not open
		{"exit 124", 124, 0, "", ""},
	} {
		got := sh(t, conn, tt.script)
		want := result{wire.ExitStatus{Code: tt.code, Signal: tt.signal}, tt.stdout, tt.stderr}
		if got != want {
			t.Errorf("%s\n got %+v\nwant %+v", tt.script, got, want)
		}
	}
}

// The end of a stream is reported while the process lives, and not only with its exit.
func TestEndsOfStreams(t *testing.T) {
	p, _ := launch(t)
	counted := &frames{pipes: p, of: map[wire.Type]int{}}
	conn := client.New(counted)
	t.Cleanup(func() { _ = conn.Close() })
	hello(t, conn)
	lives, err := conn.Start(&client.Request{StartRequest: wire.StartRequest{Args: []string{"sh", "-c", "exec >&- 2>&-; sleep 1000"}, Env: env}})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		_, err := io.Copy(io.Discard, io.MultiReader(lives.Stdout(), lives.Stderr()))
		ended <- err
	}()
	if err := wait.Receive(t, "the end of the streams while the process lives", ended); err != nil {
		t.Error(err)
	}
	_ = lives.Kill()
	ctx, cancel := context.WithTimeout(t.Context(), wait.Limit)
	defer cancel()
	if _, err := lives.Wait(ctx); err != nil {
		t.Fatal(err)
	}
	before := counted.count(wire.StdoutEOF, wire.StderrEOF)
	const rounds = 50
	for range rounds {
		if r := sh(t, conn, "exit 3"); r.Code != 3 {
			t.Fatalf(`sh "exit 3": got r %+v; want r.Code == 3`, r)
		}
	}
	if n := counted.count(wire.StdoutEOF, wire.StderrEOF) - before; n >= 2*rounds { // some, if the process was about to end
		t.Errorf("%d frames for the ends of the streams of %d processes", n, rounds)
	}
	if n := counted.count(wire.Started, wire.Exit); n != 2*(rounds+1) {
		t.Errorf("%d frames for the begins and ends of %d processes", n, rounds+1)
	}
}

// frames are a guest's input and output. It counts the frames.
type frames struct {
	pipes
	mu   sync.Mutex
	left []byte            // of a frame; guarded by mu
	of   map[wire.Type]int // guarded by mu
}

func (f *frames) Read(b []byte) (int, error) {
	n, err := f.pipes.Read(b)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.left = append(f.left, b[:n]...)
	for len(f.left) >= wire.HeaderSize {
		head := binary.LittleEndian.Uint32(f.left)
		whole := wire.HeaderSize + int(head>>8)
		if len(f.left) < whole {
			break
		}
		f.of[wire.Type(head)]++
		f.left = f.left[whole:]
	}
	return n, err
}

func (f *frames) count(types ...wire.Type) (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, t := range types {
		n += f.of[t]
	}
	return n
}

func TestStartFailures(t *testing.T) {
	conn, _ := start(t)
	dir := t.TempDir()
	for _, tt := range []struct {
		name string
		req  wire.StartRequest
		code int
	}{
		{"missing in PATH", wire.StartRequest{Args: []string{"no-such-program"}}, 127},
		{"missing path", wire.StartRequest{Args: []string{"/no/such/program"}}, 127},
		{"empty name", wire.StartRequest{Args: []string{""}}, 127},
		{"directory", wire.StartRequest{Args: []string{dir}}, 126},
		{"not executable", wire.StartRequest{Args: []string{"/etc/passwd"}}, 126},
		{"no such cwd", wire.StartRequest{Args: []string{"true"}, Dir: dir + "/nope"}, 125},
		{"cwd is a file", wire.StartRequest{Args: []string{"true"}, Dir: "/etc/passwd"}, 125},
		{"no program", wire.StartRequest{}, 126},
		{"NUL in an argument", wire.StartRequest{Args: []string{"echo", "a\x00b"}}, 126},
	} {
		_, err := run(t, conn, client.Request{StartRequest: tt.req})
		if failed, ok := errors.AsType[*client.StartError](err); !ok || failed.Code != tt.code {
			t.Errorf("%s: %v, want a start error of code %d", tt.name, err, tt.code)
		}
	}
	if got := sh(t, conn, "echo alive").stdout; got != "alive\n" {
		t.Errorf("after the failures: %q", got)
	}
}

func TestScriptWithoutInterpreter(t *testing.T) {
	conn, _ := start(t)
	script := t.TempDir() + "/script"
	if err := os.WriteFile(script, []byte("echo hello $1"), 0o700); err != nil {
		t.Fatal(err)
	}
	r, err := run(t, conn, client.Request{StartRequest: wire.StartRequest{Args: []string{script, "you"}}})
	if err != nil || r.stdout != "hello you\n" {
		t.Errorf("run: got r %+v, err %v; want err == nil and r.stdout == %q", r, err, "hello you\n")
	}
}

func TestMerge(t *testing.T) {
	conn, _ := start(t)
	r, err := run(t, conn, client.Request{StartRequest: wire.StartRequest{
		Args: []string{"sh", "-c", "for i in 1 2 3; do echo o$i; echo e$i >&2; done"}, Merge: true,
	}})
	if want := "o1\ne1\no2\ne2\no3\ne3\n"; err != nil || r.stdout != want || r.stderr != "" {
		t.Errorf(`run: got r %+v, err %v; want err == nil and r.stdout == %v and r.stderr == ""`, r, err, want)
	}
}

func TestLongArguments(t *testing.T) {
	conn, _ := start(t)
	args := []string{"sh", "-c", `echo $#; printf %s "$1" | wc -c`, "sh"}
	for range 10 {
		args = append(args, strings.Repeat("x", 100_000))
	}
	r, err := run(t, conn, client.Request{StartRequest: wire.StartRequest{Args: args}})
	if err != nil || r.stdout != "10\n100000\n" {
		t.Errorf("run: got r %+v, err %v; want err == nil and r.stdout == %q", r, err, "10\n100000\n")
	}
}

func TestInput(t *testing.T) {
	conn, _ := start(t)
	p, err := conn.Start(&client.Request{StartRequest: wire.StartRequest{Args: []string{"sha256sum"}, Env: env, Stdin: true}})
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		block := bytes.Repeat([]byte("0123456789abcdef"), 4096)
		for range 64 { // 4 MiB, eight windows
			if _, err := p.Stdin().Write(block); err != nil {
				t.Error(err)
			}
		}
		_ = p.Stdin().Close()
	}()
	got, err := io.ReadAll(p.Stdout())
	if err != nil {
		t.Error(err)
	}
	local := exec.Command("sh", "-c", "i=0; while [ $i -lt 64 ]; do cat "+blockFile(t)+"; i=$((i+1)); done | sha256sum")
	want, err := local.Output()
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("%q, want %q (%v)", got, want, err)
	}
}

func blockFile(t *testing.T) string {
	name := t.TempDir() + "/block"
	if err := os.WriteFile(name, bytes.Repeat([]byte("0123456789abcdef"), 4096), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// A process that does not read its input must not block the writer.
func TestInputNobodyReads(t *testing.T) {
	conn, _ := start(t)
	p, err := conn.Start(&client.Request{StartRequest: wire.StartRequest{Args: []string{"sh", "-c", "exec <&-; sleep 0.1; exit 3"}, Env: env, Stdin: true}})
	if err != nil {
		t.Fatal(err)
	}
	wrote := make(chan error, 1)
	go func() {
		_, err := p.Stdin().Write(make([]byte, 8<<20))
		wrote <- err
	}()
	ctx, cancel := context.WithTimeout(t.Context(), wait.Limit)
	defer cancel()
	if status, err := p.Wait(ctx); err != nil || status.Code != 3 {
		t.Errorf("Wait: got status %+v, err %v; want err == nil and status.Code == 3", status, err)
	}
	select {
	case <-wrote:
	case <-ctx.Done():
		t.Error("the writer hangs")
	}
}

// Output that no client reads delays its own process, and nothing else.
func TestFlowControl(t *testing.T) {
	conn, _ := start(t)
	p, err := conn.Start(&client.Request{StartRequest: wire.StartRequest{Args: []string{"head", "-c", "8388608", "/dev/zero"}, Env: env}})
	if err != nil {
		t.Fatal(err)
	}
	for range 20 {
		if got := sh(t, conn, "echo through; head -c 1000000 /dev/zero >&2"); got.stdout != "through\n" || len(got.stderr) != 1_000_000 {
			t.Fatalf("beside a stalled process: %d bytes, %q", len(got.stderr), got.stdout)
		}
	}
	select {
	case <-p.Done():
		t.Error("8 MiB went out though no client read them")
	default:
	}
	n, err := io.Copy(io.Discard, p.Stdout())
	if n != 8<<20 || err != nil {
		t.Errorf("%d bytes, %v", n, err)
	}
}

func TestManyAtOnce(t *testing.T) {
	conn, _ := start(t)
	type one struct {
		p   *client.Process
		out *bytes.Buffer
	}
	var all []one
	for i := range 100 {
		out := new(bytes.Buffer)
		p, err := conn.Start(&client.Request{
			StartRequest: wire.StartRequest{Args: []string{"sh", "-c", fmt.Sprintf("echo %d; exit %d", i, i)}, Env: env},
			OnStdout:     func(b []byte) { out.Write(b) },
		})
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, one{p, out})
	}
	ctx, cancel := context.WithTimeout(t.Context(), wait.Limit)
	defer cancel()
	for i, o := range all {
		status, err := o.p.Wait(ctx)
		if err != nil || status.Code != i || o.out.String() != fmt.Sprintf("%d\n", i) {
			t.Errorf("Wait: got i %d, status %+v, err %v, o.out %q; want err == nil and status.Code == %v and o.out.String() == fmt.Sprintf(%q, i)",
				i, status, err, o.out, i, "%d\n")
		}
	}
}

func TestTerminal(t *testing.T) {
	conn, _ := start(t)
	p, err := conn.Start(&client.Request{StartRequest: wire.StartRequest{
		Args: []string{"sh", "-c", `stty size; trap 'stty size; exit 5' WINCH; echo ready; while :; do read x || exit 6; done`},
		Env:  env, TTY: true, Stdin: true, Rows: 24, Cols: 80,
	}})
	if err != nil {
		t.Fatal(err)
	}
	out := newScanner(p.Stdout())
	out.expect(t, "24 80\r\n", "ready\r\n")
	if err := p.Resize(50, 132); err != nil {
		t.Fatal(err)
	}
	_, _ = p.Stdin().Write([]byte("wake\n"))                   // dash runs a trap after read returns
	for line := ""; line != "50 132\r\n"; line = out.next(t) { // beside the echo
	}
	ctx, cancel := context.WithTimeout(t.Context(), wait.Limit)
	defer cancel()
	if status, err := p.Wait(ctx); err != nil || status.Code != 5 {
		t.Errorf("Wait: got status %+v, err %v; want err == nil and status.Code == 5", status, err)
	}
}

// The shell itself reads: dash that is hit while it makes a process waits for that.
func TestTerminalInterrupt(t *testing.T) {
	conn, _ := start(t)
	p, err := conn.Start(&client.Request{StartRequest: wire.StartRequest{
		Args: []string{"sh", "-c", "echo ready; read x"}, Env: env, TTY: true, Stdin: true,
	}})
	if err != nil {
		t.Fatal(err)
	}
	newScanner(p.Stdout()).expect(t, "ready\r\n")
	if _, err := p.Stdin().Write([]byte{3}); err != nil { // ^C
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), wait.Limit)
	defer cancel()
	if status, err := p.Wait(ctx); err != nil || status.Signal != int(syscall.SIGINT) {
		t.Errorf("Wait: got status %+v, err %v; want err == nil and status.Signal == int(syscall.SIGINT)", status, err)
	}
}

// A scanner waits for lines.
type scanner struct{ lines chan string }

// However many clients send long requests piece by piece at once, PID 1 continues: it starts those
// that it has room for, and tells the others what to do.
func TestManyLongRequestsAtOnce(t *testing.T) {
	p, _ := launch(t)
	w, r := wire.NewWriter(p), wire.NewReader(p)
	const channels = 80
	args := []string{"sh", "-c", "exit 7", "sh"}
	for range 5 {
		args = append(args, strings.Repeat("x", 100<<10))
	}
	request := (&wire.StartRequest{Args: args, Env: env, Dir: "/"}).Encode()
	for at := 0; at < len(request); at += wire.MaxPayload {
		piece := request[at:min(at+wire.MaxPayload, len(request))]
		kind := wire.StartMore
		if at+len(piece) == len(request) {
			kind = wire.Start
		}
		for channel := range uint32(channels) {
			if err := w.Send(kind, 1+channel, piece); err != nil {
				t.Fatal(err)
			}
		}
	}
	// One that is too long, and one that is short, which always fits.
	for range wire.MaxStart/wire.MaxPayload + 1 {
		if err := w.Send(wire.StartMore, 1000, make([]byte, wire.MaxPayload)); err != nil {
			t.Fatal(err)
		}
	}
	short := &wire.StartRequest{Args: []string{"sh", "-c", "exit 7"}, Env: env, Dir: "/"}
	if err := errors.Join(w.Send(wire.Start, 1000, nil), w.WriteStart(1001, short)); err != nil {
		t.Fatal(err)
	}
	ended := map[string]int{}
	for n := 0; n < channels+2; {
		f, err := r.Next()
		if err != nil {
			t.Fatalf("after %v: %v", ended, err)
		}
		switch f.Type {
		case wire.Exit:
			n++
			var status wire.ExitStatus
			if err := wire.Decode(&f, &status); err != nil || status.Code != 7 {
				t.Errorf("wire.Decode: got status %+v, err %v; want err == nil and status.Code == 7", status, err)
			}
			ended["ran"]++
		case wire.Failed:
			n++
			var why wire.Failure
			if err := wire.Decode(&f, &why); err != nil || why.Code != 125 {
				t.Errorf("wire.Decode: got why %+v, err %v; want err == nil and why.Code == 125", why, err)
			}
			ended[why.Message]++
		}
		f.Release()
	}
	const many = "too many large requests at the same time: retry when others have started, or pass large data by standard input or in a file"
	if ended["start request is longer than 4194304 bytes"] != 1 || ended["ran"] < 60 || ended[many] == 0 || ended["ran"]+ended[many]+1 != channels+2 {
		t.Errorf(`got ended %v; want ended["start request is longer than 4194304 bytes"] == 1 and ended["ran"] >= 60 and ended[many] != 0 and ended["ran"]+ended[many]+1 == channels+2`,
			ended)
	}
}

func newScanner(r io.Reader) *scanner {
	s := &scanner{make(chan string, 100)}
	go func() { // ends with r
		var line []byte
		b := make([]byte, 1)
		for {
			if _, err := r.Read(b); err != nil {
				close(s.lines)
				return
			}
			if line = append(line, b[0]); b[0] == '\n' {
				s.lines <- string(line)
				line = nil
			}
		}
	}()
	return s
}

func (s *scanner) expect(t testing.TB, want ...string) {
	t.Helper()
	for _, w := range want {
		if got := s.next(t); got != w {
			t.Fatalf("got line %q, want %q", got, w)
		}
	}
}

func (s *scanner) next(t testing.TB) string {
	t.Helper()
	got := wait.Receive(t, "a further line", s.lines)
	if got == "" {
		t.Fatal("the output has ended")
	}
	return got
}
