package shim

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"wolffia/internal/host/statedir"
	"wolffia/runtime"
)

const (
	// mostWatches is how many sandboxes of a state directory have an inotify instance: a user has 128
	// in all (fs.inotify.max_user_instances in inotify(7)), which editors need too.
	mostWatches = 32
	// lookInterval is the time between two looks of a sandbox without one.
	lookInterval = 4 * time.Second
)

// watchPlace ends the sandbox when its directory is no longer where it was: no command could list or
// end the sandbox then. watchPlace ends with the sandbox, or the process.
func (s *shim) watchPlace() {
	own := filepath.Dir(s.boot.Run)
	var first os.FileInfo
	for wait := changesOf(own); ; wait() {
		now, err := os.Stat(own)
		if first == nil {
			first = now
		}
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) || err == nil && !os.SameFile(first, now) {
			s.end(statedir.Status{State: runtime.StateDead, Reason: "its state directory was removed or renamed"}, 0)
			return
		}
	}
}

// changesOf returns a function that waits until the directory of a sandbox may have been removed or
// renamed.
func changesOf(own string) (wait func()) {
	all := filepath.Dir(own)
	look := func() { time.Sleep(lookInterval) }
	if others, err := os.Open(all); err == nil {
		names, _ := others.Readdirnames(mostWatches + 1)
		_ = others.Close()
		if len(names) > mostWatches {
			return look
		}
	}
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return look
	}
	events := os.NewFile(uintptr(fd), "inotify") // it is open as long as the process
	watch := func(dir string, mask uint32) error {
		_, err := unix.InotifyAddWatch(fd, dir, mask|unix.IN_DELETE_SELF|unix.IN_MOVE_SELF|unix.IN_ONLYDIR)
		return err
	}
	if err := errors.Join(watch(own, unix.IN_DELETE), watch(all, 0), watch(filepath.Dir(all), 0)); err != nil {
		_ = events.Close()
		return look
	}
	buf := make([]byte, 4096)
	return func() {
		if _, err := events.Read(buf); err != nil {
			look()
		}
		// The removal of a directory that has open files tells only the one above. Names in it are
		// removed before: until then each other sandbox's removal would wake this process too.
		_ = watch(all, unix.IN_DELETE)
	}
}
