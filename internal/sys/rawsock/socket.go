package rawsock

import (
	"errors"
	"io"
	"net"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// A Socket is a connected stream socket. A read blocks in a thread of its own, not in the
// Go runtime's poller, which wakes for both directions: so also for each message that the
// other side has read, which costs the sender more than the message. See [Socket.Poll] for
// another way. Reads are for one goroutine; writes are safe for concurrent use, but not atomic.
type Socket struct {
	file  *os.File
	ready *readiness // waits for something to read; nil: a read blocks
	room  *readiness // waits for room to write; nil: a write blocks

	pass  syscall.Conn // goes with the next Write; or nil
	oob   []byte       // for what comes with a Read; nil: the kernel drops it
	taken *os.File     // came with a Read; or nil
}

// A readiness is an epoll descriptor, for which the runtime's poller waits without a thread.
type readiness struct {
	file *os.File
	conn syscall.RawConn
}

// newReadiness watches a socket for events, once after each [readiness.again] if they have
// EPOLLONESHOT.
func newReadiness(of syscall.RawConn, events uint32) (*readiness, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, err
	}
	cerr := of.Control(func(socket uintptr) {
		err = unix.EpollCtl(fd, unix.EPOLL_CTL_ADD, int(socket), &unix.EpollEvent{Events: events})
	})
	if err = errors.Join(cerr, err, unix.SetNonblock(fd, true)); err != nil {
		_ = unix.Close(fd)
		return nil, err
	}
	r := &readiness{file: os.NewFile(uintptr(fd), "epoll")}
	if r.conn, err = r.file.SyscallConn(); err != nil {
		_ = r.file.Close()
		return nil, err
	}
	return r, nil
}

// NewSocket takes over c, which it closes. The caller closes the Socket.
func NewSocket(c *net.UnixConn) (*Socket, error) {
	defer c.Close()
	raw, err := c.SyscallConn()
	if err != nil {
		return nil, err
	}
	fd := -1
	if cerr := raw.Control(func(old uintptr) {
		if fd, err = unix.FcntlInt(old, unix.F_DUPFD_CLOEXEC, 0); err == nil {
			err = unix.SetNonblock(fd, false)
		}
	}); cerr != nil || err != nil {
		if fd >= 0 {
			_ = unix.Close(fd)
		}
		return nil, errors.Join(cerr, err)
	}
	return &Socket{file: os.NewFile(uintptr(fd), "socket")}, nil
}

// SocketOf takes over the descriptor of a connected stream socket, which blocks. The caller closes
// the Socket.
func SocketOf(fd int) *Socket { return &Socket{file: os.NewFile(uintptr(fd), "socket")} }

// FileSocket takes over f, a connected stream socket, whose writes then wait in their thread. The
// caller closes the Socket.
func FileSocket(f *os.File) (*Socket, error) {
	defer f.Close()
	fd := -1
	err := control(f, func(old int) (err error) {
		if fd, err = unix.FcntlInt(uintptr(old), unix.F_DUPFD_CLOEXEC, 0); err == nil {
			err = unix.SetNonblock(fd, false)
		}
		return err
	})
	if err != nil {
		if fd >= 0 {
			_ = unix.Close(fd)
		}
		return nil, err
	}
	return SocketOf(fd), nil
}

// Pair returns the ends of a new connection, as files for FileSocket or another process. The
// caller closes both.
func Pair() (a, b *os.File, err error) {
	fd, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, os.NewSyscallError("socketpair", err)
	}
	return os.NewFile(uintptr(fd[0]), "socket"), os.NewFile(uintptr(fd[1]), "socket"), nil
}

// Poll has reads wait in the runtime's poller, for an epoll descriptor that waits for nothing but
// reads. It is for a process that only passes on what it reads: a thread that blocks loses its
// place in the scheduler, and each message then costs a change of threads. It comes before the
// first Read.
func (s *Socket) Poll() error {
	raw, err := s.file.SyscallConn()
	if err == nil {
		s.ready, err = newReadiness(raw, unix.EPOLLIN|unix.EPOLLRDHUP)
	}
	return err
}

