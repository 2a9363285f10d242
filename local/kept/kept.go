// Package kept has the files of sandboxes' kept memory, below statedir.Cow: what a snapshot has, and
// what the next start restores.
package kept

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"wolffia/internal/host/boot"
	"wolffia/internal/host/statedir"
	"wolffia/internal/sys/beneath"
	"wolffia/internal/sys/rmtree"
	"wolffia/runtime"
	"wolffia/runtime/launch"
)

// SnapshotsDir opens the directory of a sandbox's snapshots, which it makes if there is none yet.
func SnapshotsDir(rec *statedir.Record) (*os.File, error) {
	cow, err := Dir(rec)
	if err != nil {
		return nil, err
	}
	defer cow.Close()
	err = unix.Mkdirat(int(cow.Fd()), statedir.CowSnapshots, 0o700)
	if errors.Is(err, unix.EEXIST) {
		err = nil
	} else if err == nil {
		err = ownAs(cow, cow, statedir.CowSnapshots, 0o700)
	}
	fd := -1
	if err == nil {
		fd, err = beneath.Open(int(cow.Fd()), statedir.CowSnapshots, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	}
	if err != nil {
		return nil, runtime.Errorf(runtime.ErrUnavailable, "snapshots of sandbox %s: %w", rec.ID(), err)
	}
	return os.NewFile(uintptr(fd), filepath.Join(cow.Name(), statedir.CowSnapshots)), nil
}

// Dir opens what statedir.Cow returns, which it makes for a sandbox without a copied codebase.
func Dir(rec *statedir.Record) (*os.File, error) {
	path := statedir.Cow(rec.Run())
	if err := unix.Mkdir(path, 0o700); err != nil && !errors.Is(err, unix.EEXIST) {
		return nil, runtime.Errorf(runtime.ErrUnavailable, "snapshots of sandbox %s: %w", rec.ID(), err)
	}
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, runtime.Errorf(runtime.ErrUnavailable, "snapshots of sandbox %s: %w", rec.ID(), err)
	}
	return os.NewFile(uintptr(fd), path), nil
}

