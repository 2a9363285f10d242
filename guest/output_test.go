package guest

import (
	"bytes"
	"os"
	"sync"
	"testing"
	"time"

	"wolffia/wire"
)

// The bytes that a process left in a pipe that another process holds arrive, also when the process
// ends while bytes are on their way and the host is slow.
func TestOutputBuffered(t *testing.T) {
	ours, theirs, err := newPipe(true)
	if err != nil {
		t.Fatal(err)
	}
	held := os.NewFile(uintptr(theirs), "pipe")
	t.Cleanup(func() { _ = held.Close() })
	chunk := bytes.Repeat([]byte("x"), 40_000)
	put := func() {
		if _, err := held.Write(chunk); err != nil {
			t.Error(err)
		}
	}
	put()
	o := newOutput(ours, wire.Stdout, false, nil, new(sync.Mutex))
	sent := 0
	slow := writerFunc(func(frame []byte) {
		if sent == 0 { // the process writes the rest and ends; long ago by the time the frame is out
			put()
			o.finish()
			o.mu.Lock()
			o.drain.Begin(time.Now().Add(-time.Hour), 0)
			o.mu.Unlock()
		}
		sent += len(frame) - wire.HeaderSize
	})
	o.move(&place{w: wire.NewWriter(slow), channel: 1})
	o.copy()
	if sent != 2*len(chunk) {
		t.Errorf("%d bytes of %d", sent, 2*len(chunk))
	}
}

type writerFunc func([]byte)

func (f writerFunc) Write(b []byte) (int, error) {
	f(b)
	return len(b), nil
}