// PollAll is Poll for writes too: no thread waits for the other side. It comes before the first
// Read or Write.
func (s *Socket) PollAll() error {
	err := s.Poll()
	if err != nil {
		return err
	}
	raw, err := s.file.SyscallConn()
	if err == nil {
		s.room, err = newReadiness(raw, unix.EPOLLOUT|unix.EPOLLONESHOT)
	}
	return err
}

// TakeFiles has Read keep the descriptor that came last, for [Socket.Taken]. It comes after Poll,
// and before the first Read.
func (s *Socket) TakeFiles() { s.oob = make([]byte, unix.CmsgSpace(4)) }

// Taken returns the descriptor that came last, once; nil: none did. It is for the goroutine that
// reads, which calls it after the last Read too. The caller closes the file.
func (s *Socket) Taken() *os.File {
	f := s.taken
	s.taken = nil
	return f
}

// Pass has the next Write be [Socket.SendFile] with that file. It is for the only goroutine that
// writes.
func (s *Socket) Pass(file syscall.Conn) { s.pass = file }

func (s *Socket) Read(b []byte) (n int, err error) {
	if s.ready == nil {
		return s.file.Read(b)
	}
	raw, err := s.file.SyscallConn()
	if err != nil {
		return 0, err
	}
	werr := s.ready.conn.Read(func(uintptr) bool {
		if cerr := raw.Control(func(fd uintptr) { n, err = s.receiveNow(int(fd), b) }); cerr != nil {
			err = cerr
		}
		return !errors.Is(err, unix.EAGAIN)
	})
	switch {
	case werr != nil:
		return 0, werr
	case err != nil:
		return 0, os.NewSyscallError("recvfrom", err)
	case n == 0:
		return 0, io.EOF
	}
	return n, nil
}

// receiveNow reads what there is.
func (s *Socket) receiveNow(fd int, b []byte) (n int, err error) {
	var oobn, seen int
	for {
		if s.oob == nil {
			n, _, err = unix.Recvfrom(fd, b, unix.MSG_DONTWAIT)
		} else {
			n, oobn, seen, _, err = unix.Recvmsg(fd, b, s.oob, unix.MSG_DONTWAIT|unix.MSG_CMSG_CLOEXEC)
		}
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if err != nil || oobn == 0 {
		return n, err
	}
	given, err := descriptorIn(s.oob[:oobn], seen)
	if err == nil && given >= 0 {
		_ = s.Taken().Close() // nil is fine
		s.taken = os.NewFile(uintptr(given), "received")
	}
	return n, err
}

// SyscallConn implements [syscall.Conn].
func (s *Socket) SyscallConn() (syscall.RawConn, error) { return s.file.SyscallConn() }

func (s *Socket) Write(b []byte) (written int, err error) {
	if file := s.pass; file != nil {
		s.pass = nil
		return len(b), s.SendFile(b, file)
	}
	if s.room == nil {
		return s.file.Write(b)
	}
	raw, err := s.file.SyscallConn()
	if err != nil {
		return 0, err
	}
	for written < len(b) {
		werr := s.room.conn.Read(func(epoll uintptr) (done bool) {
			n := 0
			var event [1]unix.EpollEvent
			// takes the event, or it would come again and again
			_, _ = unix.EpollWait(int(epoll), event[:], 0)
			cerr := raw.Control(func(fd uintptr) {
				if n, err = sendNow(int(fd), b[written:]); errors.Is(err, unix.EAGAIN) {
					err = unix.EpollCtl(int(epoll), unix.EPOLL_CTL_MOD, int(fd), &unix.EpollEvent{Events: unix.EPOLLOUT | unix.EPOLLONESHOT})
					return
				}
				done = true
			})
			written += max(n, 0)
			err = errors.Join(err, cerr)
			return done || err != nil
		})
		if err = errors.Join(err, werr); err != nil {
			return written, err
		}
	}
	return written, nil
}

// sendNow writes as much as there is room for.
func sendNow(fd int, b []byte) (n int, err error) {
	for {
		if n, err = unix.SendmsgN(fd, b, nil, nil, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL); !errors.Is(err, unix.EINTR) {
			return n, err
		}
	}
}

// Try writes as much as it can without blocking, and returns how much. An error shows with
// the next Write.
func (s *Socket) Try(b []byte) (n int) {
	raw, err := s.file.SyscallConn()
	if err != nil {
		return 0
	}
	_ = raw.Control(func(fd uintptr) {
		n, err = sendNow(int(fd), b)
	})
	if err != nil {
		return 0
	}
	return n
}

// RoomOfOutput is what a Socket of Enlarge can hold that was not read, in bytes.
const RoomOfOutput = 512 << 10

// Enlarge gives what is written room until the other side reads it, as much as the kernel allows
// (net.core.wmem_max in socket(7)).
func (s *Socket) Enlarge() {
	if raw, err := s.file.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { _ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_SNDBUF, RoomOfOutput) })
	}
}

