package shell

import (
	"os"
	"os/exec"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A bash at its prompt that is interrupted while it runs a trap executes what
// is left in its buffer, and more. Signals that come together do not.
func TestSignalsAtOnce(t *testing.T) {
	const limit = 20 * time.Second // against a hang
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	ours, theirs := os.NewFile(uintptr(fds[0]), "socket"), os.NewFile(uintptr(fds[1]), "socket")
	defer ours.Close()
	d := dialect{}
	path, err := exec.LookPath("bash")
	if err != nil {
		t.Skip(err)
	}
	cmd := exec.Command(path)
	cmd.Args = d.args(path, "")
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
		if _, err := unix.Write(fds[0], []byte(line+"\n")); err != nil {
			t.Fatal("the shell is gone: ", err)
		}
	}
	hear := func(want string) {
		t.Helper()
		if !readable(fds[0], limit) {
			t.Fatalf("the shell does not say %q", want)
		}
		buf := make([]byte, 100)
		n, err := unix.Read(fds[0], buf)
		if got := string(buf[:max(n, 0)]); got != want+"\n" {
			t.Fatalf("the shell says %q, %v, not %q", got, err, want)
		}
	}
	say(": leftover ; echo left >&0 ; : ; echo left >&0 ; : ; echo left >&0") // what a broken one may come to
	for range 3 {
		hear("left")
	}
	say("trap 'echo trap >&0; for ((i = 0; i < 100000; i++)); do :; done' " + itoa(int(guardSignal)))
	say("echo ready >&0")
	hear("ready")
	early := false
	(&Session{in: &incarnation{pid: pid}}).atOnce(func() {
		_ = unix.Kill(pid, guardSignal)
		early = readable(fds[0], 50*time.Millisecond) // time enough to come to the trap
		_ = unix.Kill(pid, unix.SIGINT)
	})
	if early {
		t.Error("the shell is not stopped between the signals")
	}
	hear("trap")
	say("echo alive >&0")
	hear("alive")
}

func readable(fd int, limit time.Duration) bool {
	late := time.Now().Add(limit)
	for {
		left := time.Until(late).Milliseconds()
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(max(left, 0)))
		if err != unix.EINTR || left <= 0 {
			return n > 0
		}
	}
}
