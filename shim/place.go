package shim

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"wolffia/internal/host/statedir"
	"wolffia/runtime"
)

// watchPlace ends the sandbox when its directory is no longer where it was: nobody could list or
// end the sandbox then. Without a watch, of which a user can have too many, it goes on. watchPlace
// returns at the sandbox's end.
func (s *shim) watchPlace() {
	own := filepath.Dir(s.boot.Run)
	first, err := os.Stat(own)
	var fd int
	if err == nil {
		fd, err = unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "watch the sandbox's directory:", err)
		return
	}
	events := os.NewFile(uintptr(fd), "inotify")
	defer events.Close()
	watch := func(dir string, mask uint32) {
		if _, err := unix.InotifyAddWatch(fd, dir, mask|unix.IN_DELETE_SELF|unix.IN_MOVE_SELF|unix.IN_ONLYDIR); err != nil {
			fmt.Fprintf(os.Stderr, "watch %s: %v\n", dir, err)
		}
	}
	all := filepath.Dir(own)
	watch(own, unix.IN_DELETE)
	watch(all, 0)
	watch(filepath.Dir(all), 0)
	for buf := make([]byte, 4096); ; {
		if now, err := os.Stat(own); err != nil || !os.SameFile(first, now) {
			s.end(statedir.Status{State: runtime.StateDead, Reason: "its state directory was removed or renamed"}, 0)
			return
		}
		if _, err := events.Read(buf); err != nil {
			return
		}
		// The removal of a directory that has open files tells only the one above. Names in it are
		// removed before: until then each other sandbox's removal would wake this process too.
		watch(all, unix.IN_DELETE)
	}
}
