package attack

import (
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// LastEvent is the name that the host makes when the rows about events are over.
const LastEvent = "last"

// watched are the directories that they watch, and all events but those of reading.
var watched = []string{".", "box"}

const watchedEvents = unix.IN_ALL_EVENTS &^ (unix.IN_OPEN | unix.IN_ACCESS | unix.IN_CLOSE_NOWRITE)

const noEvents = "gVisor and Docker repeat none of the host's changes."

// inotify makes an instance.
func inotify() (int, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	for range 200 { // limit.watches may have them all, in another sandbox
		if !errors.Is(err, unix.EMFILE) {
			break
		}
		time.Sleep(10 * time.Millisecond)
		fd, err = unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	}
	return fd, err
}

// watchAll watches all of watched, says that it is ready, and calls seen for the name of each event
// until that of LastEvent. It returns how it has ended.
func watchAll(seen func(name string)) string {
	fd, err := inotify()
	for _, dir := range watched {
		if err == nil {
			_, err = unix.InotifyAddWatch(fd, dir, watchedEvents)
		}
	}
	if err != nil {
		return said(err)
	}
	report("ready")
	buf := make([]byte, 64<<10)
	var made time.Time // when it was first seen without its event
	for {
		polled := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		_, _ = unix.Poll(polled, 100)
		n, _ := unix.Read(fd, buf)
		for b := buf[:max(n, 0)]; len(b) >= unix.SizeofInotifyEvent; {
			end := unix.SizeofInotifyEvent + int(binary.NativeEndian.Uint32(b[12:]))
			name := unix.ByteSliceToString(b[unix.SizeofInotifyEvent:end])
			if name == LastEvent {
				return ""
			}
			seen(name)
			b = b[end:]
		}
		switch _, err := os.Lstat(LastEvent); {
		case err != nil:
		case made.IsZero():
			made = time.Now()
		case time.Since(made) > 5*time.Second:
			return "n/a"
		}
	}
}

// childMakes makes a directory in a process of its own, which has a number of its own.
func childMakes(name string) error {
	path := append([]byte(name), 0)
	pid, _, errno := unix.RawSyscall6(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
	if errno == 0 && pid == 0 {
		at := unix.AT_FDCWD
		_, _, errno = unix.RawSyscall(unix.SYS_MKDIRAT, uintptr(at), uintptr(ptr(path)), 0o700)
		unix.RawSyscall(unix.SYS_EXIT_GROUP, uintptr(errno), 0, 0)
	}
	if errno != 0 {
		return errno
	}
	var status unix.WaitStatus
	if _, err := unix.Wait4(int(pid), &status, 0, nil); err != nil || status.ExitStatus() == 0 {
		return err
	}
	return syscall.Errno(status.ExitStatus())
}

func init() {
	roles["events"] = func([]string) int {
		told := ""
		over := watchAll(func(name string) { told += " " + name + "," })
		switch {
		case told != "":
			report("works: events of" + told)
		case over != "":
			report(over)
		default:
			report("hidden")
		}
		return 0
	}
	roles["repeater"] = func([]string) int {
		made, taken := 0, ""
		over := watchAll(func(name string) {
			if !strings.HasPrefix(name, "edited") || taken != "" || made == 200 {
				return
			}
			own := filepath.Join("box", "own"+itoa(made))
			made++
			if err := childMakes(own); err != nil {
				taken = "works: mkdir says " + err.Error()
			} else if err := unix.Rmdir(own); err != nil {
				taken = "works: rmdir says " + err.Error()
			} else if _, err := os.Lstat(own); !errors.Is(err, unix.ENOENT) {
				taken = "works: it has removed nothing"
			}
			if entries, _ := os.ReadDir("."); taken == "" {
				for _, e := range entries {
					if strings.HasPrefix(e.Name(), ".wolffia") {
						taken = "works: there is " + e.Name()
					}
				}
			}
		})
		switch {
		case taken != "":
			report(taken)
		case over != "":
			report(over)
		case made == 0:
			report("fails: the host has changed nothing")
		default:
			report("own")
		}
		return 0
	}
}
