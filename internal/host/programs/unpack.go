package programs

import (
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"wolffia/internal/sys/filelock"
	"wolffia/internal/sys/rmtree"
	"wolffia/internal/sys/statefile"
	"wolffia/internal/sys/step"
	"wolffia/internal/sys/tinyprogram"
	"wolffia/runtime"
)

const (
	// place is the directory in the state directory.
	place = "programs"
	// lockName is the file in it that is locked while something is unpacked or removed.
	lockName = "lock"
	// lockLimit is how long another process may take to unpack.
	lockLimit = 10 * time.Second
)

// unchanged is the time of change that an unpacked program gets. Any write, and any copy by
// cp, replaces it, so that a program with this time has the content that was checked.
var unchanged = time.Unix(1, 0)

func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// unpacked returns a carried program.
func (s *Set) unpacked(name string) (*Program, error) {
	path := filepath.Join(s.dir, place, s.build, name)
	f, err := s.open(path, name)
	if err != nil {
		if err = s.unpack(path, name); err == nil {
			f, err = s.open(path, name)
		}
	}
	if err == nil {
		return &Program{File: f, Path: path}, nil
	}
	why := err
	if f, err = s.memory(name); err != nil {
		return nil, runtime.Errorf(runtime.ErrUnavailable, "unpack %s, which %s carries: %w", name, s.path, err)
	}
	return &Program{File: f, Reason: why}, nil
}

// open opens an unpacked program if it is as unpack leaves it.
func (s *Set) open(path, name string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	var st unix.Stat_t
	var fs unix.Statfs_t
	err = errors.Join(unix.Fstat(int(f.Fd()), &st), unix.Fstatfs(int(f.Fd()), &fs))
	switch e := s.entries[name]; {
	case err != nil:
	case st.Mode != unix.S_IFREG|0o555 || int(st.Uid) != os.Geteuid() || st.Nlink != 1 ||
		st.Size != e.Size || st.Mtim.Sec != unchanged.Unix() || st.Mtim.Nsec != 0:
		err = fmt.Errorf("%s was changed", path)
	case fs.Flags&unix.ST_NOEXEC != 0:
		err = fmt.Errorf("%s cannot be executed: its file system is mounted noexec", path)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// unpack makes the file at path, or replaces the file there. Processes that have the old one
// open keep it.
func (s *Set) unpack(path, name string) error {
	for _, dir := range []string{filepath.Join(s.dir, place), filepath.Dir(path)} {
		if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
			return err
		}
	}
	release, err := lock(s.dir)
	if err != nil {
		return err
	}
	defer release()
	if f, err := s.open(path, name); err == nil {
		return f.Close() // another process was faster
	}
	coming := path + statefile.Coming
	// of a process that was killed
	if err := os.Remove(coming); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	f, err := os.OpenFile(coming, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	err = s.copy(f, name)
	if err == nil {
		err = errors.Join(f.Chmod(0o555), os.Chtimes(coming, unchanged, unchanged), f.Sync())
	}
	if err = errors.Join(err, f.Close()); err == nil {
		step.Reached("programs: unpacked")
		err = os.Rename(coming, path)
	}
	if err != nil {
		_ = os.Remove(coming)
		return err
	}
	return statefile.Sync(filepath.Dir(path))
}

// copy writes a carried program, and checks that it is whole.
func (s *Set) copy(w io.Writer, name string) error {
	e := s.entries[name]
	from := io.Reader(io.NewSectionReader(s.Wolffia, e.Offset, e.Stored))
	if e.Gzip {
		var err error
		if from, err = gzip.NewReader(from); err != nil {
			return err
		}
	}
	sum := sha256.New()
	n, err := io.Copy(io.MultiWriter(w, sum), io.LimitReader(from, e.Size+1))
	if err != nil {
		return err
	}
	if got := hex.EncodeToString(sum.Sum(nil)); n != e.Size || got != e.SHA256 {
		return fmt.Errorf("it is damaged: its digest is %s and must be %s: install wolffia again", got, e.SHA256)
	}
	return nil
}

// memory returns a carried program as a sealed file in memory.
func (s *Set) memory(name string) (*os.File, error) {
	f, err := tinyprogram.Sealed(name, func(w io.Writer) error { return s.copy(w, name) })
	if err != nil {
		return nil, err
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// lock takes the lock of the unpacked programs.
func lock(dir string) (release func(), err error) {
	f, err := os.OpenFile(filepath.Join(dir, place, lockName), os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o600)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(context.Background(), lockLimit, filelock.ErrHeld)
	defer cancel()
	return filelock.Wait(ctx, f, unix.F_WRLCK, 0, 0)
}

// Prune removes what other builds of wolffia have unpacked. Sandboxes that use it keep it,
// and a wolffia of that build unpacks it again.
func (s *Set) Prune() error {
	builds, err := os.ReadDir(filepath.Join(s.dir, place))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	release, err := lock(s.dir)
	if err != nil {
		return err
	}
	defer release()
	var errs []error
	for _, b := range builds {
		if b.IsDir() && b.Name() != s.build {
			errs = append(errs, rmtree.RemovePath(filepath.Join(s.dir, place), b.Name()))
		}
	}
	return errors.Join(errs...)
}
