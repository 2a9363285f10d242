// Package child starts a program with only the system calls that takes. Os/exec tries the
// kernel's pidfd support with a process of its own the first time it is used, which for a
// process that starts one child doubles the cost.
package child

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// A Command is a program to start.
type Command struct {
	Path  string
	Args  []string             // from the program's name on
	Env   []string             // the whole environment; nil means an empty one
	Files []*os.File           // descriptors from 0 on; a nil File means /dev/null
	Attr  *syscall.SysProcAttr // nil means the default
}

// A Child is a started program. It is safe for concurrent use.
type Child struct {
	pid  int
	gone chan struct{} // closed when the child has ended

	mu     sync.Mutex
	reaped bool // pid may be another process's; guarded by mu
}

// Start starts the program in the root directory. It inherits Files, and those of the
// caller's descriptors that are not close-on-exec. The caller still has to close Files.
func Start(c *Command) (*Child, error) {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer null.Close()
	files := make([]uintptr, len(c.Files))
	for i, f := range c.Files {
		if f == nil {
			f = null
		}
		files[i] = f.Fd()
	}
	env := c.Env
	if env == nil {
		env = []string{} // nil would mean the caller's environment
	}
	pid, err := syscall.ForkExec(c.Path, c.Args, &syscall.ProcAttr{Dir: "/", Env: env, Files: files, Sys: c.Attr})
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", c.Path, err)
	}
	child := &Child{pid: pid, gone: make(chan struct{})}
	go child.reap() // ends with the child
	return child, nil
}

func (c *Child) reap() {
	defer close(c.gone)
	// Wait without reaping first, so that Kill never signals another process that
	// has got the same number.
	for {
		err := unix.Waitid(unix.P_PID, c.pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reaped = true
	var ws unix.WaitStatus
	for {
		if _, err := unix.Wait4(c.pid, &ws, 0, nil); !errors.Is(err, unix.EINTR) {
			return
		}
	}
}

// PID returns the child's process number.
func (c *Child) PID() int { return c.pid }

// Gone returns a channel that is closed when the child has ended.
func (c *Child) Gone() <-chan struct{} { return c.gone }

// Wait waits until the child has ended, and returns nil. It may be called repeatedly.
func (c *Child) Wait() error {
	<-c.gone
	return nil
}

// Kill sends SIGKILL. It returns nil if the child has ended already.
func (c *Child) Kill() error { return c.signal(unix.SIGKILL) }

// Terminate sends SIGTERM. It returns nil if the child has ended already.
func (c *Child) Terminate() error { return c.signal(unix.SIGTERM) }

func (c *Child) signal(sig unix.Signal) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.reaped {
		return nil
	}
	if err := unix.Kill(c.pid, sig); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("signal process %d: %w", c.pid, err)
	}
	return nil
}