// Make makes an empty directory that the shim's user may write to.
func Make(in *os.File, name string, c *statedir.Config) (*os.File, error) {
	if err := unix.Mkdirat(int(in.Fd()), name, 0o700); err != nil {
		return nil, err
	}
	fd, err := beneath.Open(int(in.Fd()), name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	dir := os.NewFile(uintptr(fd), name)
	if c.DroppedUID != 0 {
		if err := dir.Chown(c.DroppedUID, c.DroppedGID); err != nil {
			return nil, errors.Join(err, dir.Close())
		}
	}
	return dir, nil
}

// Own gives a directory that a shim has filled to the owner of another one, the tree server's
// user. Both are this process's user unless that is root.
func Own(dir, as *os.File) error {
	for i, name := range launch.MemoryFiles {
		mode := uint32(0o444) // what restores it has it open; the directory shows it to no other user
		if i == 0 {
			mode = 0o600
		}
		if err := ownAs(as, dir, name, mode); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return ownAs(as, dir, ".", 0o700)
}

// ownAs gives a name in a directory a mode, and to the owner of another directory.
func ownAs(as, dir *os.File, name string, mode uint32) error {
	var want, st unix.Stat_t
	if err := unix.Fstat(int(as.Fd()), &want); err != nil {
		return err
	}
	fd, err := unix.Openat(int(dir.Fd()), name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if kind := st.Mode & unix.S_IFMT; kind != unix.S_IFDIR && (kind != unix.S_IFREG || st.Nlink != 1) {
		return errors.New("is not a regular file with one name")
	}
	if err := unix.Fchmod(fd, mode); err != nil {
		return err
	}
	if st.Uid == want.Uid && st.Gid == want.Gid {
		return nil
	}
	return unix.Fchown(fd, int(want.Uid), int(want.Gid))
}

// Copy copies the memory of a directory below statedir.Cow, which has nothing else, to a new
// directory called name in the directory to, which is below it too.
func Copy(rec *statedir.Record, from, to, name string) error {
	cow, err := Dir(rec)
	if err != nil {
		return err
	}
	defer cow.Close()
	below := func(path string) (*os.File, error) {
		fd, err := beneath.Open(int(cow.Fd()), path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
		if err != nil {
			return nil, err
		}
		return os.NewFile(uintptr(fd), filepath.Join(cow.Name(), path)), nil
	}
	in, err := below(from)
	if errors.Is(err, unix.ENOENT) {
		return runtime.Errorf(runtime.ErrNotFound, "there is no snapshot %s", filepath.Base(from))
	}
	if err != nil {
		return runtime.WithClass(runtime.ErrUnavailable, err)
	}
	defer in.Close()
	if err = unix.Mkdirat(int(cow.Fd()), filepath.Join(to, name), 0o700); err == nil {
		var out *os.File
		if out, err = below(filepath.Join(to, name)); err == nil {
			err = errors.Join(boot.CopyMemory(in, out), out.Close())
		}
	}
	if err != nil {
		return runtime.WithClass(runtime.ErrUnavailable, errors.Join(err, rmtree.Remove(cow, filepath.Join(to, name))))
	}
	return nil
}

// Open opens launch.MemoryFiles of the memory that the next start of a sandbox restores: that of a
// snapshot, or the one with which it hibernates; nil: none. The caller closes them. The caller holds
// the sandbox's lock.
func Open(rec *statedir.Record, c *statedir.Config) (files []*os.File, err error) {
	defer func() {
		if err != nil {
			closeAll(files)
			files, err = nil, runtime.Errorf(runtime.ErrUnavailable,
				"kept memory of sandbox %s: %w: wolffia stop %[1]s gives it up", rec.ID(), err)
		}
	}()
	for _, path := range []string{statedir.Cow(rec.Run()), rec.Run()} {
		in, err := os.OpenFile(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		files, err = openIn(in, c)
		_ = in.Close()
		if files != nil || err != nil {
			return files, err
		}
	}
	return nil, nil
}

// openIn is Open for the directory that statedir.CowMemory is in, or will be.
func openIn(in *os.File, c *statedir.Config) (files []*os.File, err error) {
	dir, err := next(in)
	if err != nil || dir == nil {
		return nil, err
	}
	defer dir.Close()
	for i, name := range launch.MemoryFiles {
		access := unix.O_RDONLY
		if i == 0 {
			access = unix.O_RDWR
		}
		fd, err := unix.Openat(int(dir.Fd()), name, access|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
		if errors.Is(err, unix.ENOENT) && i == 0 { // it was not completed
			return nil, rmtree.Remove(in, statedir.CowMemory)
		}
		if err != nil {
			return files, fmt.Errorf("%s: %w", name, err)
		}
		files = append(files, os.NewFile(uintptr(fd), name))
		var st unix.Stat_t
		if err := unix.Fstat(fd, &st); err != nil {
			return files, err
		}
		if st.Mode&unix.S_IFMT != unix.S_IFREG || int(st.Uid) != os.Geteuid() && int(st.Uid) != c.DroppedUID {
			return files, fmt.Errorf("%s: is of another user, or not a regular file", name)
		}
		if i == 0 && st.Nlink > 1 { // the start clears it
			return files, fmt.Errorf("%s: has a second name", name)
		}
		if i == 0 && st.Size == 0 { // a start has restored it
			closeAll(files)
			return nil, rmtree.Remove(in, statedir.CowMemory)
		}
	}
	return files, nil
}

// next opens the directory of the memory that is or will be in cow: a Restore that was killed
// goes on at the next start.
func next(cow *os.File) (*os.File, error) {
	fd, err := beneath.Open(int(cow.Fd()), statedir.CowRestored, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if errors.Is(err, unix.ENOENT) {
		return boot.OpenMemoryDir(cow)
	}
	if err != nil {
		return nil, err
	}
	restored := os.NewFile(uintptr(fd), statedir.CowRestored)
	defer restored.Close()
	dir, err := boot.OpenMemoryDir(restored)
	var st unix.Stat_t
	if dir != nil || err != nil || unix.Fstatat(fd, statedir.CowUpper, &st, unix.AT_SYMLINK_NOFOLLOW) == nil {
		return dir, err
	}
	return boot.OpenMemoryDir(cow)
}

// Exists reports whether the next start of a sandbox may restore a memory.
func Exists(rec *statedir.Record) bool {
	_, err := os.Lstat(filepath.Join(statedir.Cow(rec.Run()), statedir.CowMemory))
	return err == nil || Hibernates(rec)
}

// Hibernates reports whether a sandbox that does not run has kept its memory as it ended.
func Hibernates(rec *statedir.Record) bool { return Is(rec.Run()) }

// Is reports whether a directory has a complete memory that no start has restored: that of a
// snapshot, or statedir.Cow of a sandbox whose next start restores it.
func Is(in string) bool {
	info, err := os.Lstat(filepath.Join(in, statedir.CowMemory, statedir.MemoryRecord))
	return err == nil && info.Size() > 0
}

// Forget removes the memory that the next start of a sandbox would restore. The caller holds
// the sandbox's lock.
func Forget(rec *statedir.Record) error {
	err := errors.Join(rmtree.RemovePath(statedir.Cow(rec.Run()), statedir.CowMemory), Wake(rec))
	if err != nil {
		return runtime.Errorf(runtime.ErrUnavailable, "remove the kept memory of sandbox %s: %w", rec.ID(), err)
	}
	return nil
}

// Wake removes the memory with which a sandbox hibernates, as Forget.
func Wake(rec *statedir.Record) error { return statedir.ForgetMemory(rec.Run()) }

// ForgetUsed is Forget of a memory that was restored, while the sandbox runs: it may hibernate again
// meanwhile.
func ForgetUsed(rec *statedir.Record) error {
	return errors.Join(forgetUsed(statedir.Cow(rec.Run())), forgetUsed(rec.Run()))
}

// forgetUsed is ForgetUsed for the directory that statedir.CowMemory may be in.
func forgetUsed(in string) error {
	info, err := os.Lstat(filepath.Join(in, statedir.CowMemory, launch.MemoryFiles[0]))
	if err != nil || info.Size() > 0 {
		return nil
	}
	return rmtree.RemovePath(in, statedir.CowMemory)
}

func closeAll(files []*os.File) {
	for _, f := range files {
		_ = f.Close()
	}
}
