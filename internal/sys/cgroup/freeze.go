package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// freezer returns the file that freezes the processes of a group, but not its servers, and the
// values that freeze and thaw them (cgroup.freeze in the kernel's cgroup-v2.rst,
// cgroup-v1/freezer-subsystem.rst); file is empty if the group has none.
func (g *Group) freezer() (file, freeze, thaw string) {
	switch {
	case g == nil:
	case g.Dirs[""] != "":
		return filepath.Join(g.Dirs[""], innerGroup, "cgroup.freeze"), "1", "0"
	case g.Dirs[Freezer] != "":
		return filepath.Join(g.Dirs[Freezer], "freezer.state"), "FROZEN", "THAWED"
	}
	return "", "", ""
}

// CanFreeze reports whether Freeze can work. A nil Group has no processes to freeze.
func (g *Group) CanFreeze() bool {
	file, _, _ := g.freezer()
	return file != "" && exists(file)
}

// HoldsSignals reports whether no signal ends what is frozen, as in version 1.
func (g *Group) HoldsSignals() bool {
	_, freeze, _ := g.freezer()
	return freeze == "FROZEN"
}

// LetFreeze permits Freeze and Thaw to a user: that of a process that has given up root.
func (g *Group) LetFreeze(uid int) error {
	file, _, _ := g.freezer()
	if file == "" {
		return nil
	}
	if err := os.Chown(file, uid, -1); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("control group: %w", err)
	}
	return nil
}

// frozenPoll is the time between looks at a group of version 1, of which the kernel notifies
// no process.
const frozenPoll = time.Millisecond

// Freeze stops all processes of the group but its servers, and returns when they stand still. If
// that takes longer than limit they run on.
func (g *Group) Freeze(limit time.Duration) error {
	file, freeze, thaw := g.freezer()
	end := time.Now().Add(limit)
	err := write(file, freeze)
	if err == nil && freeze == "1" {
		err = awaitFrozen(filepath.Join(filepath.Dir(file), "cgroup.events"), end)
	} else if err == nil {
		for frozen := false; !frozen && err == nil; {
			switch state := strings.TrimSpace(read(file)); {
			case state == freeze:
				frozen = true
			case state == thaw || state == "":
				err = errors.New("another process has thawed or removed it")
			case time.Now().After(end):
				err = errors.New("its processes do not stop")
			default:
				time.Sleep(frozenPoll)
			}
		}
	}
	if err != nil {
		return errors.Join(fmt.Errorf("freeze control group: %w", err), g.Thaw())
	}
	return nil
}

// awaitFrozen waits until a group of version 2 is frozen. The kernel notifies of changes of events
// by POLLPRI.
func awaitFrozen(events string, end time.Time) error {
	f, err := os.Open(events)
	if err != nil {
		return err
	}
	defer f.Close()
	for text := make([]byte, 256); ; {
		n, err := f.ReadAt(text, 0)
		switch left := time.Until(end); {
		case n == 0:
			return err
		case strings.Contains(string(text[:n]), "frozen 1"):
			return nil
		case left <= 0:
			return errors.New("its processes do not stop")
		default:
			_, err = unix.Poll([]unix.PollFd{{Fd: int32(f.Fd()), Events: unix.POLLPRI}}, int(left.Milliseconds())+1)
			if err != nil && !errors.Is(err, unix.EINTR) {
				return err
			}
		}
	}
}

// Thaw has the processes of the group run on. Those that run are no error.
func (g *Group) Thaw() error {
	file, _, thaw := g.freezer()
	if file == "" {
		return nil
	}
	if err := write(file, thaw); err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ENODEV) {
		return fmt.Errorf("thaw control group: %w", err)
	}
	return nil
}

// Reclaim has the kernel take back the memory of a frozen group as far as it can: files that it can
// read again, and with swap the rest (memory.reclaim in cgroup-v2.rst, since Linux 5.19). It is of
// no consequence where the kernel cannot.
func (g *Group) Reclaim() {
	if g == nil || g.Dirs[""] == "" {
		return
	}
	if used := strings.TrimSpace(read(filepath.Join(g.Dirs[""], "memory.current"))); used != "" {
		_ = write(filepath.Join(g.Dirs[""], "memory.reclaim"), used) // EAGAIN: not all of it
	}
}
