package shim

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Processes that a backend leaves behind become the shim's children, to be killed: a
// bubblewrap that is killed in its first moments is not bound to its parent yet, nor its
// children to it. These would wait for it for ever, or go on as PID 1.

// adopt makes this process the parent of such orphans (prctl(2)).
func adopt() error { return unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) }

// killOrphans kills and reaps all child processes. The shim's own must have been reaped.
func killOrphans() {
	for orphans := children(); len(orphans) > 0; orphans = children() {
		for _, pid := range orphans {
			_ = unix.Kill(pid, unix.SIGKILL)
			if _, err := unix.Wait4(pid, nil, 0, nil); err != nil && !errors.Is(err, unix.EINTR) {
				return
			}
		}
	}
}

// children returns the child processes of all threads (proc_tid_children(5)).
func children() (pids []int) {
	files, _ := filepath.Glob("/proc/self/task/*/children")
	for _, file := range files {
		text, _ := os.ReadFile(file) // a thread that has ended has none
		for field := range strings.FieldsSeq(string(text)) {
			if pid, err := strconv.Atoi(field); err == nil {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}
