package rootfs

import (
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"

	"wolffia/internal/boot"
	"wolffia/runtime"
)

// maskedProc are names in /proc that tell of the host's devices, timers, keys and
// processes, of which no program inside needs any. It is the list of Docker's default
// configuration.
var maskedProc = []string{
	"acpi", "asound", "interrupts", "kcore", "keys", "latency_stats", "sched_debug", "scsi", "timer_list", "timer_stats",
}

// coverProc returns what is to be mounted over the /proc of a sandbox that has the
// host's kernel: the kernel's settings read-only, since some belong to the sandbox's
// own namespaces and so to its user (pid_max, in Linux 6.14), and maskedProc empty.
// What its mode keeps from everybody but root is left: no process inside is root.
// The empty file and the empty directory are made in dir.
func coverProc(b *boot.Params) ([]runtime.Mount, error) {
	file, folder := at(b, "no-file"), EmptyDir(b)
	if err := errors.Join(os.WriteFile(file, nil, 0o444), os.Mkdir(folder, 0o555)); err != nil {
		return nil, err
	}
	const settings, binfmt = "/proc/sys", "/proc/sys/fs/binfmt_misc"
	covers := []runtime.Mount{{Source: settings, Target: settings}}
	if other, err := mountedOn(settings, binfmt); err != nil {
		return nil, err
	} else if other { // the host's, which a new /proc has not
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
			} else if len(names) > 0 { // a mount less, and each takes 0.1 ms
				covers = append(covers, runtime.Mount{Source: folder, Target: path})
			}
		}
	}
	return covers, nil
}

// mountedOn reports whether path, below dir, is another file system than dir is. It
// does not make an automounter mount one.
func mountedOn(dir, path string) (bool, error) {
	var above, below unix.Stat_t
	if err := unix.Lstat(dir, &above); err != nil {
		return false, &os.PathError{Op: "lstat", Path: dir, Err: err}
	}
	err := unix.Lstat(path, &below)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, &os.PathError{Op: "lstat", Path: path, Err: err}
	}
	return above.Dev != below.Dev, nil
}
