package shell

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// A dir is a session's directory. All that is in it may have been put there by
// a hostile process: names are never followed, and what is opened is checked.
type dir struct {
	path  string
	probe bool // the file system keeps access times
	text  int  // the file c, open to write; -1: not yet
}

// names are all that the guest ever puts into the directory, but for the
// numbered files of jobs.
var names = []string{"c", "s", "i", "o", "e", "x", "w", "f", "a"}

func newDir(path string) (*dir, error) {
	if err := os.Mkdir(path, 0o700); err != nil {
		return nil, err
	}
	d := &dir{path: path, text: -1}
	if err := d.write("c", []byte("x")); err != nil {
		_ = os.Remove(path)
		return nil, err
	}
	if _, err := os.ReadFile(path + "/c"); err == nil {
		d.probe = d.wasRead()
	}
	return d, nil
}

// remove deletes what the guest has made; what others have put there stays.
func (d *dir) remove() {
	d.dropText()
	for _, n := range names {
		_ = os.Remove(d.path + "/" + n)
	}
	_ = os.Remove(d.path)
}

// write makes the file name with this content, and marks it as not read.
func (d *dir) write(name string, content []byte) error {
	fd, err := d.create(name)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return d.fill(fd, name, content)
}

// writeText is write for the file c, which stays open, since every command
// needs it.
func (d *dir) writeText(content []byte) error {
	if d.text >= 0 {
		var st unix.Stat_t
		if unix.Fstat(d.text, &st) == nil && st.Nlink == 1 && d.fill(d.text, "c", content) == nil {
			return nil
		}
		d.dropText() // somebody has deleted or moved it
	}
	fd, err := d.create("c")
	if err != nil {
		return err
	}
	d.text = fd
	return d.fill(fd, "c", content)
}

func (d *dir) dropText() { closeFD(&d.text) }

// create opens the file name to write, and makes it if it is none.
func (d *dir) create(name string) (int, error) {
	path := d.path + "/" + name
	// Not truncated at first: to replace all of a file has ext4 write it to
	// disk when it is closed (auto_da_alloc, ext4(5)).
	fd, err := unix.Open(path, unix.O_WRONLY|unix.O_CREAT|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0o600)
	if err == nil {
		if isType(fd, unix.S_IFREG) {
			return fd, nil
		}
		_ = unix.Close(fd)
	}
	if errors.Is(err, unix.ENOENT) {
		_ = os.Mkdir(d.path, 0o700)
	}
	_ = os.Remove(path)
	if fd, err = unix.Open(path, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600); err != nil {
		return -1, fmt.Errorf("session directory: %w", err)
	}
	return fd, nil
}

// fill replaces the content of the open file name.
func (d *dir) fill(fd int, name string, content []byte) error {
	var st unix.Stat_t
	err := unix.Fstat(fd, &st)
	for at := 0; err == nil && at < len(content); {
		var n int
		n, err = unix.Pwrite(fd, content[at:], int64(at))
		at += n
	}
	if err == nil && st.Size > int64(len(content)) {
		err = unix.Ftruncate(fd, int64(len(content)))
	}
	if err != nil {
		return fmt.Errorf("session directory: %w", err)
	}
	// A read then moves the access time, with relatime too (mount(8)).
	ts := [2]unix.Timespec{{}, {Nsec: unix.UTIME_OMIT}}
	return unix.UtimesNanoAt(unix.AT_FDCWD, d.path+"/"+name, ts[:], unix.AT_SYMLINK_NOFOLLOW)
}

// wasRead reports whether somebody has read the text since it was written,
// also if it has been deleted meanwhile: one that was run must not be run again.
func (d *dir) wasRead() bool {
	var st unix.Stat_t
	if d.text < 0 || unix.Fstat(d.text, &st) != nil {
		if unix.Lstat(d.path+"/c", &st) != nil {
			return false
		}
	}
	return st.Atim.Sec != 0 || st.Atim.Nsec != 0
}

// fifo makes the FIFO name anew.
func (d *dir) fifo(name string) error {
	path := d.path + "/" + name
	_ = os.Remove(path)
	err := unix.Mkfifo(path, 0o600)
	if errors.Is(err, unix.ENOENT) {
		_ = os.Mkdir(d.path, 0o700)
		err = unix.Mkfifo(path, 0o600)
	}
	if err != nil {
		return fmt.Errorf("session directory: %w", err)
	}
	return nil
}

// open opens the FIFO name without waiting, and makes it if it is none.
func (d *dir) open(name string, flags int) (int, error) {
	for try := 0; ; try++ {
		fd, err := unix.Open(d.path+"/"+name, flags|unix.O_NONBLOCK|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err == nil && isType(fd, unix.S_IFIFO) {
			return fd, nil
		}
		if err == nil {
			_ = unix.Close(fd)
			err = unix.EINVAL
		}
		if try > 0 {
			return -1, fmt.Errorf("session directory: %s: %w", name, err)
		}
		if err := d.fifo(name); err != nil {
			return -1, err
		}
	}
}

func isType(fd int, want uint32) bool {
	var st unix.Stat_t
	return unix.Fstat(fd, &st) == nil && st.Mode&unix.S_IFMT == want
}
