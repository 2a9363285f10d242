package guest

import (
	"os"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"
)

// A pipe is a pipe(2) or a terminal: the guest keeps one end, not blocking, and a process
// gets the other.
type pipe struct {
	ours   *os.File
	theirs int
}

// newPipe makes a pipe; read says that the guest reads from it.
func newPipe(read bool) (pipe, error) {
	var fd [2]int
	if err := unix.Pipe2(fd[:], unix.O_CLOEXEC); err != nil {
		return pipe{}, err
	}
	ours, theirs := fd[1], fd[0]
	if read {
		ours, theirs = fd[0], fd[1]
	}
	if err := unix.SetNonblock(ours, true); err != nil {
		_ = unix.Close(ours)
		_ = unix.Close(theirs)
		return pipe{}, err
	}
	return pipe{os.NewFile(uintptr(ours), "pipe"), theirs}, nil
}

// newTerminal opens a terminal; the guest keeps its master side.
func newTerminal() (pipe, error) {
	master, slave, err := openTerminal()
	if err != nil {
		return pipe{}, err
	}
	defer func() { _ = slave.Close() }()
	theirs, err := unix.FcntlInt(slave.Fd(), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		_ = unix.Close(master)
		return pipe{}, err
	}
	return pipe{os.NewFile(uintptr(master), "terminal"), theirs}, nil
}

// openTerminal returns a terminal's master side, not blocking, and its slave.
func openTerminal() (int, *os.File, error) {
	master, slave, err := pty.Open()
	if err != nil {
		return -1, nil, err
	}
	fd, err := unix.FcntlInt(master.Fd(), unix.F_DUPFD_CLOEXEC, 3) // pty has made master itself one that blocks
	_ = master.Close()
	if err == nil {
		err = unix.SetNonblock(fd, true)
	}
	if err != nil {
		_ = unix.Close(fd)
		_ = slave.Close()
		return -1, nil, err
	}
	return fd, slave, nil
}
