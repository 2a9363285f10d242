package shim

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"strings"
	"sync"
)

// A tail copies the first logSize bytes to w, since a sandbox may write them, and keeps
// the last tailSize bytes. It is safe for concurrent use.
type tail struct {
	w     io.Writer
	mu    sync.Mutex
	room  int    // bytes that may still be copied; guarded by mu
	last  []byte // guarded by mu
	line  []byte // the beginning of the line that has not ended; guarded by mu
	panic string // the first line with which a Go program has ended; guarded by mu
}

const (
	tailSize = 4 << 10 // bytes
	logSize  = 1 << 20 // bytes, for each start of the sandbox
	lineSize = 512     // bytes of tail.panic
)

func newTail(w io.Writer) *tail { return &tail{w: w, room: logSize} }

// Write never fails, so that the pipe from the sandbox is read to its end.
func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last = append(t.last, b...)
	if n := len(t.last) - tailSize; n > 0 {
		t.last = append([]byte(nil), t.last[n:]...)
	}
	t.look(b)
	if t.room > 0 {
		n := min(len(b), t.room)
		t.room -= n
		_, _ = t.w.Write(b[:n])
		if t.room == 0 {
			_, _ = fmt.Fprintf(t.w, "\n[more than %d bytes of error output of the sandbox: the rest is left out]\n", logSize)
		}
	}
	return len(b), nil
}

// look looks for the line in which PID 1 or gVisor's kernel, Go programs, give the reason of their
// end. The stack follows.
func (t *tail) look(b []byte) {
	for ended := true; ended && t.panic == ""; {
		var part []byte
		part, b, ended = bytes.Cut(b, []byte("\n"))
		t.line = append(t.line, part[:min(len(part), lineSize-len(t.line))]...)
		if !ended {
			return
		}
		for _, prefix := range []string{"panic: ", "fatal error: ", "SIG"} {
			if bytes.HasPrefix(t.line, []byte(prefix)) {
				t.panic = string(t.line)
			}
		}
		t.line = t.line[:0]
	}
}

// String returns the line of a panic if there was one, else the last bytes, without white space
// around them.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(cmp.Or(t.panic, string(t.last)))
}
