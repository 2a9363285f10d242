package session

import (
	"sync"

	"wolffia/wire"
)

// A recording is output that is kept, by its offset from the start.
type recording interface {
	// Read copies from offset at on, or from the oldest byte if that is later; from
	// is the offset of the first byte copied. n is 0 at the end.
	Read(b []byte, at uint64) (from uint64, n int)
}

// A head is a recording of the first bytes of an output.
type head []byte

func (h head) Read(b []byte, at uint64) (from uint64, n int) {
	from = min(at, uint64(len(h)))
	return from, copy(b, h[from:])
}

// A watcher handles the frames of a call that is sent a recording. Credit and the
// call's killed are guarded by change's lock.
type watcher struct {
	ignore
	change *sync.Cond // the recording, credit or killed has changed
	buf    []byte     // send's own
}

func (w *watcher) onKill(c *Call) {
	w.change.L.Lock()
	defer w.change.L.Unlock()
	c.killed = true
	w.change.Broadcast()
}

func (w *watcher) onCredit(c *Call, stream wire.Type, n int) {
	w.change.L.Lock()
	defer w.change.L.Unlock()
	c.addCredit(stream, n)
	w.change.Broadcast()
}

// follow calls send until it has nothing more to send, or the call is canceled. It waits while
// send has sent nothing. Precondition: change's lock is held.
func (w *watcher) follow(c *Call, send func() (sent, more bool)) {
	for !c.killed {
		sent, more := send()
		if !sent && !more {
			return
		}
		if !sent {
			w.change.Wait()
		}
	}
}

// send sends a frame of what follows offset at in a recording, as far as there is credit,
// and moves at behind it. It reports whether it has sent anything.
// Precondition: change's lock is held; send releases it while it sends.
func (w *watcher) send(c *Call, stream wire.Type, r recording, at *uint64) bool {
	if w.buf == nil {
		w.buf = make([]byte, wire.MaxPayload)
	}
	from, n := r.Read(w.buf[:min(len(w.buf), c.credit[stream])], *at)
	*at = max(*at, from) + uint64(n)
	if n == 0 {
		return false
	}
	c.credit[stream] -= n
	w.change.L.Unlock()
	defer w.change.L.Lock()
	_ = c.w.Send(stream, c.channel, w.buf[:n]) // a broken stream to the host ends the guest elsewhere
	return true
}

// sendHeads is send for both outputs of a command. It reports whether it has sent anything, and
// whether there is more.
func (w *watcher) sendHeads(c *Call, out *[2]head, at *[2]uint64) (sent, more bool) {
	for i, stream := range outputs {
		sent = w.send(c, stream, out[i], &at[i]) || sent
		more = more || at[i] < uint64(len(out[i]))
	}
	return sent, more
}

// outputs are the two streams of a command.
var outputs = [2]wire.Type{wire.Stdout, wire.Stderr}
