package bwrap

import (
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"wolffia/internal/child"
)

// A waiting is a bubblewrap that has been started and reads its options (--args in bwrap(1)). It has made nothing until it has them
// all, so what holds for its process by then, as limits and its control group, holds for all inside.
type waiting struct {
	*child.Piped
	options *os.File // the pipe from which it reads
	args    []string
}

// await has bubblewrap go on once a byte can be read from barrier, which it closes, and ends bubblewrap at barrier's end of file.
func (w *waiting) await(barrier *os.File) {
	_, err := io.ReadFull(barrier, make([]byte, 1))
	_ = barrier.Close()
	if err != nil { // the start was cancelled
		_ = w.Kill()
		_ = w.options.Close()
		return
	}
	_ = w.goOn() // the caller sees the end of a bubblewrap that did not
}

// goOn gives bubblewrap its limits and its options. If it cannot, it ends bubblewrap.
func (w *waiting) goOn() error {
	defer w.options.Close()
	err := limitFiles(w.PID())
	if err == nil {
		// bubblewrap says itself why it has ended, if it does not read.
		_, _ = w.options.WriteString(strings.Join(w.args, "\x00") + "\x00")
		return nil
	}
	_ = w.Kill()
	return err
}

const (
	// filesKept is by how many descriptors the limit of a program inside is lower than that of wolffia's own processes, but at
	// most half of that. It is more than one message can have (SCM_MAX_FD in the kernel's include/net/scm.h).
	filesKept = 4096
	// fewFiles is a limit that is not lowered: PID 1 needs what is left.
	fewFiles = 1024
)

// limitFiles lowers the hard limit of open files of a process (RLIMIT_NOFILE in getrlimit(2)).
//
// The limit is also one of all descriptors that the processes of a user have sent by unix sockets, and that nobody has received, in all
// namespaces together: who has as low a limit as that number cannot send any (ETOOMANYREFS in unix(7); too_many_unix_fds in net/unix/af_unix.c). So
// programs inside, which may have sent as many as they like, must have a lower limit than what starts and reaches the user's other sandboxes.
func limitFiles(pid int) error {
	var l unix.Rlimit
	err := unix.Prlimit(pid, unix.RLIMIT_NOFILE, nil, &l)
	if err == nil && l.Max >= fewFiles {
		l.Max -= min(filesKept, l.Max/2)
		l.Cur = min(l.Cur, l.Max)
		err = unix.Prlimit(pid, unix.RLIMIT_NOFILE, &l, nil)
	}
	if err != nil {
		return fmt.Errorf("limit the open files of process %d, bubblewrap: %w", pid, err)
	}
	return nil
}
