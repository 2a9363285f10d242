package gitcopy

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"wolffia/internal/sys/filelock"
	"wolffia/internal/sys/statefile"
)

// lockLimit is how long a change of the list waits for other changes, each of which writes one
// small file.
const lockLimit = 30 * time.Second

// Number returns the number of the host's git directory at the absolute path at, in the file called
// name of dir, which is open for reading. A directory without a number gets the next one. Number
// calls chown with the path of the file if it has written the file, so that the file belongs to the
// user of the tree server; chown may be nil. A Copier sees the number when it is asked for it.
// Number waits for other calls, in any process, until ctx ends, or for half a minute.
func Number(ctx context.Context, dir *os.File, name, at string, chown func(path string) error) (n int, err error) {
	n, _, err = number(ctx, dir, name, at, chown)
	return n, err
}

func number(ctx context.Context, dir *os.File, name, at string, chown func(path string) error) (n int, all []string, err error) {
	all, err = changeHosts(ctx, dir, name, chown, func(hosts []string) []string {
		if n = slices.Index(hosts, at); n < 0 {
			n, hosts = len(hosts), append(hosts, at)
		}
		return hosts
	})
	return n, all, err
}

// changeHosts replaces the list in the file called name of dir by what change makes of it, and
// returns that.
func changeHosts(ctx context.Context, dir *os.File, name string, chown func(path string) error, change func(hosts []string) []string) ([]string, error) {
	late := fmt.Errorf("another wolffia process uses %s", dir.Name())
	ctx, cancel := context.WithTimeoutCause(ctx, lockLimit, late)
	defer cancel()
	release, err := filelock.Flock(ctx, dir.Name())
	if err != nil {
		return nil, err
	}
	defer release()
	hosts, err := readHosts(dir, name)
	if err != nil {
		return nil, err
	}
	all := change(slices.Clone(hosts))
	if slices.Equal(all, hosts) {
		return all, nil
	}
	path := filepath.Join(dir.Name(), name)
	if err := statefile.Write(path, all); err != nil {
		return nil, fmt.Errorf("record the host's git directories: %w", err)
	}
	if chown != nil {
		err = chown(path)
	}
	return all, err
}

func readHosts(dir *os.File, name string) (all []string, err error) {
	err = statefile.Read(filepath.Join(dir.Name(), name), &all)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read %s of the private git directories: %w", name, err)
	}
	return all, nil
}

// ShownAt returns the path, in a private git directory, of the shown parts of the host's git
// directory with that number.
func ShownAt(n int) string { return hostsName + "/" + strconv.Itoa(n) }
