package hostpath

import (
	"errors"
	"io/fs"
	"iter"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// distrusted are the functions that [Distrust] was given, by their keys.
var distrusted sync.Map

// Distrust has this process execute no program of PATH that is in one of the places, where
// sandboxes write: the virtual environment of a project is such a directory. places is called for
// an entry of PATH that not only root can change, and possibly concurrently; with an error of it
// no such entry is used. It replaces the function of the same key, such as a state directory.
// Distrust is safe for concurrent use.
func Distrust(key string, places func() ([]string, error)) { distrusted.Store(key, places) }

// Places returns the places that [Distrust] names, without symbolic links. The error is that of a
// function that Distrust was given. It is safe for concurrent use.
func Places() (all []string, err error) {
	distrusted.Range(func(_, places any) bool {
		more, failed := places.(func() ([]string, error))()
		all, err = append(all, more...), errors.Join(err, failed)
		return true
	})
	return all, err
}

// Look returns the absolute path of a program in PATH, like [exec.LookPath], without the entries
// that [Distrust] names. It is safe for concurrent use.
func Look(name string) (string, error) {
	places := sync.OnceValues(Places)
	for program := range programs(name) {
		if trusted(program, places) {
			return program, nil
		}
	}
	return "", &exec.Error{Name: name, Err: exec.ErrNotFound}
}

// Path returns PATH for a process that looks for programs of these names: as it is if each name
// leads to a program that [Look] returns, or to none; else without the entries that [Distrust]
// names. It is safe for concurrent use.
func Path(names ...string) string {
	places := sync.OnceValues(Places)
	for _, name := range names {
		for program := range programs(name) {
			if !trusted(program, places) {
				return strings.Join(slices.DeleteFunc(entries(), func(dir string) bool { return !trusted(dir, places) }), ":")
			}
			break
		}
	}
	return os.Getenv("PATH")
}

// entries returns the absolute directories of PATH.
func entries() []string {
	return slices.DeleteFunc(filepath.SplitList(os.Getenv("PATH")), func(dir string) bool { return !filepath.IsAbs(dir) })
}

// programs yields the programs of a name, in the order of PATH.
func programs(name string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, dir := range entries() {
			program := filepath.Join(dir, name)
			if st, err := os.Stat(program); err == nil && st.Mode().IsRegular() && unix.Access(program, unix.X_OK) == nil && !yield(program) {
				return
			}
		}
	}
}

// Trusted reports whether no sandbox can have put the file or directory at an absolute path there. It
// is safe for concurrent use.
func Trusted(path string) bool { return trusted(path, Places) }

// trusted reports whether no sandbox can have put a file or directory where it is. It calls places
// only if others than root could have.
func trusted(path string, places func() ([]string, error)) bool {
	if os.Geteuid() != 0 && onlyRoot(path) { // root's own sandboxes make files of root's
		return true
	}
	all, err := places()
	if err != nil {
		return false
	}
	_, place, err := Resolve(path, all)
	return err == nil && place == ""
}

// onlyRoot reports whether only root can change where a path leads.
func onlyRoot(path string) bool {
	_, err := follow(path, func(at string, st fs.FileInfo) error {
		own, is := st.Sys().(*syscall.Stat_t)
		if !is || own.Uid != 0 || st.Mode()&fs.ModeSymlink == 0 && st.Mode().Perm()&0o022 != 0 {
			return fs.ErrPermission
		}
		return nil
	})
	return err == nil
}
