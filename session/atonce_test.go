package session

import (
	"os"
	"os/exec"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"wolffia/internal/test/wait"
	"wolffia/session/dialect"
)

// A bash at its prompt that is interrupted while it runs a trap executes what
// is left in its buffer, and more. Signals that come together do not.
func TestSignalsAtOnce(t *testing.T) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.SetNonblock(fds[0], true); err != nil { // so that it has deadlines
		t.Fatal(err)
	}
	ours, theirs := os.NewFile(uintptr(fds[0]), "socket"), os.NewFile(uintptr(fds[1]), "socket")
	defer ours.Close()
	cmd := exec.Command("bash")
	cmd.Args = dialect.Dialect{}.Args("bash", "")
	cmd.Stdin = theirs
	cmd.SysProcAttr = &unix.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = theirs.Close()
	pid := cmd.Process.Pid
	defer func() {
		_ = unix.Kill(-pid, unix.SIGKILL)
		_ = cmd.Wait() // the guest of the other tests may have waited for it
	}()
	say := func(line string) {
		if _, err := ours.WriteString(line + "\n"); err != nil {
			t.Fatal("the shell is gone: ", err)
		}
	}
	hears := func(limit time.Duration) (string, error) {
		if err := ours.SetReadDeadline(time.Now().Add(limit)); err != nil {
			return "", err
		}
		buf := make([]byte, 100)
		n, err := ours.Read(buf)
		return string(buf[:n]), err
	}
	hear := func(want string) {
		t.Helper()
		if got, err := hears(wait.Limit); got != want+"\n" {
			t.Fatalf("the shell says %q, %v, not %q", got, err, want)
		}
	}
	say(": leftover ; echo left >&0 ; : ; echo left >&0 ; : ; echo left >&0") // what a broken one may come to
	for range 3 {
		hear("left")
	}
	say("trap 'echo trap >&0; for ((i = 0; i < 100000; i++)); do :; done' " + itoa(int(dialect.GuardSignal)))
	say("echo ready >&0")
	hear("ready")
	var early string
	(&shellProcess{pid: pid, tty: -1}).atOnce(func() {
		_ = unix.Kill(pid, dialect.GuardSignal)
		early, _ = hears(50 * time.Millisecond) // time enough to come to the trap
		_ = unix.Kill(pid, unix.SIGINT)
	})
	if early != "" {
		t.Fatalf("the shell is not stopped between the signals, and says %q", early)
	}
	hear("trap")
	say("echo alive >&0")
	hear("alive")
}
