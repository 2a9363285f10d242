// Package statefile is the one way to access the files of the state directory. Some of them
// can be written by processes that a sandbox may control: so no link is followed, no FIFO
// is waited for, and reads are bounded.
package statefile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"wolffia/internal/sys/step"
)

// Coming is the suffix of the name under which a new version of a file is written.
const Coming = ".new"

// MaxFile bounds the bytes that Read reads.
const MaxFile = 16 << 20

// Read decodes the JSON in a regular file, of which it reads MaxFile bytes, into v.
func Read(path string, v any) error {
	b, err := ReadBytes(path, MaxFile)
	if err != nil {
		return err
	}
	return json.Unmarshal(b, v)
}

// ReadBytes returns the first bytes, most or less, of a regular file. It does not follow a
// link, and does not block.
func ReadBytes(path string, most int64) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !st.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", path)
	}
	// io.ReadAll would grow it thirteen times for a configuration
	b := bytes.NewBuffer(make([]byte, 0, min(st.Size(), most)+bytes.MinRead))
	_, err = b.ReadFrom(io.LimitReader(f, most))
	return b.Bytes(), err
}

// Text is JSON as it is written, in the place of a value.
type Text []byte

func encode(v any) ([]byte, error) {
	if text, ok := v.(Text); ok {
		return text, nil
	}
	return json.Marshal(v)
}

// Write replaces the file at path by one with v as JSON: other processes read the old
// file or the new one.
func Write(path string, v any) error {
	b, err := encode(v)
	if err != nil {
		return err
	}
	return replace(path, b, false)
}

// Prepare makes ready for one [WritePrepared]: to make a name and an inode takes most
// of the time of a Write, and waits for others that write to the disk.
func Prepare(path string) error { return create(path+Coming, nil, false) }

// WritePrepared is Write after [Prepare]. Without that, or if a killed process has begun to write,
// it is Write.
func WritePrepared(path string, v any) error {
	b, err := encode(v)
	if err != nil {
		return err
	}
	f := prepared(path + Coming)
	if f == nil {
		return replace(path, b, false)
	}
	_, err = f.Write(b)
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	step.Reached("file: written")
	return unix.Rename(path+Coming, path)
}

// prepared opens the file of Prepare; nil: no empty one exists.
func prepared(path string) *os.File {
	fd, err := open(path, unix.O_WRONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC)
	if err != nil {
		return nil
	}
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil || st.Mode != unix.S_IFREG|0o600 || st.Nlink != 1 || st.Size != 0 {
		_ = unix.Close(fd)
		return nil
	}
	return os.NewFile(uintptr(fd), path)
}

// WriteSync is Write, and the same holds after a crash of the machine once it returns.
func WriteSync(path string, v any) error {
	b, err := encode(v)
	if err != nil {
		return err
	}
	return WriteBytes(path, b)
}

// WriteBytes is WriteSync for content that is not JSON.
func WriteBytes(path string, b []byte) error { return replace(path, b, true) }

func replace(path string, b []byte, durable bool) error {
	if err := create(path+Coming, b, durable); err != nil {
		return err
	}
	step.Reached("file: written")
	if err := os.Rename(path+Coming, path); err != nil || !durable {
		return err
	}
	return Sync(filepath.Dir(path))
}

// Create makes a file with mode 0600, in the place of a file of any kind but a directory,
// which is an error. After an error the file does not exist.
func Create(path string, b []byte) error { return create(path, b, false) }

// create opens the file without package os, which asks the poller first: it is on the way of each
// start.
func create(path string, b []byte, durable bool) error {
	const flags = unix.O_WRONLY | unix.O_CREAT | unix.O_EXCL | unix.O_CLOEXEC
	fd, err := open(path, flags)
	if errors.Is(err, unix.EEXIST) {
		_ = unix.Unlink(path) // what a killed process has left; to open a FIFO could block
		fd, err = open(path, flags)
	}
	if err != nil {
		return &os.PathError{Op: "open", Path: path, Err: err}
	}
	f := os.NewFile(uintptr(fd), path)
	if err = unix.Fchmod(fd, 0o600); err == nil { // whatever the umask
		_, err = f.Write(b)
	}
	if err == nil && durable {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, os.Remove(path))
	}
	return nil
}

// open is open(2), again if a signal interrupts it.
func open(path string, flags int) (fd int, err error) {
	for {
		fd, err = unix.Open(path, flags, 0o600)
		if !errors.Is(err, unix.EINTR) {
			return fd, err
		}
	}
}

// Sync writes a file, or the names in a directory, to the disk (fsync(2)).
func Sync(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
