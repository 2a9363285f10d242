package shim

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"wolffia/runtime/launch"
)

// An instance is the backend's process, and PID 1 below it.
type instance struct {
	*launch.Instance
	pid1    func() hostInit // findInit, once
	killed  atomic.Bool     // PID 1 was, by kill
	gone    chan struct{}   // closed when the backend has ended
	stderr  *tail           // of the backend and PID 1
	drained chan struct{}   // closed at the end of their error output
}

func newInstance(of *launch.Instance) *instance {
	return &instance{
		Instance: of, pid1: sync.OnceValue(func() hostInit { return findInit(of.PID) }),
		gone: make(chan struct{}), stderr: newTail(os.Stderr), drained: make(chan struct{}),
	}
}

// watch reads the error output and waits for the end, in the background.
func (i *instance) watch() {
	go func() { // ends with the backend
		_, _ = io.CopyBuffer(i.stderr, struct{ io.Reader }{i.Stderr}, make([]byte, 4<<10)) // few have any
		close(i.drained)
	}()
	go func() { // ends with the backend
		_ = i.Wait()
		i.reap()
		killOrphans()
		close(i.gone)
	}()
}

// kill kills PID 1 and the backend, which so end at the same time, and reports whether it did: PID 1 is not known of
// every backend. Of PID 1's mount namespace the shim keeps a descriptor: else PID 1 could not end before the kernel
// has taken that down, which takes milliseconds.
func (i *instance) kill() bool {
	pid1 := i.pid1()
	if pid1.pid == 0 {
		return false
	}
	_, _ = unix.Open(fmt.Sprintf("/proc/%d/ns/mnt", pid1.pid), unix.O_RDONLY|unix.O_CLOEXEC, 0) // closed with the process
	if err := unix.PidfdSendSignal(pid1.fd, unix.SIGKILL, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return false
	}
	i.killed.Store(true)
	_ = i.Kill()
	return true
}

// reap waits for the end of a PID 1 that kill has killed. The backend has ended.
func (i *instance) reap() {
	if i.killed.Load() {
		for errors.Is(unix.Waitid(unix.P_PIDFD, i.pid1().fd, nil, unix.WEXITED, nil), unix.EINTR) {
		}
	}
}
