package child_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	goruntime "runtime"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"wolffia/internal/sys/child"
)

// The arguments of the test program in which it becomes another one, and that one.
const (
	becomes = "becomes"
	became  = "became"
)

// The main goroutine has the first thread until the packages are initialised.
func init() {
	if len(os.Args) == 2 && os.Args[1] == became {
		var sig int32
		err := unix.Prctl(unix.PR_GET_PDEATHSIG, uintptr(unsafe.Pointer(&sig)), 0, 0, 0)
		fmt.Println(unix.Signal(sig), err)
		os.Exit(0)
	}
}

// The test program is what holds.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == becomes {
		goruntime.LockOSThread()
		go func() {
			goruntime.LockOSThread()
			if unix.Gettid() == os.Getpid() {
				panic("a goroutine has the thread of another one")
			}
			panic(child.Exec("/proc/self/exe", []string{"test", became}, os.Environ()))
		}()
		select {}
	}
	if len(os.Args) > 4 && os.Args[1] == child.HoldArg {
		_, _ = os.Stderr.WriteString(child.Hold(os.Args).Error())
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// hold starts a held shell, which has the barrier as descriptor 4 unless that was
// closed, and returns the barrier's other end.
func hold(t *testing.T) (*child.Piped, *os.File) {
	t.Helper()
	barrier, open, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer barrier.Close()
	file, err := os.Open("hold.go")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	c, err := child.StartPiped(child.WithBarrier(&child.Command{
		Path: "/bin/sh", Args: []string{"a shell", "-c", `echo "$0 $A"; head -n 1 <&3; test -e /proc/$$/fd/4 || echo closed`}, Env: []string{"A=b", "PATH=/usr/bin:/bin"},
		Files: []*os.File{file},
	}, barrier))
	if err != nil {
		t.Fatal(err)
	}
	return c, open
}

// What is held does nothing before it is let go, and then is just what was asked
// for.
func TestHeld(t *testing.T) {
	c, open := hold(t)
	select {
	case <-c.Gone():
		t.Error("it has not waited")
	case <-time.After(100 * time.Millisecond): // can only be too short to see the failure
	}
	if _, err := open.Write([]byte{1}); err != nil {
		t.Fatal(err)
	}
	_ = open.Close()
	out, err := io.ReadAll(c.Stream)
	if want := "a shell b\npackage child\nclosed\n"; err != nil || string(out) != want {
		t.Errorf("%q, %v, want %q", out, err, want)
	}
	if err := c.Wait(); err != nil {
		t.Error(err)
	}
}

// It ends if its barrier ends.
func TestHeldGivenUp(t *testing.T) {
	c, open := hold(t)
	_ = open.Close()
	out, _ := io.ReadAll(c.Stream)
	complaint, err := io.ReadAll(c.Stderr)
	if len(out) > 0 || string(complaint) != "the start of the sandbox was cancelled" || err != nil {
		t.Errorf(`io.ReadAll: got out %q, complaint %q, err %v; want len(out) <= 0 and complaint == "the start of the sandbox was cancelled" and err == nil`,
			out, complaint, err)
	}
	if err := c.Wait(); err != nil {
		t.Error(err)
	}
}

// A program that another thread than the first one becomes ends with its parent all the same.
func TestBecome(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "/proc/self/exe", becomes)
	out, err := cmd.CombinedOutput()
	if want := fmt.Sprintln(unix.SIGKILL, nil); err != nil || string(out) != want {
		t.Errorf("%v: %q, want %q", err, out, want)
	}
}
