package shim

import (
	"fmt"
	"io"
	"strings"
	"sync"
)

// A tail copies the first logSize bytes to w, since a sandbox may write them, and keeps
// the last tailSize bytes. It is safe for concurrent use.
type tail struct {
	w    io.Writer
	mu   sync.Mutex
	room int    // bytes that may still be copied; guarded by mu
	last []byte // guarded by mu
}

const (
	tailSize = 4 << 10 // bytes
	logSize  = 1 << 20 // bytes, for each start of the sandbox
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

// String returns the last bytes, without white space around them.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(string(t.last))
}
