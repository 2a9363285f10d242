package session

import (
	"sync"
	"sync/atomic"
	"syscall"

	"wolffia/wire"
)

// A Call is one channel with a request to a session. Its methods are for
// the guest, which passes on what the channel's frames say; they never wait.
type Call struct {
	channel uint32
	w       *wire.Writer
	req     *wire.StartRequest
	done    func() // the channel's number is free
	h       atomic.Pointer[handler]
	queued  atomic.Int64 // bytes of input that wait
	end     sync.Mutex   // held to end the channel, and over what must not come after its end
	ended   bool         // guarded by end
	// detached takes the channel's place; nil: there is a channel.
	detached *detached

	// What follows is the handler's.
	credit   map[wire.Type]int
	input    []wire.Frame
	at       int    // bytes of the first of input that are written
	unread   []byte // what a shell was given that has not come to the text; before input
	closed   bool   // no more input will come
	killed   bool
	finished bool
	waited   bool   // the host knows that it waits
	created  func() // what follows the creation of its session, or nil
}

// A handler does what a call's frames ask for. It must not block.
type handler interface {
	onInput(c *Call, f wire.Frame)
	onClose(c *Call)
	onSignal(c *Call, sig syscall.Signal)
	onKill(c *Call)
	onResize(c *Call, rows, cols uint16)
	onCredit(c *Call, stream wire.Type, n int)
}

func (c *Call) setHandler(h handler) { c.h.Store(&h) }

// pass calls f with the handler. A session's handler is called in the session's turn, and may
// replace itself with another session.
func (c *Call) pass(f func(h handler)) {
	h := *c.h.Load()
	if s, ok := h.(*Session); ok {
		s.turns.post(func() { f(*c.h.Load()) })
		return
	}
	f(h)
}

// PutInput queues a frame of standard input, which it owns afterwards. False means that the host
// has sent more than its credit.
func (c *Call) PutInput(f wire.Frame) bool {
	if c.queued.Add(int64(len(f.Payload()))) > wire.Window {
		f.Release()
		return false
	}
	c.pass(func(h handler) { h.onInput(c, f) })
	return true
}

// CloseInput ends the input.
func (c *Call) CloseInput() { c.pass(func(h handler) { h.onClose(c) }) }

// Signal sends sig to the foreground process group.
func (c *Call) Signal(sig syscall.Signal) { c.pass(func(h handler) { h.onSignal(c, sig) }) }

// Kill gives the call up: a command is interrupted, a terminal detached.
func (c *Call) Kill() { c.pass(func(h handler) { h.onKill(c) }) }

// Resize sets the size of the terminal.
func (c *Call) Resize(rows, cols uint16) { c.pass(func(h handler) { h.onResize(c, rows, cols) }) }

// Grant adds credit for one stream.
func (c *Call) Grant(stream wire.Type, n int) { c.pass(func(h handler) { h.onCredit(c, stream, n) }) }

// consumed returns credit for input that was used or is not wanted.
func (c *Call) consumed(n int) {
	c.queued.Add(-int64(n))
	c.end.Lock()
	defer c.end.Unlock()
	if !c.ended {
		_ = c.w.Send(wire.Credit, c.channel, wire.AppendCredit(nil, wire.Stdin, n))
	}
}

// dropInput forgets what waits.
func (c *Call) dropInput() {
	for i := range c.input {
		c.queued.Add(-int64(len(c.input[i].Payload())))
		c.input[i].Release()
	}
	c.input, c.unread, c.at = nil, nil, 0
}

// started tells the host that the call's command has had its turn, and its time counts.
func (c *Call) started() {
	c.end.Lock()
	defer c.end.Unlock()
	switch {
	case c.detached != nil:
		c.detached.begin()
	case !c.ended:
		c.sendStarted()
	}
}

// waits tells the host that the call's command waits for others.
func (c *Call) waits() {
	c.end.Lock()
	defer c.end.Unlock()
	if !c.ended && c.detached == nil {
		c.waited = true
		_ = c.w.Send(wire.Queued, c.channel, nil)
	}
}

// sendStarted sends the frame for started.
func (c *Call) sendStarted() { _ = c.w.Send(wire.Started, c.channel, make([]byte, 4)) }

// finish sends the frame that ends the channel.
func (c *Call) finish(t wire.Type, v any) {
	c.end.Lock()
	defer c.end.Unlock()
	c.ended = true
	if c.detached != nil {
		c.detached.finish(v)
		return
	}
	c.done()
	_ = c.w.SendJSON(t, c.channel, v)
}

// exit ends the channel. If the creation of the session ends that the call needs, exit continues
// with the call.
func (c *Call) exit(status wire.ExitStatus) {
	if c.finished {
		return
	}
	if then := c.created; then != nil {
		c.created = nil
		then()
		return
	}
	c.finished = true
	c.dropInput()
	c.finish(wire.Exit, status)
}

// fail ends the channel without a result.
func (c *Call) fail(class, message string) {
	if c.finished {
		return
	}
	c.finished = true
	c.dropInput()
	c.finish(wire.Failed, wire.Failure{Code: 125, Message: message, Class: class})
}

// giveUp ends the channel of a call that was canceled before it had a result.
func (c *Call) giveUp() { c.fail(wire.ClassConflict, "the request was canceled") }

func (c *Call) addCredit(stream wire.Type, n int) {
	c.credit[stream] = min(c.credit[stream]+n, wire.MaxCredit)
}

// ignore handles the frames of a call that is answered at once.
type ignore struct{}

func (ignore) onInput(c *Call, f wire.Frame) {
	n := len(f.Payload())
	f.Release()
	c.consumed(n)
}
func (ignore) onClose(*Call)                  {}
func (ignore) onSignal(*Call, syscall.Signal) {}
func (ignore) onKill(*Call)                   {}
func (ignore) onResize(*Call, uint16, uint16) {}
func (ignore) onCredit(*Call, wire.Type, int) {}
