// Package rawsock makes sockets by system calls, in the network namespace of the calling thread.
//
// Package net would do more: it asks once what the host's network can do, in whichever
// namespace that happens to be, and is large for PID 1 of a sandbox.
package rawsock

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const flags = unix.SOCK_CLOEXEC | unix.SOCK_NONBLOCK

// backlog is the length of a listening socket's queue; the kernel has a limit of its own
// (net.core.somaxconn).
const backlog = 4096

// Sockaddr returns an address as a system call takes it, and its domain. An IPv4-mapped
// address is an IPv4 one.
func Sockaddr(a netip.AddrPort) (unix.Sockaddr, int) {
	if ip := a.Addr().Unmap(); ip.Is4() {
		return &unix.SockaddrInet4{Port: int(a.Port()), Addr: ip.As4()}, unix.AF_INET
	}
	return &unix.SockaddrInet6{Port: int(a.Port()), Addr: a.Addr().As16()}, unix.AF_INET6
}

// AddrPort returns an address that a system call has returned; the zero AddrPort if it is not
// of an IP socket.
func AddrPort(sa unix.Sockaddr) netip.AddrPort {
	switch sa := sa.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrPortFrom(netip.AddrFrom4(sa.Addr), uint16(sa.Port))
	case *unix.SockaddrInet6:
		return netip.AddrPortFrom(netip.AddrFrom16(sa.Addr).Unmap(), uint16(sa.Port))
	}
	return netip.AddrPort{}
}

// A Kind is what Open makes of an address. The zero Kind is invalid.
type Kind uint8

// The kinds, which are in the stream to PID 1 too (package wire).
const (
	_         Kind = iota
	Stream         // of TCP, for the address to be dialled
	Listening      // of TCP, at the address
	Datagrams      // of UDP, at the address
)

// Open returns a new socket that does not block. The caller closes it.
func Open(kind Kind, at netip.AddrPort) (*os.File, error) {
	switch kind {
	case Stream:
		_, domain := Sockaddr(at)
		return TCP(domain)
	case Listening:
		return ListenTCP(at)
	case Datagrams:
		return ListenUDP(at)
	}
	return nil, unix.EINVAL
}

// TCP returns a new socket that does not block. The caller closes it.
func TCP(domain int) (*os.File, error) {
	fd, err := unix.Socket(domain, unix.SOCK_STREAM|flags, unix.IPPROTO_TCP)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	_ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
	return os.NewFile(uintptr(fd), "tcp"), nil
}

// ListenTCP returns a listening socket that does not block. The caller closes it.
func ListenTCP(at netip.AddrPort) (*os.File, error) {
	sa, domain := Sockaddr(at)
	return bound(domain, unix.SOCK_STREAM, unix.IPPROTO_TCP, sa)
}

// ListenUDP returns a bound socket that does not block. The caller closes it.
func ListenUDP(at netip.AddrPort) (*os.File, error) {
	sa, domain := Sockaddr(at)
	return bound(domain, unix.SOCK_DGRAM, unix.IPPROTO_UDP, sa)
}

// ListenUnix returns a listening socket at a new path, which does not block. The caller closes
// it, and removes the path.
func ListenUnix(path string) (*os.File, error) {
	return bound(unix.AF_UNIX, unix.SOCK_STREAM, 0, &unix.SockaddrUnix{Name: path})
}

func bound(domain, kind, protocol int, at unix.Sockaddr) (*os.File, error) {
	fd, err := unix.Socket(domain, kind|flags, protocol)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	call := "setsockopt"
	if domain == unix.AF_INET6 {
		err = unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, 1)
	}
	if err == nil && kind == unix.SOCK_STREAM && domain != unix.AF_UNIX {
		err = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1)
	}
	if err == nil {
		call, err = "bind", unix.Bind(fd, at)
	}
	if err == nil && kind != unix.SOCK_DGRAM {
		call, err = "listen", unix.Listen(fd, backlog)
	}
	if err != nil {
		_ = unix.Close(fd)
		return nil, os.NewSyscallError(call, err)
	}
	return os.NewFile(uintptr(fd), "listener"), nil
}

