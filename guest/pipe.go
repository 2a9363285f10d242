package guest

import (
	"os"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"
)

// newPipe makes a pipe and returns the guest's end, which does not block, and a process's end.
// read says that the guest reads from it.
func newPipe(read bool) (ours *os.File, theirs int, err error) {
	var fd [2]int
	if err := unix.Pipe2(fd[:], unix.O_CLOEXEC); err != nil {
		return nil, -1, err
	}
	mine, theirs := fd[1], fd[0]
	if read {
		mine, theirs = fd[0], fd[1]
	}
	if _, err := unix.FcntlInt(uintptr(mine), unix.F_SETFL, unix.O_NONBLOCK); err != nil { // it has no other flags
		_ = unix.Close(mine)
		_ = unix.Close(theirs)
		return nil, -1, err
	}
	return os.NewFile(uintptr(mine), "pipe"), theirs, nil
}

// newTerminal opens a terminal and returns its master side, not blocking, and a
// process's.
func newTerminal() (ours *os.File, theirs int, err error) {
	master, slave, err := openTerminal()
	if err != nil {
		return nil, -1, err
	}
	defer slave.Close()
	if theirs, err = unix.FcntlInt(slave.Fd(), unix.F_DUPFD_CLOEXEC, 3); err != nil {
		_ = unix.Close(master)
		return nil, -1, err
	}
	return os.NewFile(uintptr(master), "terminal"), theirs, nil
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
