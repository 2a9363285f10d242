package session

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// A poller watches a session's descriptors. A goroutine waits for it through
// the runtime's poller, since epoll descriptors can be watched themselves
// (epoll(7)); it holds no thread.
type poller struct {
	file *os.File
	fd   int
}

// newPoller returns a poller; ready is called, by its goroutine, whenever
// something is.
func newPoller(ready func()) (*poller, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, err
	}
	if err := unix.SetNonblock(fd, true); err != nil { // or os.File would not wait for it
		_ = unix.Close(fd)
		return nil, err
	}
	p := &poller{file: os.NewFile(uintptr(fd), "epoll"), fd: fd}
	conn, err := p.file.SyscallConn()
	if err != nil {
		_ = p.file.Close()
		return nil, err
	}
	go p.run(conn, ready) // ends when close has been called
	return p, nil
}

func (p *poller) run(conn syscall.RawConn, ready func()) {
	for conn.Read(func(fd uintptr) bool { return poll(int(fd)) != 0 }) == nil {
		ready()
	}
}

// close releases the descriptor and ends the goroutine. Nothing else may be
// called afterwards.
func (p *poller) close() { _ = p.file.Close() }

func (p *poller) add(fd int, events uint32) {
	_ = unix.EpollCtl(p.fd, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: events, Fd: int32(fd)})
}

func (p *poller) remove(fd int) {
	_ = unix.EpollCtl(p.fd, unix.EPOLL_CTL_DEL, fd, nil)
}

// watchRoom watches fd for room to write, or not; watched is whether it does.
func (p *poller) watchRoom(fd int, watched *bool, want bool) {
	switch {
	case want && !*watched:
		p.add(fd, unix.EPOLLOUT)
	case !want && *watched:
		p.remove(fd)
	}
	*watched = want
}

// events returns the descriptors that are ready now.
func (p *poller) events(buf []unix.EpollEvent) []unix.EpollEvent {
	n, _ := unix.EpollWait(p.fd, buf, 0)
	return buf[:max(n, 0)]
}