// SendFile writes b with the descriptor of a file or connection. It does not block: a full socket
// is an error, after which the Socket is of no further use.
func (s *Socket) SendFile(b []byte, file syscall.Conn) error {
	theirs, err := file.SyscallConn()
	if err != nil {
		return err
	}
	ours, err := s.file.SyscallConn()
	if err != nil {
		return err
	}
	n := 0
	cerr := theirs.Control(func(given uintptr) {
		err = ours.Control(func(fd uintptr) {
			n, err = unix.SendmsgN(int(fd), b, unix.UnixRights(int(given)), nil, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
		})
	})
	if err == nil && cerr == nil && n < len(b) {
		err = io.ErrShortWrite
	}
	return errors.Join(cerr, err)
}

// ReceiveFile, for a Socket without Poll, is the function [ReceiveFile] for what the other side
// has written in one call, which is all that it has written and this side has not read.
func (s *Socket) ReceiveFile(buf []byte) (b []byte, file *os.File, err error) {
	n, file, err := ReceiveFile(s.file, buf)
	return buf[:n], file, err
}

// Unread reports whether the other side has not read all that was written (SIOCOUTQ in unix(7)).
func (s *Socket) Unread() bool {
	n := 0
	err := control(s, func(fd int) (err error) {
		n, err = unix.IoctlGetInt(fd, unix.TIOCOUTQ)
		return err
	})
	return err == nil && n > 0
}

// HungUp is the function [HungUp] for s.
func (s *Socket) HungUp() bool { return HungUp(s) }

// HungUp reports whether the other end of a connection sends no more. What it has sent can still
// be read.
func HungUp(c syscall.Conn) bool {
	gone := false
	err := control(c, func(fd int) error {
		gone = hungUp(uintptr(fd))
		return nil
	})
	return gone || err != nil
}

func hungUp(fd uintptr) bool {
	n, _ := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}}, 0)
	return n > 0
}

// AwaitHangUp waits until the other end of a connection of package net sends no more. What it has
// sent can still be read. The error is that of a read that a deadline or Close ends.
func AwaitHangUp(c syscall.Conn) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	return raw.Read(hungUp)
}

// Close ends the connection. A blocked Read or Write returns.
func (s *Socket) Close() error {
	raw, err := s.file.SyscallConn()
	if err != nil {
		return err
	}
	_ = raw.Control(func(fd uintptr) { _ = unix.Shutdown(int(fd), unix.SHUT_RDWR) })
	for _, r := range []*readiness{s.ready, s.room} {
		if r != nil {
			_ = r.file.Close()
		}
	}
	return s.file.Close()
}
