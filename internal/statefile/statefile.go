// Package statefile is the one way to access the files of the state directory. Some of them
// can be written by processes that a sandbox may control: so no link is followed, and
// reads are bounded.
package statefile

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"wolffia/internal/step"
)

// Coming is the suffix of the name under which a new version of a file is written.
const Coming = ".new"

// maxFile bounds the bytes that Read reads.
const maxFile = 16 << 20

// Read decodes the JSON in a regular file of at most 16 MiB into v. It does not follow a
// link.
func Read(path string, v any) error {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return err
	}
	if !st.Mode().IsRegular() {
		return fmt.Errorf("%s is not a regular file", path)
	}
	b, err := io.ReadAll(io.LimitReader(f, maxFile))
	if err != nil {
		return err
	}
	return json.Unmarshal(b, v)
}

// Write replaces the file at path by one with v as JSON: other processes read the old
// file or the new one.
func Write(path string, v any) error { return write(path, v, false) }

// WriteSync is Write, and the same holds after a crash of the machine once it returns.
func WriteSync(path string, v any) error { return write(path, v, true) }

func write(path string, v any, durable bool) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if err = Create(path+Coming, b); err == nil && durable {
		err = Sync(path + Coming)
	}
	if err != nil {
		_ = os.Remove(path + Coming)
		return err
	}
	step.Reached("file: written")
	if err := os.Rename(path+Coming, path); err != nil || !durable {
		return err
	}
	return Sync(filepath.Dir(path))
}

// Create makes a file, or overwrites one, with mode 0600.
func Create(path string, b []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	return errors.Join(err, f.Close())
}

// Sync writes a file, or the names in a directory, to the disk (fsync(2)).
func Sync(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
