package session

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"wolffia/internal/sys/proc"
	"wolffia/session/dialect"
)

// A dir is a session's directory, with names that cannot be listed or guessed, as a protection
// against processes of earlier commands. Descriptors that no other process can open would not do:
// a running shell takes only files that it opens by a path, and its programs inherit the shell's
// descriptors. A hostile process may still have put anything there. So names are looked up in the
// directory that the guest has open, links are never followed, and each opened file is checked.
type dir struct {
	path string
	fd   int   // the directory
	user *User // the shells'; nil: PID 1's
	text text
}

// dirMode is a directory that no process can list.
const dirMode = 0o300

// token returns a part of a name that cannot be guessed: 65 random bits, in
// letters and digits that no shell gives a meaning.
func token() string { return rand.Text()[:dialect.NameSize] }

// newDir makes a directory for a session of a user; nil: PID 1's.
func (m *Manager) newDir(u *User) (_ *dir, err error) {
	m.mu.Lock()
	if m.next++; m.next == 1 {
		_ = os.Chmod(m.host.Dir, dirMode) // another user's stays as it is: those in it have this mode
	}
	if u != nil {
		_ = os.Chmod(m.host.Dir, dirMode|0o011) // the user gets through
	}
	path := m.host.Dir + "/" + strconv.FormatInt(int64(m.next), 36)
	m.mu.Unlock()
	if err := os.Mkdir(path, 0o700); err != nil {
		return nil, err
	}
	d := &dir{path: path, fd: -1, user: u, text: text{fd: -1}}
	defer func() {
		if err != nil {
			d.remove()
		}
	}()
	if d.fd, err = unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0); err != nil {
		return nil, err
	}
	if err := errors.Join(d.own(d.fd), unix.Fchmod(d.fd, dirMode), d.writeText([]byte("x"))); err != nil {
		return nil, err
	}
	if _, err := os.ReadFile(path + "/" + dialect.TextName); err == nil && !d.wasRead() {
		return nil, fmt.Errorf("session directory %s: its file system keeps no access times; mount a tmpfs there", path)
	}
	return d, nil
}

// remove deletes the directory and all files in it. A directory that a command
// has made there stays.
func (d *dir) remove() {
	d.text.drop()
	if d.fd >= 0 {
		_ = unix.Fchmod(d.fd, 0o700)
		list := os.NewFile(uintptr(d.fd), d.path)
		names, _ := list.Readdirnames(-1)
		for _, n := range names {
			_ = unix.Unlinkat(d.fd, n, 0)
		}
		_ = list.Close()
		d.fd = -1
	}
	_ = unix.Rmdir(d.path)
}

// intact reports whether the path still leads to the directory that the guest
// has made.
func (d *dir) intact() bool {
	var made, there unix.Stat_t
	return unix.Fstat(d.fd, &made) == nil && unix.Lstat(d.path, &there) == nil &&
		proc.FileOf(&made) == proc.FileOf(&there) && made.Mode&0o777 == dirMode
}

// create makes the file name, which takes the place of any other of that name.
// It cannot be opened to write by its name (mode 0400). The caller closes it.
func (d *dir) create(name string) (int, error) {
	for try := 0; ; try++ {
		fd, err := unix.Openat(d.fd, name, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o400)
		if errors.Is(err, unix.EEXIST) && try == 0 && unix.Unlinkat(d.fd, name, 0) == nil {
			continue
		}
		if err == nil {
			if err = d.own(fd); err != nil {
				_ = unix.Close(fd)
			}
		}
		if err != nil {
			return -1, fmt.Errorf("session directory: %s: %w", name, err)
		}
		return fd, nil
	}
}

// own gives the user an open file.
func (d *dir) own(fd int) error {
	if d.user == nil {
		return nil
	}
	return unix.Fchown(fd, d.user.UID, d.user.GID)
}

// write makes the file name with this content.
func (d *dir) write(name string, content []byte) error {
	fd, err := d.create(name)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return fill(fd, content, 0)
}

// readAndRemove returns the content of the regular file name, up to limit bytes, and removes the
// file. It returns nil if the file cannot be read.
func (d *dir) readAndRemove(name string, limit int) []byte {
	defer d.unlink(name)
	return readFile(d.fd, name, limit)
}

// readFile returns the content of a regular file, up to limit bytes; nil if it cannot be read. A
// hostile process may have put any object there: readFile does not follow links, and does not wait
// for FIFOs and terminals.
func readFile(dir int, name string, limit int) []byte {
	fd, err := unix.Openat(dir, name, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil
	}
	b := make([]byte, min(st.Size, int64(limit)))
	n, err := unix.Pread(fd, b, 0)
	if err != nil {
		return nil
	}
	return b[:n]
}

