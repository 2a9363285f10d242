package rootfs

import (
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"

	"wolffia/internal/host/boot"
	"wolffia/runtime"
)

// maskedProc are names in /proc with information about the host's devices, timers, keys and
// processes: the list in Docker's default configuration.
var maskedProc = []string{
	"acpi", "asound", "interrupts", "kcore", "keys", "latency_stats", "sched_debug", "scsi", "timer_list", "timer_stats",
}

// coverProc returns the mounts over the /proc of a sandbox that has the host's kernel: the
// kernel's settings, read-only, since some belong to the sandbox's own namespaces and so to
// its user (pid_max, in Linux 6.14), and an empty file or directory for each of maskedProc,
// but for those that only root may read: no process inside is root.
func coverProc(b *boot.Params) ([]runtime.Mount, error) {
	file, folder := at(b, "no-file"), EmptyDir(b)
	if err := errors.Join(os.WriteFile(file, nil, 0o444), os.Mkdir(folder, 0o555)); err != nil {
		return nil, err
	}
	const settings, binfmt = "/proc/sys", "/proc/sys/fs/binfmt_misc"
	covers := []runtime.Mount{{Source: settings, Target: settings}}
	var above, below unix.Stat_t // lstat does not trigger an automounter
	if err := unix.Lstat(settings, &above); err != nil {
		return nil, &os.PathError{Op: "lstat", Path: settings, Err: err}
	}
	switch err := unix.Lstat(binfmt, &below); {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return nil, &os.PathError{Op: "lstat", Path: binfmt, Err: err}
	case err == nil && above.Dev != below.Dev: // a new /proc does not have this mount
		covers = append(covers, runtime.Mount{Source: folder, Target: binfmt})
	}
	for _, name := range maskedProc {
		path := "/proc/" + name
		st, err := os.Lstat(path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return nil, err
		case st.Mode().Perm()&0o004 == 0:
		case !st.IsDir():
			covers = append(covers, runtime.Mount{Source: file, Target: path})
		default:
			if names, err := os.ReadDir(path); err != nil {
				return nil, err
			} else if len(names) > 0 { // else it needs no mount, which takes 0.1 ms
				covers = append(covers, runtime.Mount{Source: folder, Target: path})
			}
		}
	}
	return covers, nil
}

// processors are the parts of the host kernel's /sys that a sandbox has: which processors there
// are, with their caches, as programs count them (lscpu, libnuma); and the nodes of memory, where
// there is more than one. /proc tells little less. All else in /sys is the host's devices.
func processors() (shown []runtime.Mount) {
	const cpu, node = "/sys/devices/system/cpu", "/sys/devices/system/node"
	for dir, needs := range map[string]string{cpu: cpu + "/possible", node: node + "/node1"} {
		if _, err := os.Lstat(needs); err == nil {
			shown = append(shown, runtime.Mount{Source: dir, Target: dir})
		}
	}
	return shown
}
