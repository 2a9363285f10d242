package treeserver

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"wolffia/fusefs"
	"wolffia/fusefs/cow"
	"wolffia/internal/host/boot"
	"wolffia/internal/host/statedir"
	"wolffia/internal/sys/rmtree"
)

// A copied is the open upper layer of a sandbox with a copied codebase.
type copied struct {
	dir         *os.File // statedir.Cow
	upper, work *os.File
	undo        *os.File // what Apply was about to do
	log         *cow.Log
}

// openCopied opens the upper layer of the sandbox, whose codebase is open as root; nil if it has
// none. It empties the work directory. Others are kept away by the sandbox's lock.
func openCopied(b *boot.TreeParams, root int) (c *copied, err error) {
	if !b.Copied {
		return nil, nil // not copied
	}
	c = &copied{}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("open the changes of the sandbox: %w", err), c.close())
		}
	}()
	fd, err := unix.Open(statedir.Cow(b.Run), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	dir := os.NewFile(uintptr(fd), statedir.Cow(b.Run))
	c.dir = dir
	if err := finishRestore(dir); err != nil {
		return nil, err
	}
	for _, half := range []string{statedir.CowWork, statedir.CowComing, statedir.CowSnapshots + "/" + statedir.CowComing} {
		if err := rmtree.Remove(dir, half); err != nil {
			return nil, err
		}
	}
	if err := unix.Mkdirat(fd, statedir.CowWork, 0o700); err != nil {
		return nil, err
	}
	open := func(name string, flags int) *os.File {
		got, bad := unix.Openat(fd, name, flags|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
		if bad != nil {
			err = errors.Join(err, fmt.Errorf("%s: %w", name, bad))
			return nil
		}
		return os.NewFile(uintptr(got), name)
	}
	if err := searchable(fd, statedir.CowUpper); err != nil {
		return nil, err
	}
	c.upper = open(statedir.CowUpper, unix.O_RDONLY|unix.O_DIRECTORY)
	c.work = open(statedir.CowWork, unix.O_RDONLY|unix.O_DIRECTORY)
	log := open(statedir.CowLog, unix.O_RDWR|unix.O_NONBLOCK)
	c.undo = open(statedir.CowUndo, unix.O_RDWR|unix.O_NONBLOCK|unix.O_CREAT)
	if err == nil {
		cow.ReserveUndo(c.undo)
		c.log, err = cow.OpenLog(log) // closes it on an error
	}
	if err == nil {
		err = c.begin(root)
	}
	return c, err
}

// searchable gives the owner of the directory called name in dir all access, which the sandbox may
// have taken: no request finds its way through the codebase's own directory without.
func searchable(dir int, name string) error {
	var st unix.Stat_t
	if err := unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return err
	}
	if st.Mode&0o700 == 0o700 || st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return nil
	}
	return unix.Fchmodat(dir, name, st.Mode&0o7777|0o700, 0)
}

// begin prepares the upper layer as long as it is empty: its root has the mode and the times of
// the codebase, which the sandbox sees.
func (c *copied) begin(root int) error {
	if names, _ := c.upper.Readdirnames(1); len(names) > 0 {
		return nil
	}
	var st unix.Stat_t
	if err := unix.Fstat(root, &st); err != nil {
		return err
	}
	fd := int(c.upper.Fd())
	if err := unix.Fchmod(fd, st.Mode&0o1777|0o700); err != nil {
		return err
	}
	return unix.Futimes(fd, []unix.Timeval{
		{Sec: st.Atim.Sec, Usec: st.Atim.Nsec / 1000}, {Sec: st.Mtim.Sec, Usec: st.Mtim.Nsec / 1000},
	})
}

// options returns what fusefs.Serve needs; nil if the codebase is not copied.
func (c *copied) options() *fusefs.Copy {
	if c == nil {
		return nil
	}
	return &fusefs.Copy{Upper: int(c.upper.Fd()), Work: int(c.work.Fd()), Log: c.log}
}

// close closes the layer, but not the log, which a Server continues to use. c may be nil.
func (c *copied) close() error {
	if c == nil {
		return nil
	}
	return errors.Join(closeFile(c.dir), closeFile(c.upper), closeFile(c.work), closeFile(c.undo))
}

func closeFile(f *os.File) error {
	if f == nil {
		return nil
	}
	return f.Close()
}
