package rawsock

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Packets over unix sockets, with descriptors: unix(7).

// ListenPackets returns a socket that listens for packets at a new path, which does not block. The
// caller closes it, and removes the path.
func ListenPackets(path string) (*os.File, error) {
	return bound(unix.AF_UNIX, unix.SOCK_SEQPACKET, 0, &unix.SockaddrUnix{Name: path})
}

// DialPackets connects to a socket of ListenPackets. The connection does not block. The caller
// closes it.
func DialPackets(path string) (*os.File, error) { return dial(unix.SOCK_SEQPACKET, path, "packets") }

// dial connects to a unix socket of a type; name is that of the file.
func dial(kind int, path, name string) (*os.File, error) {
	fd, err := unix.Socket(unix.AF_UNIX, kind|flags, 0)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	if err := unix.Connect(fd, &unix.SockaddrUnix{Name: path}); err != nil {
		_ = unix.Close(fd)
		return nil, os.NewSyscallError("connect", err)
	}
	return os.NewFile(uintptr(fd), name), nil
}

// RemoveDead removes a unix socket at which no program listens, and reports whether it did.
// Anything else at the path stays: another kind of file, a symbolic link, a socket that takes
// connections. It follows no link but those of the directory, which it opens once.
func RemoveDead(path string) bool {
	dir, err := unix.Open(filepath.Dir(path), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer unix.Close(dir)
	name := filepath.Base(path)
	fd, err := unix.Openat(dir, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	return isDead(fd) && unix.Unlinkat(dir, name, 0) == nil
}

// isDead reports whether a file is a unix socket that refuses connections. In gVisor none is dead:
// to the host's directories, which it shows as 9P, its own sockets are unknown, and it refuses to
// connect to those of the host's kernel.
func isDead(file int) bool {
	var st unix.Stat_t
	if err := unix.Fstat(file, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFSOCK {
		return false
	}
	var system unix.Statfs_t
	if err := unix.Fstatfs(file, &system); err != nil || system.Type == unix.V9FS_MAGIC {
		return false
	}
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|flags, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	return errors.Is(unix.Connect(fd, &unix.SockaddrUnix{Name: fmt.Sprintf("/proc/self/fd/%d", file)}), unix.ECONNREFUSED)
}

// SendFile sends a packet of one byte with a descriptor, if that is possible at once.
func SendFile(connection, file *os.File) error {
	return control(file, func(fd int) error {
		rights := unix.UnixRights(fd)
		return control(connection, func(fd int) error {
			return os.NewSyscallError("sendmsg", unix.Sendmsg(fd, []byte{0}, rights, nil, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL))
		})
	})
}

// ReceiveFile waits for a packet, and returns its length and its descriptor, nil if it does not
// have exactly one. A packet that is longer than b, or has more descriptors, is an error. A length
// of 0 is the end of the connection. The caller closes the file. It does not block. EMFILE: there
// is no descriptor free for the packet's, and the rest of it is in b.
func ReceiveFile(connection *os.File, b []byte) (n int, file *os.File, err error) {
	n, fd, err := receiveFD(connection, b)
	if fd >= 0 {
		// who sent it can change that, and have a thread of its receiver wait
		_ = unix.SetNonblock(fd, true)
		file = os.NewFile(uintptr(fd), "received")
	}
	return n, file, err
}

// ReceiveSocket is ReceiveFile for a descriptor of a connected stream socket; no thread waits for
// the other side. The caller closes the Socket.
func ReceiveSocket(connection *os.File, b []byte) (n int, s *Socket, err error) {
	n, fd, err := receiveFD(connection, b)
	if fd < 0 {
		return n, nil, err
	}
	s = SocketOf(fd)
	if err := errors.Join(unix.SetNonblock(fd, false), s.PollAll()); err != nil {
		_ = s.Close()
		return 0, nil, err
	}
	return n, s, nil
}

// receiveFD is ReceiveFile for a bare descriptor; -1: none came.
func receiveFD(connection *os.File, b []byte) (n, fd int, err error) {
	raw, err := connection.SyscallConn()
	if err != nil {
		return 0, -1, err
	}
	oob := make([]byte, unix.CmsgSpace(4))
	var oobn, seen int
	var result error
	err = raw.Read(func(fd uintptr) bool {
		for {
			n, oobn, seen, _, result = unix.Recvmsg(int(fd), b, oob, unix.MSG_CMSG_CLOEXEC)
			if !errors.Is(result, unix.EINTR) {
				return !errors.Is(result, unix.EAGAIN)
			}
		}
	})
	if err = errors.Join(err, os.NewSyscallError("recvmsg", result)); err != nil {
		return 0, -1, err
	}
	if fd, err = descriptorIn(oob[:oobn], seen); err != nil && !errors.Is(err, unix.EMFILE) {
		n = 0
	}
	return n, fd, err
}

// descriptorIn returns the descriptor of a control message, -1 if there is none, of a recvmsg that
// has returned the flags seen.
func descriptorIn(oob []byte, seen int) (fd int, err error) {
	var fds []int
	messages, err := unix.ParseSocketControlMessage(oob)
	for i := range messages {
		if got, rerr := unix.ParseUnixRights(&messages[i]); rerr == nil {
			fds = append(fds, got...)
		}
	}
	if err == nil && len(fds) == 0 && seen&unix.MSG_CTRUNC != 0 {
		return -1, os.NewSyscallError("recvmsg", unix.EMFILE) // there was one
	}
	if err == nil && (len(fds) > 1 || seen&(unix.MSG_TRUNC|unix.MSG_CTRUNC) != 0) {
		err = fmt.Errorf("a packet with %d descriptors, or one that is cut", len(fds))
	}
	if err != nil {
		for _, fd := range fds {
			_ = unix.Close(fd)
		}
		return -1, err
	}
	if len(fds) == 1 {
		return fds[0], nil
	}
	return -1, nil
}

// Is reports whether a descriptor is a socket of this domain, kind and protocol, and whether it
// listens as it should (getsockopt in socket(7)).
func Is(file *os.File, domain, kind, protocol int, listens bool) bool {
	accepts := 0
	if listens {
		accepts = 1
	}
	err := control(file, func(fd int) error {
		for option, want := range map[int]int{unix.SO_DOMAIN: domain, unix.SO_TYPE: kind, unix.SO_PROTOCOL: protocol, unix.SO_ACCEPTCONN: accepts} {
			if got, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, option); err != nil || got != want {
				return unix.EINVAL
			}
		}
		return nil
	})
	return err == nil
}
