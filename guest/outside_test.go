package guest_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"wolffia/guest"
	"wolffia/internal/sys/rawsock"
	"wolffia/internal/test/wait"
	"wolffia/wire"
	"wolffia/wire/client"
)

// outsideVariable has the name of the socket at which the guest serves hosts from outside.
const outsideVariable = "WOLFFIA_TEST_OUTSIDE"

// aloneVariable has how long it runs without a host.
const aloneVariable = "WOLFFIA_TEST_ALONE"

// sessionsVariable has its directory for sessions.
const sessionsVariable = "WOLFFIA_TEST_SESSIONS"

// alone returns that time; wait.Limit if the variable is not set.
func alone() time.Duration {
	d, err := time.ParseDuration(os.Getenv(aloneVariable))
	if err != nil {
		return wait.Limit
	}
	return d
}

// outside starts a guest that serves hosts from outside, and returns its process, a channel that is
// closed at its end, and what it has said by then.
func outside(t *testing.T) (cmd *exec.Cmd, name string, ended <-chan struct{}, said *bytes.Buffer) {
	t.Helper()
	if _, err := exec.LookPath("nsenter"); err != nil {
		t.Skip("nsenter is not installed: apt-get install util-linux")
	}
	sessions := "/tmp/" + rand.Text()[:5] // t.TempDir is too long
	if err := os.Mkdir(sessions, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(sessions) })
	name, said = "wolffia-test-"+rand.Text(), new(bytes.Buffer)
	cmd = exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), "WOLFFIA_TEST_GUEST=prepare", outsideVariable+"="+name, sessionsVariable+"="+sessions)
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWPID | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
		Pdeathsig:   syscall.SIGKILL,
	}
	cmd.Stderr = said
	runtime.LockOSThread() // the parent-death signal is bound to this thread
	if err := cmd.Start(); err != nil {
		t.Fatalf("start a guest in namespaces of its own: %v", err)
	}
	over := make(chan struct{})
	go func() { // ends with the guest
		_ = cmd.Wait()
		close(over)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-over
		runtime.UnlockOSThread()
	})
	wait.Until(t, "the guest's socket", func() bool {
		b, _ := os.ReadFile("/proc/net/unix")
		return strings.Contains(string(b), "@"+name)
	})
	return cmd, name, over, said
}

// enter runs the test binary as one of TestMain's programs in the guest's namespaces, from outside.
func enter(t *testing.T, pid int, name, program string) (p pipes, cmd *exec.Cmd, said *bytes.Buffer) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	said = new(bytes.Buffer)
	cmd = exec.Command("nsenter", "--user", "--pid", "--mount", "--preserve-credentials", "--target", strconv.Itoa(pid), self)
	cmd.Env = []string{"WOLFFIA_TEST_GUEST=" + program, outsideVariable + "=" + name}
	cmd.Stderr = said
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait()
	})
	return pipes{out, in}, cmd, said
}

// host connects from outside.
func host(t *testing.T, pid int, name string) *client.Conn {
	t.Helper()
	p, _, _ := enter(t, pid, name, "connect")
	conn := client.New(p)
	t.Cleanup(func() { _ = conn.Close() })
	hello(t, conn)
	return conn
}

// A host from outside has the sandbox; the next one takes it over, with the sessions as they were,
// and without the processes of the one before.
func TestOutside(t *testing.T) {
	cmd, name, _, _ := outside(t)
	first := host(t, cmd.Process.Pid, name)
	if r := sh(t, first, "echo $PPID; cat >/dev/null; grep PPid /proc/$PPID/status"); r.stdout != "1\nPPid:\t0\n" || r.Code != 0 {
		t.Errorf("a command: %+v", r)
	}
	ctx, cancel := context.WithTimeout(t.Context(), wait.Limit)
	defer cancel()
	if _, err := first.CreateSession(ctx, &wire.StartRequest{Env: env, Dir: "/", Session: &wire.SessionRequest{Op: wire.SessionCreate, Name: "s"}}); err != nil {
		t.Fatal(err)
	}
	inSession := func(conn *client.Conn, line string) string {
		r, err := run(t, conn, client.Request{StartRequest: wire.StartRequest{Args: []string{line}, Session: &wire.SessionRequest{Op: wire.SessionExec, Name: "s"}}})
		if err != nil || r.Code != 0 {
			t.Fatalf("%s: %+v, %v", line, r, err)
		}
		return r.stdout
	}
	inSession(first, "X=kept")
	p, err := first.Start(&client.Request{StartRequest: wire.StartRequest{Args: []string{"sleep", "7654"}, Env: env}})
	if err != nil {
		t.Fatal(err)
	}
	second := host(t, cmd.Process.Pid, name)
	if _, err := p.Wait(ctx); err == nil {
		t.Error("the first host's connection is open still")
	}
	if got := inSession(second, "echo $X"); got != "kept\n" {
		t.Errorf("the session has %q", got)
	}
	if r := sh(t, second, "while grep -qs '765[4]' /proc/[0-9]*/cmdline; do sleep 0.02; done; echo gone"); r.stdout != "gone\n" {
		t.Errorf("%+v", r)
	}
	// More than fits into any of the pipes between.
	if r := sh(t, second, "head -c 10000000 /dev/zero | tr '\\0' a"); len(r.stdout) != 10000000 {
		t.Errorf("%d bytes", len(r.stdout))
	}
}

