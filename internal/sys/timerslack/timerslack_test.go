package timerslack

import (
	"fmt"
	"os"
	"runtime"
	"syscall"
	"testing"
	"time"
)

// started returns the slack of a program, and of one that it starts, and its own default.
func started(t *testing.T, slack time.Duration) string {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	pid, err := ForkExec(slack, "/bin/sh", []string{"sh", "-c", `
		f=/proc/self/timerslack_ns
		read own <$f; echo $own; cat $f
		echo 0 >$f; read own <$f; echo $own`}, &syscall.ProcAttr{
		Env: []string{"PATH=/usr/bin:/bin"}, Files: []uintptr{0, w.Fd(), 2},
	})
	_ = w.Close()
	if err != nil {
		t.Fatal(err)
	}
	var own, child, reset int
	if _, err := fmt.Fscan(r, &own, &child, &reset); err != nil {
		t.Fatal(err)
	}
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(pid, &status, 0, nil); err != nil || status != 0 {
		t.Fatal(status, err)
	}
	return fmt.Sprint(own, child, reset)
}

func TestForkExec(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	own := Get()
	for slack, want := range map[time.Duration]time.Duration{0: own, Default: Default, Coarse: Coarse} {
		n := int(want)
		if got := started(t, slack); got != fmt.Sprint(n, n, n) {
			t.Errorf("with %v: %s nanoseconds, want %d", slack, got, n)
		}
		if Get() != own {
			t.Errorf("with %v: the caller has %v afterwards, and had %v", slack, Get(), own)
		}
	}
}

// An error of the start leaves the caller's slack, too.
func TestNoSuchProgram(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	own := Get()
	if _, err := ForkExec(Coarse, "/no/such", []string{"x"}, new(syscall.ProcAttr)); err != syscall.ENOENT {
		t.Error(err)
	}
	if Get() != own {
		t.Errorf("%v, want %v", Get(), own)
	}
}
