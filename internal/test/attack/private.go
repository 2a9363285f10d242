package attack

import (
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Leave is the script by which another sandbox leaves what private rows look for;
// it goes on listening with the process that it leaves.
func Leave(tag string) string {
	return "for d in /tmp /var/tmp /dev/shm $HOME; do echo " + tag + " >$d/" + leftName + "; done"
}

func privateRows() []Row {
	h := all(Hidden)
	left := func(id, tries, dir string) Row {
		return Row{ID: "private." + id, Tries: tries, Source: "sandboxes apart", Want: h, Do: func(w *World) string {
			if strings.HasPrefix(dir, "$") {
				dir = os.Getenv(dir[1:])
			}
			b, err := os.ReadFile(dir + "/" + leftName)
			if err == nil && strings.Contains(string(b), w.Tag) {
				return "works"
			}
			return said(err)
		}}
	}
	return []Row{
		left("tmp", "read what another sandbox has left in /tmp", "/tmp"),
		left("var-tmp", "read what it has left in /var/tmp", "/var/tmp"),
		left("shm", "read what it has left in /dev/shm", "/dev/shm"),
		left("home", "read what it has left in its home directory", "$HOME"),
		on("private.host-shm", "read the POSIX memory of a program of the host", "IPC namespace", h, func(w *World) error { return open("/dev/shm/"+w.Shm, unix.O_RDONLY) }),
		on("private.host-sysv", "attach to System V memory of a program of the host", "IPC namespace", h, func(w *World) error {
			_, err := unix.SysvShmGet(w.Key, 1, 0)
			return err
		}),
		on("private.host-mqueue", "open a message queue of the host", "IPC namespace", h, func(w *World) error {
			name := append([]byte(w.Shm), 0)
			_, err := sys(unix.SYS_MQ_OPEN, uintptr(ptr(name)), unix.O_RDONLY, 0, 0)
			return err
		}),
		on("private.host-kill", "signal a process of the host", "PID namespace", h, func(w *World) error { return unix.Kill(w.PID, 0) }),
		reachable("", "connect to another sandbox's loopback", "network namespace", all(Refused), func(w *World) error {
			return dial("tcp", "127.0.0.1:"+itoa(w.TagPort))
		}).named("private.loopback"),
		{ID: "private.processes", Tries: "see another sandbox's processes", Source: "PID namespace", Want: h, Do: func(w *World) string {
			files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
			for _, f := range files {
				if b, _ := os.ReadFile(f); strings.Contains(string(b), w.Tag) && !strings.Contains(string(b), `"Tag"`) {
					return "works " + f
				}
			}
			return "hidden"
		}},
		{ID: "private.state", Tries: "find another sandbox's codebase", Source: "sandboxes apart", Want: h, Do: func(w *World) string {
			return said(open(w.Dir+"/other", unix.O_RDONLY))
		}},
	}
}

// named is the row with another id.
func (r Row) named(id string) Row {
	r.ID = id
	return r
}
