package bwrap

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"wolffia/internal/sys/child"
	"wolffia/runtime/launch"
)

// A waiting is a bubblewrap that has been started and reads its options (--args in bwrap(1)). It
// has made nothing until it has them all, so what holds for its process by then, as limits and its
// control group, holds for all inside.
type waiting struct {
	*child.Piped
	options *os.File // the pipe from which it reads
	args    []string
}

// await has bubblewrap go on once a byte can be read from barrier, which it closes, and ends
// bubblewrap at barrier's end of file.
func (w *waiting) await(barrier *os.File) {
	_, err := io.ReadFull(barrier, make([]byte, 1))
	_ = barrier.Close()
	if err != nil { // the start was cancelled
		_ = w.Kill()
		_ = w.options.Close()
		return
	}
	_ = w.resume() // the caller sees the end of a bubblewrap that did not
}

// resume gives bubblewrap its limits and its options. If it cannot, it ends bubblewrap.
func (w *waiting) resume() error {
	defer w.options.Close()
	err := limitFiles(w.PID())
	if err == nil || errors.Is(err, unix.ESRCH) {
		// bubblewrap says itself why it has ended, if it does not read, or is not there to be
		// limited.
		_, _ = w.options.WriteString(strings.Join(w.args, "\x00") + "\x00")
		return nil
	}
	_ = w.Kill()
	return err
}

// limitFiles lowers the hard limit of open files of a process, as [launch.OpenFiles] says.
func limitFiles(pid int) error {
	var l unix.Rlimit
	err := unix.Prlimit(pid, unix.RLIMIT_NOFILE, nil, &l)
	if lower := launch.OpenFiles(l.Max); err == nil && lower < l.Max {
		l.Max = lower
		l.Cur = min(l.Cur, l.Max)
		err = unix.Prlimit(pid, unix.RLIMIT_NOFILE, &l, nil)
	}
	if err != nil {
		return fmt.Errorf("limit the open files of process %d, bubblewrap: %w", pid, err)
	}
	return nil
}
