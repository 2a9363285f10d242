package rawsock

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// The other end of a unix socket: unix(7). Process numbers are those of this process's PID
// namespace; 0 is one outside.

// DialUnix connects to a socket of ListenUnix. The connection does not block. The caller closes it.
func DialUnix(path string) (*os.File, error) { return dial(unix.SOCK_STREAM, path, "socket") }

// PeerOf returns which process has connected a socket, or listened for it.
func PeerOf(socket *os.File) (c *unix.Ucred, err error) {
	err = control(socket, func(fd int) (err error) {
		c, err = unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
		return os.NewSyscallError("getsockopt", err)
	})
	return c, err
}

// PassCredentials has what comes over a socket from now on say which process sends it, or no more.
func PassCredentials(socket *os.File, pass bool) error {
	on := 0
	if pass {
		on = 1
	}
	return control(socket, func(fd int) error {
		return os.NewSyscallError("setsockopt", unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_PASSCRED, on))
	})
}

// ReceiveFrom waits for bytes of a socket with PassCredentials, and returns which process has sent
// them. No bytes are the end of the connection, and c is nil. Descriptors that come with them are an error.
func ReceiveFrom(socket *os.File, b []byte) (n int, c *unix.Ucred, err error) {
	raw, err := socket.SyscallConn()
	if err != nil {
		return 0, nil, err
	}
	oob := make([]byte, unix.CmsgSpace(unix.SizeofUcred))
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
	if err = errors.Join(err, os.NewSyscallError("recvmsg", result)); err != nil || n == 0 {
		return 0, nil, err
	}
	messages, err := unix.ParseSocketControlMessage(oob[:oobn])
	if err != nil {
		return 0, nil, err
	}
	if seen&unix.MSG_CTRUNC != 0 || len(messages) != 1 {
		return 0, nil, errors.New("the sender is not known")
	}
	c, err = unix.ParseUnixCredentials(&messages[0])
	return n, c, err
}