// fill writes all of content to the beginning of a file of size bytes, and cuts the rest off.
func fill(fd int, content []byte, size int64) error {
	for at := 0; at < len(content); {
		n, err := unix.Pwrite(fd, content[at:], int64(at))
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return fmt.Errorf("session directory: %w", err)
		}
		at += n
	}
	if size > int64(len(content)) {
		if err := unix.Ftruncate(fd, int64(len(content))); err != nil {
			return fmt.Errorf("session directory: %w", err)
		}
	}
	return nil
}

// fifo makes the FIFO name and opens it without waiting. The caller closes it.
func (d *dir) fifo(name string, flags int) (int, error) {
	err := unix.Mkfifoat(d.fd, name, 0o600)
	if err != nil && !errors.Is(err, unix.EEXIST) {
		return -1, fmt.Errorf("session directory: %s: %w", name, err)
	}
	fd, _, err := d.openFIFO(name, flags)
	if err == nil {
		if err = d.own(fd); err != nil {
			closeFD(&fd)
		}
	}
	return fd, err
}

// openFIFO opens the FIFO name without waiting, and returns which file it is. The caller closes it.
func (d *dir) openFIFO(name string, flags int) (int, proc.File, error) {
	fd, err := unix.Openat(d.fd, name, flags|unix.O_NONBLOCK|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	var st unix.Stat_t
	if err == nil && (unix.Fstat(fd, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFIFO) {
		_ = unix.Close(fd)
		err = unix.EINVAL
	}
	if err != nil {
		return -1, proc.File{}, fmt.Errorf("session directory: %s: %w", name, err)
	}
	return fd, proc.FileOf(&st), nil
}

// unlink removes a name.
func (d *dir) unlink(name string) { _ = unix.Unlinkat(d.fd, name, 0) }

// A text is the file of a command's text, which stays open from one command to
// the next.
type text struct {
	fd      int           // to read and write; -1: not yet
	unread  unix.Timespec // its access time until the shell reads it
	changed unix.Timespec // the time of its last change by the guest
}

func (t *text) drop() { closeFD(&t.fd) }

// writeText puts a command's text in its file.
func (d *dir) writeText(content []byte) error {
	t := &d.text
	var st unix.Stat_t // its size is 0 for a new file
	if t.fd >= 0 {
		if unix.Fstat(t.fd, &st) != nil || st.Nlink != 1 || st.Ctim != t.changed {
			t.drop() // another process has changed it, and may have it open
			st = unix.Stat_t{}
		}
	}
	if t.fd < 0 {
		var err error
		if t.fd, err = d.create(dialect.TextName); err != nil {
			return err
		}
	}
	if err := fill(t.fd, content, st.Size); err != nil {
		return err
	}
	// A read then moves the access time, with relatime too (mount(8)). That time
	// is random, so that a command cannot put it back.
	var b [4]byte
	_, _ = rand.Read(b[:]) // never fails (crypto/rand)
	ts := [2]unix.Timespec{{Sec: 1 + int64(b[0]), Nsec: int64(b[1])<<16 | int64(b[2])<<8 | int64(b[3])}, {Nsec: unix.UTIME_OMIT}}
	err := unix.UtimesNanoAt(d.fd, dialect.TextName, ts[:], unix.AT_SYMLINK_NOFOLLOW)
	if err == nil {
		err = unix.Fstat(t.fd, &st)
	}
	if err != nil {
		return fmt.Errorf("session directory: %s: %w", dialect.TextName, err)
	}
	t.unread, t.changed = st.Atim, st.Ctim
	return nil
}

// wasRead reports whether the shell has read the text, or may have: one that was
// run must not be run again. A text that was removed before it was read, was not.
func (d *dir) wasRead() bool {
	var st unix.Stat_t
	if unix.Fstat(d.text.fd, &st) != nil {
		return true
	}
	return st.Atim != d.text.unread || st.Ctim != d.text.changed && st.Nlink > 0
}

// wasReplaced reports whether the shell may have read another text than content,
// which was written. What a command does to its own text once that is read counts
// only if it is another one now.
func (d *dir) wasReplaced(content []byte) bool {
	t := &d.text
	var written, there unix.Stat_t
	if unix.Fstat(t.fd, &written) != nil {
		return true
	}
	if written.Ctim == t.changed && written.Nlink == 1 {
		return false
	}
	if unix.Fstatat(d.fd, dialect.TextName, &there, unix.AT_SYMLINK_NOFOLLOW) == nil && proc.FileOf(&there) != proc.FileOf(&written) {
		return true
	}
	now := make([]byte, len(content)+1)
	n, err := unix.Pread(t.fd, now, 0)
	return err != nil || !bytes.Equal(now[:n], content)
}
