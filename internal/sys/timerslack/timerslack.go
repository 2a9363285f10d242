// Package timerslack starts programs whose sleeps the kernel may end later than asked for.
//
// It may do so by the timer slack of the sleeping thread, to end several with one interrupt
// (PR_SET_TIMERSLACK in prctl(2)).
//
// Go's runtime has a monitor thread, sysmon, which sleeps for 20 microseconds at a time while
// goroutines run, and so wakes up each 70 with the kernel's own slack. In the processes of a
// sandbox, which work for a few milliseconds and wait then, it takes the processor from those that
// have work. A thread has the slack of the thread that made it, so it must be set before a
// program is started: its monitor thread exists before main.
package timerslack

import (
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// Default is that of a process whose parents have not changed it.
	Default = 50 * time.Microsecond
	// Coarse is for the processes of a sandbox on the host: their timers are guards against hangs,
	// and idle times. It is not for serve and mcp, whose calls took twice as long, and not for
	// gVisor, where the sleeps of programs inside would be late.
	Coarse = time.Millisecond
)

// Get returns the slack of the calling thread; Default if the kernel does not say.
func Get() time.Duration {
	slack, err := unix.PrctlRetInt(unix.PR_GET_TIMERSLACK, 0, 0, 0, 0)
	if err != nil || slack <= 0 {
		return Default
	}
	return time.Duration(slack)
}

// ForkExec is syscall.ForkExec for a program with a slack; 0: the caller's. The program's default
// is the same slack, and the processes that it starts inherit it. A kernel that cannot set a slack
// starts the program without it.
func ForkExec(slack time.Duration, path string, args []string, attr *syscall.ProcAttr) (pid int, err error) {
	if slack != 0 {
		runtime.LockOSThread() // which starts no other thread meanwhile
		defer runtime.UnlockOSThread()
		if unix.Prctl(unix.PR_SET_TIMERSLACK, uintptr(slack), 0, 0, 0) == nil {
			// the thread's default
			defer func() { _ = unix.Prctl(unix.PR_SET_TIMERSLACK, 0, 0, 0, 0) }()
		}
	}
	return syscall.ForkExec(path, args, attr)
}