// No process inside is a host: neither a child of PID 1, nor an orphan. It cannot look at the
// connection of one either.
func TestInsideIsNoHost(t *testing.T) {
	cmd, name, _, _ := outside(t)
	conn := host(t, cmd.Process.Pid, name)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	connect := fmt.Sprintf("WOLFFIA_TEST_GUEST=connect %s=%s %s </dev/null", outsideVariable, name, self)
	for what, script := range map[string]string{
		"a child":   connect + " 2>&1",
		"an orphan": "d=$(mktemp -d); mkfifo $d/f; (setsid sh -c 'sleep 0.1; " + connect + "' >$d/f 2>&1 &) ; cat $d/f; rm -r $d",
	} {
		if r := sh(t, conn, script); !strings.Contains(r.stdout, "PID 1 has refused the connection") {
			t.Errorf("%s: %+v", what, r)
		}
	}
	r := sh(t, conn, `for p in /proc/[0-9]*; do grep -q 'PPid:.0$' $p/status && [ $p != /proc/1 ] && { echo found; readlink $p/fd/0; cat $p/environ; }; done; true`)
	if !strings.HasPrefix(r.stdout, "found\n") || strings.TrimSpace(strings.ReplaceAll(r.stdout, "found", "")) != "" || !strings.Contains(r.stderr, "Permission denied") {
		t.Errorf("the bridge: %+v", r)
	}
	if r := sh(t, conn, "echo still here"); r.stdout != "still here\n" {
		t.Errorf("%+v", r)
	}
}

// A connection that another process holds than the one that has made it is refused: the first may
// have ended, and its number be that of a process from outside.
func TestConnectionOfAnother(t *testing.T) {
	cmd, name, _, _ := outside(t)
	_ = host(t, cmd.Process.Pid, name)
	p, other, said := enter(t, cmd.Process.Pid, name, "connect by a child")
	out, err := io.ReadAll(p)
	if werr := other.Wait(); err != nil || werr != nil || len(out) > 0 {
		t.Errorf("read %d bytes, %v, %v: %s", len(out), err, werr, said)
	}
}

// connectByChild connects, and has a child answer.
func connectByChild(name string) error {
	socket, err := rawsock.DialUnix("@" + name)
	if err != nil {
		return err
	}
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = []string{"WOLFFIA_TEST_GUEST=answer"}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = socket, os.Stdout, os.Stderr
	return cmd.Run()
}

// The bridge does not talk to a program that is not PID 1.
func TestConnectToAnother(t *testing.T) {
	name := "wolffia-test-" + rand.Text()
	listener, err := rawsock.ListenUnix("@" + name)
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	// Connect has this process undumpable, and then it cannot execute itself.
	defer func() { _ = unix.Prctl(unix.PR_SET_DUMPABLE, 1, 0, 0, 0) }()
	if err := guest.Connect(name, strings.NewReader(""), io.Discard); err == nil || !strings.Contains(err.Error(), "not PID 1") {
		t.Errorf("Connect: %v", err)
	}
}

// Without a host PID 1 ends, and with it all.
func TestAlone(t *testing.T) {
	t.Setenv(aloneVariable, "1s")
	_, _, ended, said := outside(t)
	checkAlone(t, ended, said)
}

// So does it once its host has left.
func TestLeftAlone(t *testing.T) {
	t.Setenv(aloneVariable, "10s") // a host comes meanwhile
	cmd, name, ended, said := outside(t)
	conn := host(t, cmd.Process.Pid, name)
	if r := sh(t, conn, "sleep 11; echo up"); r.stdout != "up\n" {
		t.Errorf("with a host: %+v", r)
	}
	_ = conn.Close()
	checkAlone(t, ended, said)
}

func checkAlone(t *testing.T, ended <-chan struct{}, said *bytes.Buffer) {
	t.Helper()
	select {
	case <-ended:
	case <-time.After(wait.Limit):
		t.Fatal("the guest runs still")
	}
	if !strings.Contains(said.String(), "no host for "+os.Getenv(aloneVariable)) {
		t.Errorf("it said %q", said)
	}
}
