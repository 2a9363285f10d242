package shell

import (
	"os"

	"golang.org/x/sys/unix"
)

// A poller watches a session's descriptors. A goroutine waits for it through
// the runtime's poller, since epoll descriptors can be watched themselves
// (epoll(7)); it holds no thread.
type poller struct {
	file  *os.File
	fd    int
	ready chan struct{} // something is ready; nothing more is said until next
	next  chan struct{}
}

func newPoller() (*poller, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, err
	}
	if err := unix.SetNonblock(fd, true); err != nil { // or os.File would not wait for it
		_ = unix.Close(fd)
		return nil, err
	}
	p := &poller{file: os.NewFile(uintptr(fd), "epoll"), fd: fd, ready: make(chan struct{}), next: make(chan struct{})}
	go p.run() // ends when close has been called
	return p, nil
}

func (p *poller) run() {
	defer close(p.ready)
	conn, err := p.file.SyscallConn()
	if err != nil {
		return
	}
	var fds [1]unix.PollFd
	for {
		err := conn.Read(func(fd uintptr) bool {
			fds[0] = unix.PollFd{Fd: int32(fd), Events: unix.POLLIN}
			n, err := unix.Poll(fds[:], 0)
			return n > 0 || err != nil && err != unix.EINTR
		})
		if err != nil {
			return
		}
		p.ready <- struct{}{}
		if _, more := <-p.next; !more {
			return
		}
	}
}

// close ends the goroutine and releases the descriptor.
// Precondition: no ready is being handled.
func (p *poller) close() {
	_ = p.file.Close() // wakes the goroutine
	close(p.next)
	for range p.ready {
	}
}

func (p *poller) add(fd int, events uint32) {
	_ = unix.EpollCtl(p.fd, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: events, Fd: int32(fd)})
}

func (p *poller) remove(fd int) {
	_ = unix.EpollCtl(p.fd, unix.EPOLL_CTL_DEL, fd, nil)
}

// events returns what is ready now.
func (p *poller) events(buf []unix.EpollEvent) []unix.EpollEvent {
	n, err := unix.EpollWait(p.fd, buf, 0)
	if err != nil {
		return nil
	}
	return buf[:n]
}
