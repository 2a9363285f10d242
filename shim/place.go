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
	// The directory itself, that of all sandboxes, and the state directory. Names in the first go
	// before it does: a process that has it open keeps the event of its own end back.
	for dir, mask := own, uint32(unix.IN_DELETE); ; dir, mask = filepath.Dir(dir), 0 {
		mask |= unix.IN_DELETE_SELF | unix.IN_MOVE_SELF | unix.IN_ONLYDIR
		if _, err := unix.InotifyAddWatch(fd, dir, mask); err != nil {
			fmt.Fprintf(os.Stderr, "watch %s: %v\n", dir, err)
		}
		if dir == filepath.Dir(filepath.Dir(own)) {
			break
		}
	}
	for buf := make([]byte, 4096); ; {
		if now, err := os.Stat(own); err != nil || !os.SameFile(first, now) {
			s.end(statedir.Status{State: runtime.StateDead, Reason: "its state directory was removed or renamed"}, 0)
			return
		}
		if _, err := events.Read(buf); err != nil {
			return
		}
	}
}
