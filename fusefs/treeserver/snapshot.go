package treeserver

import (
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"wolffia/fusefs/cow"
	"wolffia/internal/host/boot"
	"wolffia/internal/host/statedir"
	"wolffia/internal/sys/beneath"
	"wolffia/internal/sys/rmtree"
	"wolffia/internal/sys/step"
)

// copyLayers copies layers, which are in the directory from, to the new directory called name in
// dir, in place of one that is not complete; with memory also the memory that from may have.
func copyLayers(l *cow.Layers, from, dir *os.File, name string, memory bool) error {
	if err := rmtree.Remove(dir, name); err != nil {
		return err
	}
	if err := unix.Mkdirat(int(dir.Fd()), name, 0o700); err != nil {
		return err
	}
	to, err := openBelow(int(dir.Fd()), name)
	if err != nil {
		return err
	}
	defer to.Close()
	if err := unix.Mkdirat(int(to.Fd()), statedir.CowUpper, 0o700); err != nil {
		return err
	}
	upper, err := openBelow(int(to.Fd()), statedir.CowUpper)
	if err != nil {
		return err
	}
	defer upper.Close()
	fd, err := beneath.Open(int(to.Fd()), statedir.CowLog, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	log := os.NewFile(uintptr(fd), statedir.CowLog)
	err = l.Copy(int(upper.Fd()), log)
	if err = errors.Join(err, log.Close(), copyHosts(from, to)); err == nil && memory {
		err = boot.CopyMemory(from, to)
	}
	if err != nil {
		return errors.Join(err, rmtree.Remove(dir, name))
	}
	return nil
}

// copyHosts copies statedir.CowHosts, if the directory from has it.
func copyHosts(from, to *os.File) error {
	fd, err := beneath.Open(int(from.Fd()), statedir.CowHosts, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return err
	}
	in := os.NewFile(uintptr(fd), statedir.CowHosts)
	defer in.Close()
	const flags = unix.O_WRONLY | unix.O_CREAT | unix.O_EXCL | unix.O_NOFOLLOW
	if fd, err = beneath.Open(int(to.Fd()), statedir.CowHosts, flags, 0o600); err != nil {
		return err
	}
	out := os.NewFile(uintptr(fd), statedir.CowHosts)
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

// finishRestore replaces the upper layer and its log by those of statedir.CowRestored, if that
// exists. After a crash it continues.
func finishRestore(dir *os.File) error {
	from, err := openBelow(int(dir.Fd()), statedir.CowRestored)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return err
	}
	defer from.Close()
	var st unix.Stat_t
	if unix.Fstatat(int(from.Fd()), statedir.CowUpper, &st, unix.AT_SYMLINK_NOFOLLOW) == nil {
		if err := rmtree.Remove(dir, statedir.CowUpper); err != nil {
			return err
		}
		if err := rmtree.Remove(dir, statedir.CowMemory); err != nil { // of another past
			return err
		}
		step.Reached("restore: changes gone")
	}
	for _, name := range statedir.CowParts {
		if err := unix.Renameat(int(from.Fd()), name, int(dir.Fd()), name); err != nil && !errors.Is(err, unix.ENOENT) {
			return err
		}
		step.Reached("restore: one more in place")
	}
	return unix.Unlinkat(int(dir.Fd()), statedir.CowRestored, unix.AT_REMOVEDIR)
}
