package cow

import (
	"errors"

	"golang.org/x/sys/unix"

	"wolffia/internal/git/gitguard"
	"wolffia/internal/sys/beneath"
)

// claimed is the reason to skip a change whose name another sandbox keeps from being made.
const claimed = "another sandbox is making a name in its directory: apply again"

// Claim keeps the tree servers of other sandboxes from making parts of a git directory in the
// host's directory dir, which may be open with O_PATH, until release is called. It is for who is
// about to look whether name would complete one, and then to make it: two could each see a
// directory that the other's name completes. For a name that is no part it does nothing. EBUSY:
// another has the claim. A directory that cannot be locked (flock(2)) is not claimed.
func Claim(dir int, name string) (release func(), err error) {
	none := func() {}
	if !gitguard.Essential(name) {
		return none, nil
	}
	fd, err := beneath.Open(dir, ".", unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil { // who may not list it could still make names
		return none, err
	}
	if err := unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB); errors.Is(err, unix.EWOULDBLOCK) {
		unix.Close(fd)
		return none, unix.EBUSY
	}
	return func() {
		_ = unix.Flock(fd, unix.LOCK_UN) // a process that is being started has a copy of fd until its execve(2)
		unix.Close(fd)
	}, nil
}
