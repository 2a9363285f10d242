package boot

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
// other side has read, which costs the sender more than the message. Reads are for one
// goroutine; writes are safe for concurrent use, but not atomic.
type Socket struct{ file *os.File }

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
	return &Socket{os.NewFile(uintptr(fd), "socket")}, nil
}

// SocketOf takes over the descriptor of a connected stream socket, which blocks. The caller closes the Socket.
func SocketOf(fd int) *Socket { return &Socket{os.NewFile(uintptr(fd), "socket")} }

func (s *Socket) Read(b []byte) (int, error) { return s.file.Read(b) }

func (s *Socket) Write(b []byte) (int, error) { return s.file.Write(b) }

// Try writes as much as it can without blocking, and returns how much. An error shows with
// the next Write.
func (s *Socket) Try(b []byte) (n int) {
	raw, err := s.file.SyscallConn()
	if err != nil {
		return 0
	}
	_ = raw.Control(func(fd uintptr) {
		n, err = unix.SendmsgN(int(fd), b, nil, nil, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
	})
	if err != nil {
		return 0
	}
	return n
}

// roomOfOutput is what a Socket of Enlarge can hold that was not read, in bytes.
const roomOfOutput = 512 << 10

// Enlarge gives what is written room until the other side reads it, as much as the kernel allows
// (net.core.wmem_max in socket(7)).
func (s *Socket) Enlarge() {
	if raw, err := s.file.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { _ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_SNDBUF, roomOfOutput) })
	}
}

// SendFile writes b with the descriptor of a file or connection. It does not block: a full socket is an
// error, after which the Socket is of no further use.
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

// ReceiveFile is [ReceivePacket] for what the other side has written in one call, which is all that it has
// written and this side has not read. At the end of the connection it returns no bytes.
func (s *Socket) ReceiveFile(buf []byte) (b []byte, file *os.File, err error) {
	raw, err := s.file.SyscallConn()
	if err != nil {
		return nil, nil, err
	}
	cerr := raw.Read(func(fd uintptr) bool {
		b, file, err = receive(int(fd), buf)
		return true
	})
	return b, file, errors.Join(cerr, err)
}

// HungUp reports whether the other end is closed. What it has sent can still be read.
func (s *Socket) HungUp() bool {
	raw, err := s.file.SyscallConn()
	if err != nil {
		return true
	}
	gone := false
	err = raw.Control(func(fd uintptr) {
		p := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}}
		n, _ := unix.Poll(p, 0)
		gone = n > 0
	})
	return gone || err != nil
}

// Close ends the connection. A blocked Read or Write returns.
func (s *Socket) Close() error {
	raw, err := s.file.SyscallConn()
	if err != nil {
		return err
	}
	_ = raw.Control(func(fd uintptr) { _ = unix.Shutdown(int(fd), unix.SHUT_RDWR) })
	return s.file.Close()
}
