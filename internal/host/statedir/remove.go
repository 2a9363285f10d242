package statedir

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"wolffia/internal/sys/rmtree"
	"wolffia/internal/sys/step"
	"wolffia/runtime"
)

// What can be in a sandbox's directory, and in its run/, in the order in which it is removed.
var (
	recordNames = []string{
		shimFile, shimFile + ".new", lifetimeFile, lifetimeFile + ".new", limitsFile, limitsFile + ".new",
		pooledFile, pooledFile + ".new", configFile + ".new", "lock",
	}
	runNames = []string{
		"status.json", "status.json.new", pauseFile, pauseFile + ".new", socket, socketComing, pooledSocket,
		"log", auditLog, auditLog + ".1", networkLog, networkLog + ".1",
		"pointers.json", "pointers.json.new", "mnt", // of older versions
	}
)

// mostNames bounds the listing by removeNames: a hostile shim can make any number of names in
// run/. Of a directory with more names removeNames tries all that it knows.
const mostNames = 64

// Remove deletes the sandbox's directory, name by name: an unexpected mount or file stops
// it. It returns nil if the directory does not exist.
func (rec *Record) Remove() error {
	if err := removeAt(rec.path); err != nil {
		return runtime.Errorf(runtime.ErrUnavailable, "remove sandbox %s: %w", rec.id, err)
	}
	return nil
}

// RemoveFrom is Remove for the shim, which knows only its run directory.
func RemoveFrom(run string) error { return removeAt(filepath.Dir(run)) }

func removeAt(path string) error {
	// The configuration first: while it exists, the sandbox must be complete.
	if err := removeIfExists(filepath.Join(path, configFile)); err != nil {
		return err
	}
	step.Reached("remove: configuration gone")
	return errors.Join(
		removeNames(filepath.Join(path, "run"), []string{upperDir, workDir, usrUpperDir, usrWorkDir, CowMemory}, runNames),
		removeNames(path, []string{cowDir, gitDir}, recordNames),
	)
}

// removeNames deletes those trees and files that are in a directory, and the directory. It lists
// the directory first, in place of a system call for each name that can be there. Of a dir that is
// no directory, such as a link, only the name is deleted.
func removeNames(dir string, trees, files []string) error {
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	switch {
	case errors.Is(err, unix.ENOENT):
		return nil
	case errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ELOOP):
		return removeIfExists(dir)
	case err != nil:
		return &fs.PathError{Op: "open", Path: dir, Err: err}
	}
	parent := os.NewFile(uintptr(fd), dir)
	defer parent.Close()
	list, _ := namesIn(fd, dir, mostNames) // nil: each is tried
	there := func(name string) bool { return list == nil || slices.Contains(list, name) }
	var errs []error
	for _, name := range trees {
		if there(name) {
			errs = append(errs, rmtree.Remove(parent, name))
		}
	}
	step.Reached("remove: trees gone")
	for _, name := range files {
		if there(name) {
			errs = append(errs, unlinkIn(parent, name))
			step.Reached("remove: one more gone")
		}
	}
	err = unix.Rmdir(dir)
	if err != nil && !errors.Is(err, unix.ENOENT) && !(errors.Is(err, unix.ENOTEMPTY) && onlySilly(fd, dir)) {
		errs = append(errs, &fs.PathError{Op: "rmdir", Path: dir, Err: err})
	}
	step.Reached("remove: one more gone")
	return errors.Join(errs...)
}

// onlySilly reports whether all names in a directory are those of NFS for deleted files that are
// open, such as the lock of the caller. They go when that is closed, and [Dir.RemoveIncomplete]
// then deletes the directory.
func onlySilly(fd int, dir string) bool {
	if _, err := unix.Seek(fd, 0, unix.SEEK_SET); err != nil {
		return false
	}
	names, err := namesIn(fd, dir, mostNames)
	other := func(name string) bool { return !strings.HasPrefix(name, ".nfs") }
	return err == nil && len(names) > 0 && !slices.ContainsFunc(names, other)
}

// unlinkIn deletes a file or an empty directory, if it exists.
func unlinkIn(parent *os.File, name string) error {
	err := unix.Unlinkat(int(parent.Fd()), name, 0)
	if errors.Is(err, unix.EISDIR) || errors.Is(err, unix.EPERM) {
		err = unix.Unlinkat(int(parent.Fd()), name, unix.AT_REMOVEDIR)
	}
	if err == nil || errors.Is(err, unix.ENOENT) {
		return nil
	}
	return &fs.PathError{Op: "unlink", Path: filepath.Join(parent.Name(), name), Err: err}
}

// removeIfExists is os.Remove, but a missing file is not an error, and costs one system call.
func removeIfExists(path string) error {
	if err := unix.Unlink(path); err == nil || errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// RemoveIncomplete deletes the directory of a sandbox without a configuration, which a killed
// process has left. It does nothing if there is a configuration, or if another process is creating
// or removing the sandbox, or it is a pooled sandbox that lives. removed reports whether it
// deleted the directory. It calls first before that, for the directory of a pooled sandbox:
// processes may be left.
func (d *Dir) RemoveIncomplete(id string, first func(*Record) error) (removed bool, err error) {
	rec := d.Record(id)
	if rec.Pooled().IsAlive() {
		return false, nil
	}
	unlock, err := d.lock() // no process is creating it
	if err != nil {
		return false, err
	}
	if _, err := os.Lstat(rec.path); err != nil || !rec.IsIncomplete() {
		unlock()
		return false, nil // it does not exist
	}
	release, err := rec.tryAll()
	switch {
	case errors.Is(err, runtime.ErrConflict): // being removed, or taken
		unlock()
		return false, nil
	case errors.Is(err, runtime.ErrNotFound): // the lock is the last file to be removed, and one of the first to be created
		defer unlock()
	case err != nil:
		unlock()
		return false, err
	default:
		unlock() // its own lock is enough, and it may be large
		defer release()
		if !rec.IsIncomplete() { // it was taken before it ended
			return false, nil
		}
	}
	if rec.Pooled().WasPooled() {
		if err := first(rec); err != nil {
			return false, err
		}
	}
	err = rec.Remove()
	return err == nil, err
}
