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

// A Command says what to start.
type Command struct {
	Path  string
	Args  []string // with the program's name
	Env   []string // all of it
	Files []*os.File
	Attr  *syscall.SysProcAttr // nil is the default
}

// A Child is a started program. It is safe for concurrent use.
type Child struct {
	pid  int
	gone chan struct{}

	mu     sync.Mutex
	reaped bool // the number may be another's; guarded by mu
}

// Start starts the program in the root directory, with Files as its
// descriptors from 0 on (nil means /dev/null) and no others that are
// close-on-exec. The caller's files stay the caller's.
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
		env = []string{} // nil would mean our own
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
	// Wait without reaping first, so that Kill never hits another process that
	// has been given the number.
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

// PID is the child's process number.
func (c *Child) PID() int { return c.pid }

// Gone is closed when the child has ended.
func (c *Child) Gone() <-chan struct{} { return c.gone }

// Wait waits until the child has ended. It may be called more than once.
func (c *Child) Wait() error {
	<-c.gone
	return nil
}

// Kill kills the child. That it is gone already is no error.
func (c *Child) Kill() error { return c.signal(unix.SIGKILL) }

// Terminate asks the child to end. That it is gone already is no error.
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
