package audit

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// Follow calls each with every present and future record. It returns nil when the file called
// alive no longer exists, else each's error or ctx's. alive's directory must exist. Follow
// waits for events of the kernel (inotify(7)).
func (r *Reader) Follow(ctx context.Context, alive string, each func(Record) error) error {
	w, err := watch(filepath.Dir(r.path), filepath.Dir(alive))
	if err != nil {
		if _, gone := os.Lstat(alive); errors.Is(gone, fs.ErrNotExist) {
			return r.drain(ctx, each)
		}
		return err
	}
	defer w.Close()
	stop := context.AfterFunc(ctx, func() { _ = w.SetReadDeadline(time.Unix(0, 0)) })
	defer stop()
	for ended := false; ; {
		if _, err := os.Lstat(alive); errors.Is(err, fs.ErrNotExist) {
			ended = true // all records were written before
		}
		if err := r.drain(ctx, each); err != nil || ended {
			return err
		}
		if ended, err = changed(w); err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return err
		}
	}
}

// drain calls each with all present records.
func (r *Reader) drain(ctx context.Context, each func(Record) error) error {
	for {
		rec, err := r.Next()
		if errors.Is(err, io.EOF) {
			if more, err := r.more(); err != nil || !more {
				return err
			}
			continue
		}
		if err != nil {
			return err
		}
		if err := each(rec); err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
}

// watch returns an inotify instance for files written or created in the directory log, and
// removed from the directory alive.
func watch(log, alive string) (_ *os.File, err error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("inotify: %w; see the limits in /proc/sys/fs/inotify", err)
	}
	w := os.NewFile(uintptr(fd), "inotify")
	for _, dir := range []struct {
		path string
		what uint32
	}{
		{log, unix.IN_MODIFY | unix.IN_CREATE | unix.IN_MOVED_TO},
		{alive, unix.IN_DELETE},
	} {
		if _, err := unix.InotifyAddWatch(fd, dir.path, dir.what|unix.IN_ONLYDIR|unix.IN_DONT_FOLLOW|unix.IN_MASK_ADD); err != nil {
			return nil, errors.Join(fmt.Errorf("watch %s: %w", dir.path, err), w.Close())
		}
	}
	return w, nil
}

// wait blocks until an event. It reports whether one of the directories was removed.
func changed(w *os.File) (gone bool, err error) {
	buf := make([]byte, 4096) // room for an event of any name
	n, err := w.Read(buf)
	if err != nil {
		return false, fmt.Errorf("inotify: %w", err)
	}
	for at := 0; at+unix.SizeofInotifyEvent <= n; {
		// int wd; uint32_t mask, cookie, len; char name[len]
		mask := binary.NativeEndian.Uint32(buf[at+4:])
		gone = gone || mask&unix.IN_IGNORED != 0
		at += unix.SizeofInotifyEvent + int(binary.NativeEndian.Uint32(buf[at+12:]))
	}
	return gone, nil
}
