// Package child starts a program with as few system calls as possible. It also waits for it.
// Package os/exec probes the kernel's pidfd support with another process when it is first
// used, which doubles the cost for a process that starts one child.
package child

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"wolffia/internal/sys/timerslack"
)

// A Command describes a program to start.
type Command struct {
	Path  string
	Args  []string // with the program's name
	Env   []string // the whole environment
	Files []*os.File
	Attr  *syscall.SysProcAttr // nil is the default
	// Sockets has StartPiped make sockets of the standard input and output: they hold more than
	// pipes, of which each user has so much only (pipe-user-pages-soft in proc_sys_fs(5)).
	Sockets bool
	// Room is for how many descriptors the program, and what it starts, has a table from the
	// beginning; 0 is as many as the kernel likes. The last of them is /dev/null. A process with
	// threads waits about 10 ms when its table grows (expand_fdtable in the kernel's fs/file.c).
	Room int
	// Slack is the timer slack of the program and of what it starts; 0: the caller's.
	Slack time.Duration
}

// A Child is a started program. It is safe for concurrent use.
type Child struct {
	pid  int
	gone chan struct{} // closed when the child has ended

	mu     sync.Mutex
	reaped bool // another process may have the PID; guarded by mu
	status syscall.WaitStatus
}

// Start starts the program in the root directory. Files are its descriptors from 0 on (nil
// is /dev/null); the caller closes its own. Other descriptors must be close-on-exec.
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
	if c.Room > len(files) {
		for len(files) < c.Room-1 {
			files = append(files, ^uintptr(0)) // closed
		}
		files = append(files, null.Fd())
	}
	env := c.Env
	if env == nil {
		env = []string{} // nil is the caller's
	}
	attr, pidfd := syscall.SysProcAttr{}, -1
	if c.Attr != nil {
		attr = *c.Attr
	}
	attr.PidFD = &pidfd
	pid, err := timerslack.ForkExec(c.Slack, c.Path, c.Args, &syscall.ProcAttr{Dir: "/", Env: env, Files: files, Sys: &attr})
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", c.Path, err)
	}
	child := &Child{pid: pid, gone: make(chan struct{})}
	go child.reap(pidfd) // ends with the child
	return child, nil
}

// reap waits for the child, and closes its pidfd.
func (c *Child) reap(pidfd int) {
	defer close(c.gone)
	// Wait without reaping first, so that Kill never hits another process with the same
	// PID. A pidfd can be read from once the process has ended (pidfd_open(2)): the wait is in
	// the runtime's poller, and takes no thread.
	_ = unix.SetNonblock(pidfd, true)
	f := os.NewFile(uintptr(pidfd), "pidfd")
	defer f.Close()
	if raw, err := f.SyscallConn(); err != nil || raw.Read(func(fd uintptr) bool { return ended(unix.P_PIDFD, int(fd), unix.WNOHANG) }) != nil {
		ended(unix.P_PID, c.pid, 0)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reaped = true
	for {
		if _, err := syscall.Wait4(c.pid, &c.status, 0, nil); !errors.Is(err, unix.EINTR) {
			return
		}
	}
}

// Failure returns nil if the child has ended with the status 0, else an error that says how it has
// ended. It waits for the end.
func (c *Child) Failure() error {
	<-c.gone
	switch {
	case c.status.Signaled():
		return fmt.Errorf("killed by signal: %s", c.status.Signal())
	case c.status != 0:
		return fmt.Errorf("exit status %d", c.status.ExitStatus())
	}
	return nil
}

// ended reports whether a child has ended, which it does not reap. Without WNOHANG it waits.
func ended(kind, id, options int) bool {
	for {
		var info unix.Siginfo
		err := unix.Waitid(kind, id, &info, unix.WEXITED|unix.WNOWAIT|options, nil)
		if !errors.Is(err, unix.EINTR) {
			return err != nil || info.Signo != 0 // waitid(2): zero where no child has ended
		}
	}
}

// PID returns the child's process id.
func (c *Child) PID() int { return c.pid }

// Gone returns a channel that is closed when the child has ended.
func (c *Child) Gone() <-chan struct{} { return c.gone }

// Wait waits until the child has ended, and returns nil. It may be called more than once.
func (c *Child) Wait() error {
	<-c.gone
	return nil
}

// Kill kills the child. It is not an error if the child has ended.
func (c *Child) Kill() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.reaped {
		return nil
	}
	if err := unix.Kill(c.pid, unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("kill process %d: %w", c.pid, err)
	}
	return nil
}