// Connect connects a socket that does not block, and waits until it is connected, refused, or
// ctx ends.
func Connect(ctx context.Context, socket *os.File, to unix.Sockaddr) error {
	raw, err := socket.SyscallConn()
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = socket.SetWriteDeadline(time.Unix(1, 0)) })
	defer stop()
	begun := false
	var result error
	err = raw.Write(func(fd uintptr) bool {
		if !begun {
			begun = true
			result = unix.Connect(int(fd), to)
			return !errors.Is(result, unix.EINPROGRESS) && !errors.Is(result, unix.EINTR)
		}
		var code int
		if code, result = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_ERROR); result != nil {
			return true
		}
		if code != 0 {
			result = syscall.Errno(code)
			return true
		}
		// The poller may wake for nothing: a connected socket has a peer.
		_, result = unix.Getpeername(int(fd))
		return !errors.Is(result, unix.ENOTCONN)
	})
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return err
	}
	return os.NewSyscallError("connect", result)
}

// Accept waits for a connection, which does not block. The caller closes the file.
func Accept(listener *os.File) (*os.File, error) {
	raw, err := listener.SyscallConn()
	if err != nil {
		return nil, err
	}
	fd, result := -1, error(nil)
	err = raw.Read(func(l uintptr) bool {
		for {
			fd, _, result = unix.Accept4(int(l), flags)
			if !errors.Is(result, unix.EINTR) && !errors.Is(result, unix.ECONNABORTED) {
				return !errors.Is(result, unix.EAGAIN)
			}
		}
	})
	if err != nil {
		return nil, err
	}
	if result != nil {
		return nil, os.NewSyscallError("accept", result)
	}
	return os.NewFile(uintptr(fd), "connection"), nil
}

// CloseWrite ends the direction to the peer of a connection.
func CloseWrite(connection syscall.Conn) error {
	return control(connection, func(fd int) error { return unix.Shutdown(fd, unix.SHUT_WR) })
}

// WasReset reports whether a TCP connection was reset whose direction to the peer has not been
// ended: the kernel reports that once only, to a read or a write, and then as an end of file. If
// the peer had ended its own direction before, all that it sent has come, and the kernel's error
// is another.
func WasReset(connection syscall.Conn) bool {
	const closed = 7 // TCP_CLOSE in linux/tcp_states.h
	reset := false
	_ = control(connection, func(fd int) error {
		info, err := unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO)
		if err != nil || info.State != closed {
			return err
		}
		code, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ERROR)
		reset = err != nil || syscall.Errno(code) != unix.EPIPE
		return err
	})
	return reset
}

// Reset has the peer of a TCP connection see a reset, not an end, when the connection is closed.
func Reset(connection syscall.Conn) error {
	return control(connection, func(fd int) error {
		return unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1})
	})
}

// Addresses returns the address of a socket and that of its peer, each the zero AddrPort if it
// has none.
func Addresses(socket *os.File) (local, peer netip.AddrPort) {
	_ = control(socket, func(fd int) error {
		if sa, err := unix.Getsockname(fd); err == nil {
			local = AddrPort(sa)
		}
		if sa, err := unix.Getpeername(fd); err == nil {
			peer = AddrPort(sa)
		}
		return nil
	})
	return local, peer
}

// Receive waits for a datagram. One that is longer than b is cut.
func Receive(socket *os.File, b []byte) (n int, from netip.AddrPort, err error) {
	raw, err := socket.SyscallConn()
	if err != nil {
		return 0, from, err
	}
	var sa unix.Sockaddr
	var result error
	err = raw.Read(func(fd uintptr) bool {
		for {
			if n, sa, result = unix.Recvfrom(int(fd), b, 0); !errors.Is(result, unix.EINTR) {
				return !errors.Is(result, unix.EAGAIN)
			}
		}
	})
	if err == nil {
		err = os.NewSyscallError("recvfrom", result)
	}
	return max(n, 0), AddrPort(sa), err
}

// Send sends a datagram if that is possible at once.
func Send(socket *os.File, b []byte, to netip.AddrPort) error {
	sa, _ := Sockaddr(to)
	return control(socket, func(fd int) error { return unix.Sendto(fd, b, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, sa) })
}

func control(of syscall.Conn, f func(fd int) error) error {
	raw, err := of.SyscallConn()
	if err != nil {
		return err
	}
	var result error
	if err := raw.Control(func(fd uintptr) { result = f(int(fd)) }); err != nil {
		return err
	}
	return result
}
