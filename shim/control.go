package shim

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Shim and tree server share a SOCK_SEQPACKET pair. The shim sends one packet
// with the descriptor that answers for the mount; the tree server answers with
// one packet: a dot when it serves, a dot and the reason when it does not. After
// that the socket only says, by hanging up, that the other one is gone.

// controlPair makes the socket pair.
func controlPair() (shim, tree *os.File, err error) {
	fd, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("socketpair: %w", err)
	}
	return os.NewFile(uintptr(fd[0]), "control"), os.NewFile(uintptr(fd[1]), "control"), nil
}

// sendDevice hands the mount's descriptor over.
func sendDevice(control, device *os.File) error {
	rights := unix.UnixRights(int(device.Fd()))
	if err := unix.Sendmsg(int(control.Fd()), []byte{0}, rights, nil, unix.MSG_NOSIGNAL); err != nil {
		return fmt.Errorf("hand the mount over to the tree server: %w", err)
	}
	return nil
}

// receiveDevice waits for the mount's descriptor.
func receiveDevice(control *os.File) (*os.File, error) {
	b, oob := make([]byte, 1), make([]byte, unix.CmsgSpace(4))
	_, n, _, _, err := unix.Recvmsg(int(control.Fd()), b, oob, unix.MSG_CMSG_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("receive the mount: %w", err)
	}
	messages, err := unix.ParseSocketControlMessage(oob[:n])
	if err != nil || len(messages) != 1 {
		return nil, errors.New("the shim is gone before it had mounted")
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(fds) != 1 {
		return nil, fmt.Errorf("receive the mount: %d descriptors (%w)", len(fds), err)
	}
	return os.NewFile(uintptr(fds[0]), "/dev/fuse"), nil
}

// sendServing tells the shim that the tree is served, or why not.
func sendServing(control *os.File, why error) error {
	b := []byte{}
	if why != nil {
		b = []byte(why.Error())
	}
	// An empty packet would look like a hang-up: a leading byte makes none empty.
	_, err := unix.SendmsgN(int(control.Fd()), append([]byte{'.'}, b...), nil, nil, unix.MSG_NOSIGNAL)
	return err
}

// receiveServing waits for sendServing.
func receiveServing(control *os.File) error {
	b := make([]byte, 4096)
	n, _, _, _, err := unix.Recvmsg(int(control.Fd()), b, nil, 0)
	switch {
	case err != nil:
		return fmt.Errorf("tree server: %w", err)
	case n == 0:
		return errors.New("the tree server has ended: see wolffia logs")
	case n > 1:
		return fmt.Errorf("tree server: %s", b[1:n])
	}
	return nil
}

// hangup waits until the other end is gone.
func hangup(control *os.File) {
	b := make([]byte, 1)
	for {
		n, _, _, _, err := unix.Recvmsg(int(control.Fd()), b, nil, 0)
		if n == 0 && !errors.Is(err, unix.EINTR) {
			return
		}
	}
}
