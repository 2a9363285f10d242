package statedir

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"wolffia/runtime"
)

// Starts calls each with the sandboxes whose shims listen, and then with each whose shim begins to,
// until ctx ends: then it returns nil. The kernel reports the starts (inotify(7)). One may be
// reported twice. A pooled sandbox counts when it is claimed.
func (d *Dir) Starts(ctx context.Context, each func(*Record)) error {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return runtime.Errorf(runtime.ErrUnavailable, "watch the starts of sandboxes: inotify: %w; see the limits in /proc/sys/fs/inotify", err)
	}
	events := os.NewFile(uintptr(fd), "inotify")
	defer events.Close()
	defer context.AfterFunc(ctx, func() { _ = events.SetReadDeadline(time.Unix(1, 0)) })()
	w := &starts{dir: d, each: each, fd: fd, of: map[int32]watched{}}
	err = w.all()
	buf := make([]byte, 16<<10)
	for err == nil {
		var n int
		if n, err = events.Read(buf); err == nil {
			err = w.heed(buf[:n])
		}
	}
	if ctx.Err() != nil {
		return nil
	}
	return runtime.Errorf(runtime.ErrUnavailable, "watch the starts of sandboxes: %w", err)
}

// starts are the watches of [Dir.Starts].
type starts struct {
	dir  *Dir
	each func(*Record)
	fd   int
	of   map[int32]watched // by watch
}

// A watched is a directory: run/ of a sandbox, that of the sandbox, or, with an empty id, that of
// all.
type watched struct {
	id    string
	isRun bool
}

// all watches all sandboxes that there are.
func (w *starts) all() error {
	if err := w.add(filepath.Join(w.dir.path, "sandboxes"), watched{}); err != nil {
		return err
	}
	ids, err := w.dir.IDs()
	for _, id := range ids {
		err = errors.Join(err, w.sandbox(id))
	}
	return err
}

// sandbox watches a sandbox, and reports it if its shim listens. One that has gone is none.
func (w *starts) sandbox(id string) error {
	rec := w.dir.Record(id)
	err := w.add(rec.path, watched{id, false})
	if err == nil {
		err = w.add(rec.Run(), watched{id, true})
	}
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err == nil && rec.HasSocket() {
		w.each(rec)
	}
	return err
}

func (w *starts) add(path string, what watched) error {
	wd, err := unix.InotifyAddWatch(w.fd, path, unix.IN_CREATE|unix.IN_MOVED_TO|unix.IN_ONLYDIR|unix.IN_DONT_FOLLOW)
	if err != nil {
		return fmt.Errorf("inotify: %s: %w; see the limits in /proc/sys/fs/inotify", path, err)
	}
	w.of[int32(wd)] = what
	return nil
}

// heed does what events of the kernel need.
func (w *starts) heed(events []byte) error {
	for len(events) >= unix.SizeofInotifyEvent {
		// int wd; uint32_t mask, cookie, len; char name[len]
		wd, mask := int32(binary.NativeEndian.Uint32(events)), binary.NativeEndian.Uint32(events[4:])
		end := min(len(events), unix.SizeofInotifyEvent+int(binary.NativeEndian.Uint32(events[12:])))
		name := strings.TrimRight(string(events[unix.SizeofInotifyEvent:end]), "\x00")
		events = events[end:]
		at, known := w.of[wd]
		var err error
		switch {
		case mask&unix.IN_Q_OVERFLOW != 0:
			err = w.all()
		case !known:
		case mask&unix.IN_IGNORED != 0:
			delete(w.of, wd)
		case at.id == "" && runtime.IsID(name):
			err = w.sandbox(name)
		case at.id != "" && !at.isRun && name == "run":
			err = w.sandbox(at.id)
		case at.isRun && name == socket:
			w.each(w.dir.Record(at.id))
		}
		if err != nil {
			return err
		}
	}
	return nil
}
