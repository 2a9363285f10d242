// Package dirwatch reports changes of what is in a directory, by inotify(7).
package dirwatch

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// An Event says that something has happened to a name.
type Event struct {
	Name string // relative to the directory that is watched; "." is that itself
	Op   string // one of the events
}

// The events. A name that another one was renamed to is created.
const (
	Created = "create"
	Written = "write"
	Removed = "remove"
	Renamed = "rename"
	Changed = "chmod"
)

// ErrLost is the error for events that the kernel has dropped, or more directories than are
// watched: an unknown number of events is missing.
var ErrLost = errors.New("events were lost")

// A Refusal says why a directory cannot be watched.
type Refusal string

func (r Refusal) Error() string { return string(r) }

// maxDirs is how many directories are watched.
const maxDirs = 8192

// remote has the magic numbers of file systems whose servers change files without an event: NFS,
// CIFS, SMB (statfs(2)).
var remote = map[uint32]bool{unix.NFS_SUPER_MAGIC: true, 0xff534d42: true, unix.SMB_SUPER_MAGIC: true, 0xfe534d42: true}

// wanted are the events of inotify(7) that are reported.
const wanted = unix.IN_CREATE | unix.IN_MODIFY | unix.IN_ATTRIB | unix.IN_DELETE |
	unix.IN_MOVED_FROM | unix.IN_MOVED_TO |
	unix.IN_DELETE_SELF | unix.IN_MOVE_SELF | unix.IN_ONLYDIR | unix.IN_EXCL_UNLINK

// A Watcher watches a directory. It is for one goroutine, but for Close.
type Watcher struct {
	dir   string
	below bool
	file  *os.File // of inotify
	fd    int      // of file
	buf   []byte
	dirs  map[int32]string // names relative to dir, by descriptor
}

// New watches a directory and, with below, those below it, also later ones. It refuses network file
// systems, unless anywhere is set. The caller closes the Watcher.
func New(dir string, below, anywhere bool) (*Watcher, error) {
	st, err := os.Stat(dir)
	switch {
	case err != nil:
		return nil, err
	case !st.IsDir():
		return nil, Refusal(fmt.Sprintf("%q: not a directory", dir))
	}
	var of unix.Statfs_t
	if err := unix.Statfs(dir, &of); err != nil {
		return nil, &fs.PathError{Op: "statfs", Path: dir, Err: err}
	}
	if remote[uint32(of.Type)] && !anywhere {
		return nil, Refusal(fmt.Sprintf("%q: a network file system, which does not report changes of others", dir))
	}
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		const why = "inotify: %v: the user has too many watchers (fs.inotify.max_user_instances)"
		return nil, Refusal(fmt.Sprintf(why, err))
	}
	w := &Watcher{dir: dir, below: below, fd: fd, buf: make([]byte, 64<<10), dirs: map[int32]string{}}
	w.file = os.NewFile(uintptr(fd), "inotify")
	if err := w.add(".", nil); err != nil {
		return nil, errors.Join(err, w.file.Close())
	}
	return w, nil
}

// Close ends the Watcher, and Next.
func (w *Watcher) Close() error { return w.file.Close() }

// Next waits for events. With ErrLost there may be some, and no more come.
func (w *Watcher) Next() ([]Event, error) {
	for {
		n, err := w.file.Read(w.buf)
		if err != nil {
			return nil, err
		}
		if events, err := w.read(w.buf[:n]); len(events) > 0 || err != nil {
			return events, err
		}
	}
}

// add watches a directory, and those below it, and calls found, if it is not nil, with the names
// that are below. A directory that has gone, or may not be read, is left out, but the first one.
func (w *Watcher) add(name string, found func(name string)) error {
	full := filepath.Join(w.dir, name)
	if len(w.dirs) >= maxDirs {
		return Refusal(fmt.Sprintf("%q: more than %d directories: watch a part of them", w.dir, maxDirs))
	}
	mask := uint32(wanted)
	if name != "." {
		mask |= unix.IN_DONT_FOLLOW
	}
	wd, err := unix.InotifyAddWatch(w.fd, full, mask)
	if err != nil {
		if errors.Is(err, unix.ENOSPC) {
			return Refusal(fmt.Sprintf("%q: the user watches too many directories (fs.inotify.max_user_watches)", full))
		}
		if name != "." {
			return nil
		}
		return &fs.PathError{Op: "watch", Path: full, Err: err}
	}
	w.dirs[int32(wd)] = name
	if !w.below {
		return nil
	}
	entries, err := os.ReadDir(full)
	if err != nil {
		return nil //nolint:nilerr // it has gone
	}
	for _, e := range entries {
		below := path.Join(name, e.Name())
		if found != nil {
			found(below)
		}
		if e.IsDir() {
			if err := w.add(below, found); err != nil {
				return err
			}
		}
	}
	return nil
}

// read returns what the kernel has reported.
func (w *Watcher) read(b []byte) (events []Event, err error) {
	for len(b) >= unix.SizeofInotifyEvent {
		wd, mask := int32(binary.NativeEndian.Uint32(b)), binary.NativeEndian.Uint32(b[4:])
		size := unix.SizeofInotifyEvent + int(binary.NativeEndian.Uint32(b[12:]))
		base := string(bytes.TrimRight(b[unix.SizeofInotifyEvent:size], "\x00"))
		b = b[size:]
		dir, known := w.dirs[wd]
		switch {
		case mask&unix.IN_Q_OVERFLOW != 0:
			return events, ErrLost
		case mask&unix.IN_IGNORED != 0:
			delete(w.dirs, wd)
			continue
		case !known, base == "" && dir != ".": // the directory above reports it
			continue
		}
		name := path.Join(dir, base)
		for _, k := range reported {
			if mask&k.mask != 0 {
				events = append(events, Event{name, k.op})
			}
		}
		if mask&unix.IN_ISDIR == 0 {
			continue
		}
		if mask&unix.IN_MOVED_FROM != 0 {
			w.forget(name)
		}
		if mask&(unix.IN_CREATE|unix.IN_MOVED_TO) != 0 && w.below {
			err := w.add(name, func(below string) { events = append(events, Event{below, Created}) })
			if err != nil {
				return events, ErrLost
			}
		}
	}
	return events, nil
}

// reported are the events of inotify by what they mean.
var reported = []struct {
	mask uint32
	op   string
}{
	{unix.IN_CREATE | unix.IN_MOVED_TO, Created},
	{unix.IN_MOVED_FROM | unix.IN_MOVE_SELF, Renamed},
	{unix.IN_ATTRIB, Changed},
	{unix.IN_MODIFY, Written},
	{unix.IN_DELETE | unix.IN_DELETE_SELF, Removed},
}

// forget stops watching a directory that has another name now, and those below it.
func (w *Watcher) forget(name string) {
	for wd, dir := range w.dirs {
		if dir == name || strings.HasPrefix(dir, name+"/") {
			_, _ = unix.InotifyRmWatch(w.fd, uint32(wd)) // it may have gone
			delete(w.dirs, wd)
		}
	}
}
