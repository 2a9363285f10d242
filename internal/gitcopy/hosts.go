package gitcopy

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"wolffia/internal/statefile"
)

// Number returns the number of the host's git directory at the absolute path at, in the file called name of dir, which is open for
// reading; it gets the next one if it has none. give is called with the path of the file if that was written, to give it to the
// user of the tree server; nil does nothing. A Copier sees it when it is asked for the number. It waits for other calls, in any
// process.
func Number(dir *os.File, name, at string, give func(path string) error) (n int, err error) {
	n, _, err = number(dir, name, at, give)
	return n, err
}

func number(dir *os.File, name, at string, give func(path string) error) (n int, all []string, err error) {
	lock, err := os.Open(dir.Name()) // flock(2) is of one open file, and dir may be open for long
	if err != nil {
		return -1, nil, err
	}
	defer lock.Close()
	for {
		if err = unix.Flock(int(lock.Fd()), unix.LOCK_EX); !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if err != nil {
		return -1, nil, fmt.Errorf("lock %s: %w", dir.Name(), err)
	}
	if all, err = readHosts(dir, name); err != nil {
		return -1, nil, err
	}
	if n = slices.Index(all, at); n >= 0 {
		return n, all, nil
	}
	all = append(all, at)
	path := filepath.Join(dir.Name(), name)
	if err := statefile.Write(path, all); err != nil {
		return -1, nil, fmt.Errorf("record the host's git directory %s: %w", at, err)
	}
	if give != nil {
		if err := give(path); err != nil {
			return -1, nil, err
		}
	}
	return len(all) - 1, all, nil
}

func readHosts(dir *os.File, name string) (all []string, err error) {
	err = statefile.Read(filepath.Join(dir.Name(), name), &all)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read %s of the private git directories: %w", name, err)
	}
	return all, nil
}

// ShownAt returns the path, in a private git directory, of what is shown of the host's git directory with that number.
func ShownAt(n int) string { return hostsName + "/" + strconv.Itoa(n) }

// ShownParts returns the directories in ShownAt.
func ShownParts(shown string) []string { return []string{shown + "/objects", shown + "/lfs"} }
