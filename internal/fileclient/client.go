// Package fileclient does file operations in sandboxes for a program on the host. It asks helpers inside, programs of
// package filecall, and keeps them for the next operations.
package fileclient

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"wolffia/internal/filecall"
	"wolffia/runtime"
	"wolffia/runtime/launch"
)

// ErrLate is wrapped by the error for an operation that takes longer than [Limit].
var ErrLate = errors.New("no reply")

// Limit is how long an operation may take, without the time in which its content comes or goes.
const Limit = time.Minute

const (
	// linger is how long a helper waits for another operation: as long as it runs, the sandbox is in use.
	linger = time.Second
	// maxIdle is how many helpers of a place wait.
	maxIdle = 2
	// giveUpLimit is how long an operation that fails may take to undo what it has done.
	giveUpLimit = 10 * time.Second
	// maxHead is the largest reply to OpGet and OpLines, in bytes. It may have an error with a path.
	maxHead = 64 << 10
)

// A Starter starts processes: a runtime.Runtime.
type Starter interface {
	StartProcess(ctx context.Context, sandboxID string, spec *runtime.Command) (runtime.Process, error)
}

// A Client does file operations. It is safe for concurrent use. Its helpers end by themselves.
type Client struct {
	rt Starter

	mu   sync.Mutex
	idle map[Place][]*helper // the last one was used last; guarded by mu
}

// New returns a Client.
func New(rt Starter) *Client { return &Client{rt: rt, idle: map[Place][]*helper{}} }

// A Place is where operations begin.
type Place struct {
	Sandbox string
	Dir     string // as runtime.ProcessSpec.Cwd
}

// A helper is a process that does one operation after the other.
type helper struct {
	at      Place
	p       runtime.Process
	in      *filecall.Receiver
	out     *filecall.Sender
	said    said
	expired *time.Timer   // while it is idle
	ended   chan struct{} // closed when the process has ended
	result  runtime.Result
	exit    error // why it cannot be known how it has ended, or nil; set then, as result
}

// said keeps the beginning of what a process writes to standard error.
type said struct {
	mu   sync.Mutex
	text []byte // guarded by mu
}

func (s *said) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.text = append(s.text, b[:min(len(b), 300-len(s.text))]...)
	return len(b), nil
}

func (s *said) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.ToValidUTF8(strings.TrimSpace(string(s.text)), "\uFFFD")
}

// take returns a helper that nothing else uses.
func (c *Client) take(ctx context.Context, at Place) (*helper, error) {
	if h := c.waiting(at); h != nil {
		return h, nil
	}
	spec := &runtime.Command{Command: []string{launch.GuestPath, filecall.Arg}, Cwd: at.Dir, OpenStdin: true}
	p, err := c.rt.StartProcess(ctx, at.Sandbox, spec)
	if err != nil {
		return nil, cannotRun(at, err)
	}
	h := &helper{at: at, p: p, in: filecall.NewReceiver(p.Stdout()), out: filecall.NewSender(p.Stdin()), ended: make(chan struct{})}
	go func() { _, _ = io.Copy(&h.said, p.Stderr()) }() // ends with the process
	go func() {                                         // ends with the process
		h.result, h.exit = p.Wait(context.Background())
		close(h.ended)
	}()
	return h, nil
}

// waiting returns a helper that waits for an operation, or nil.
func (c *Client) waiting(at Place) *helper {
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		all := c.idle[at]
		if len(all) == 0 {
			return nil
		}
		h := all[len(all)-1]
		c.remove(h)
		if h.expired.Stop() && !isClosed(h.ended) {
			return h
		}
	}
}

// remove removes a helper from those that wait, if it is one. c.mu is held.
func (c *Client) remove(h *helper) {
	c.idle[h.at] = slices.DeleteFunc(c.idle[h.at], func(other *helper) bool { return other == h })
	if len(c.idle[h.at]) == 0 {
		delete(c.idle, h.at)
	}
}

// keep has a helper wait for another operation.
func (c *Client) keep(h *helper) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.idle[h.at]) == maxIdle {
		_ = h.p.Close()
		return
	}
	h.expired = time.AfterFunc(linger, func() {
		c.mu.Lock()
		c.remove(h)
		c.mu.Unlock()
		_ = h.p.Close()
	})
	c.idle[h.at] = append(c.idle[h.at], h)
}

// End ends a helper of a place that waits for another operation, and returns how it has ended, with what was denied to
// it; the zero Result if none waits, or if ctx ends before.
func (c *Client) End(ctx context.Context, at Place) (r runtime.Result) {
	h := c.waiting(at)
	if h == nil {
		return r
	}
	defer h.p.Close()
	_ = h.p.Stdin().Close()
	select {
	case <-h.ended:
		r = h.result
	case <-ctx.Done():
	}
	return r
}

// Do has a request done, and returns the reply, of at most most bytes. content, which may be nil, is what OpPut needs: if its
// reader fails, nothing is changed, and the error is a [BadContent]. Otherwise it is the [filecall.Error] of the reply, ctx's, or,
// without a reply, of a class of package runtime.
func (c *Client) Do(ctx context.Context, at Place, q *filecall.Request, content io.Reader, most int) (*filecall.Reply, error) {
	h, err := c.take(ctx, at)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { h.giveUp(content != nil) })
	reply, whole, err := h.ask(q, content, most)
	switch {
	case !stop():
		_ = h.p.Close()
		if err != nil {
			return nil, ctx.Err()
		}
	case whole:
		c.keep(h)
	default:
		_ = h.p.Close()
	}
	return reply, err
}

// giveUp ends the process, which first undoes a change.
func (h *helper) giveUp(undo bool) {
	if !undo {
		_ = h.p.Close()
		return
	}
	_ = h.p.Stdin().Close()
	time.AfterFunc(giveUpLimit, func() { _ = h.p.Close() })
}

// A BadContent says that a content could not be read.
type BadContent struct{ error }

// Unwrap returns the reader's error.
func (e *BadContent) Unwrap() error { return e.error }

// ask sends a request with its content, and waits for the reply. It reports whether the helper waits for another request then.
func (h *helper) ask(q *filecall.Request, content io.Reader, most int) (_ *filecall.Reply, whole bool, _ error) {
	text, err := json.Marshal(q)
	if err == nil && len(text) > filecall.MaxRequest {
		err = runtime.Errorf(runtime.ErrInvalid, "the request has %d bytes, the limit is %d", len(text), filecall.MaxRequest)
	}
	if err != nil {
		return nil, true, err
	}
	replied := make(chan struct{})
	sent := make(chan error, 1)
	go func() { sent <- h.send(text, content, replied) }() // ends with the content, or with the process
	reply := new(filecall.Reply)
	go func() { // ends with the process
		err = h.in.JSON(reply, most)
		close(replied)
	}()
	var sending error
	select {
	case sending = <-sent:
		late := time.AfterFunc(Limit, func() { _ = h.p.Close() })
		<-replied
		if !late.Stop() {
			return nil, false, runtime.Errorf(runtime.ErrUnavailable, "the files of sandbox %s: %w within %v", h.at.Sandbox, ErrLate, Limit)
		}
	case <-replied: // it has failed before it had all
		limit := Limit // it may not read the rest
		if err != nil {
			limit = 0
		}
		late := time.AfterFunc(limit, func() { _ = h.p.Close() })
		sending = <-sent
		late.Stop()
	}
	var bad *BadContent
	switch {
	case errors.As(sending, &bad):
		return nil, false, bad
	case err != nil:
		return nil, false, h.lost(err)
	case reply.Err != nil && reply.Err.Message == filecall.Unknown(q.Op).Message:
		return nil, false, h.older()
	case reply.Err != nil:
		return nil, sending == nil, reply.Err
	}
	return reply, sending == nil, nil
}

// send sends a request and its content, until there is a reply.
func (h *helper) send(q []byte, content io.Reader, replied <-chan struct{}) error {
	if err := h.out.Frame(q); err != nil || content == nil {
		return err
	}
	for buf := make([]byte, 256<<10); !isClosed(replied); {
		n, err := io.ReadFull(content, buf) // a body of several parts comes in pieces of 4 KiB
		if n > 0 && errors.Is(err, io.ErrUnexpectedEOF) {
			err = nil // the next read has it, or the reader's own
		}
		if _, werr := h.out.Write(buf[:n]); werr != nil {
			return werr
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return &BadContent{errors.Join(err, h.p.Stdin().Close())}
		}
	}
	return h.out.End()
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// lost returns why there is no reply, for which the helper has ended, or is ended.
func (h *helper) lost(err error) error {
	if errors.Is(err, filecall.ErrDamaged) {
		return runtime.Errorf(runtime.ErrUnavailable, "the files of sandbox %s: the reply: %w", h.at.Sandbox, err)
	}
	select {
	case <-h.ended:
	case <-time.After(time.Second):
		return runtime.Errorf(runtime.ErrUnavailable, "the files of sandbox %s: the program inside does not reply: %w", h.at.Sandbox, err)
	}
	said := h.said.String()
	switch {
	case h.exit != nil:
		return cannotRun(h.at, h.exit)
	case strings.Contains(said, "arguments ["):
		return h.older()
	}
	return runtime.Errorf(runtime.ErrUnavailable, "the files of sandbox %s: the program inside has ended: %q", h.at.Sandbox, said)
}

// older returns the error for a helper of an older version.
func (h *helper) older() error {
	return runtime.Errorf(runtime.ErrUnavailable, "sandbox %[1]s was started by an older wolffia, which has no such file tools: the user can run: wolffia stop %[1]s; wolffia start %[1]s", h.at.Sandbox)
}

// cannotRun explains that a helper does not run.
func cannotRun(at Place, err error) error {
	if start, ok := errors.AsType[*runtime.StartError](err); ok {
		return runtime.Errorf(runtime.ErrUnavailable, "sandbox %s cannot run its program for files: %s", at.Sandbox, start.Message)
	}
	return err
}

// A Part is a part of a file that is being read. The caller closes it.
type Part struct {
	filecall.Head
	client *Client
	h      *helper
	stop   func() bool
	read   int64
}

// Get begins to read what q, of OpGet or OpLines, asks for. The error is as of [Client.Do].
func (c *Client) Get(ctx context.Context, at Place, q *filecall.Request) (*Part, error) {
	h, err := c.take(ctx, at)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = h.p.Close() })
	reply, whole, err := h.ask(q, nil, maxHead)
	if err == nil && (reply.Head == nil || !fits(reply.Head, q)) {
		whole, err = false, runtime.Errorf(runtime.ErrUnavailable, "the files of sandbox %s: the reply: %w", at.Sandbox, filecall.ErrDamaged)
	}
	if err == nil {
		h.in.Begin()
		return &Part{*reply.Head, c, h, stop, 0}, nil
	}
	if stop() && whole {
		c.keep(h)
		return nil, err
	}
	_ = h.p.Close()
	return nil, errors.Join(ctx.Err(), err)
}

// fits reports whether a head can be of the answer to a request.
func fits(h *filecall.Head, q *filecall.Request) bool {
	return h.Size >= 0 && h.Start >= 0 && (h.Bytes >= 0 && (q.Most < 0 || h.Bytes <= q.Most) || h.Bytes == -1 && q.Op == filecall.OpLines)
}

// Read implements [io.Reader]. A part that is not of p.Bytes bytes is an error.
func (p *Part) Read(b []byte) (int, error) {
	n, err := p.h.in.Read(b)
	p.read += int64(n)
	if p.Bytes >= 0 && (p.read > p.Bytes || errors.Is(err, io.EOF) && p.read < p.Bytes) {
		return 0, io.ErrUnexpectedEOF
	}
	return n, err
}

// Close ends the reading.
func (p *Part) Close() error {
	if p.stop() && p.h.in.Ended() {
		p.client.keep(p.h)
		return nil
	}
	return p.h.p.Close()
}

// A Watch reports changes of a directory. The caller closes it. Its methods are for one goroutine, but for Close.
type Watch struct {
	h    *helper
	stop func() bool
}

// Watch begins what q, of OpWatch, asks for, in a process of its own. The error is as of [Client.Do]. The end of ctx ends
// the Watch.
func (c *Client) Watch(ctx context.Context, at Place, q *filecall.Request) (*Watch, error) {
	h, err := c.take(ctx, at)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = h.p.Close() })
	if _, whole, err := h.ask(q, nil, maxHead); err != nil {
		if stop() && whole {
			c.keep(h)
		} else {
			_ = h.p.Close()
		}
		return nil, errors.Join(ctx.Err(), err)
	}
	return &Watch{h, stop}, nil
}

// Next waits for events. The sandbox can forge them. The error says that no more come.
func (w *Watch) Next() (events []filecall.Event, err error) {
	if err := w.h.in.JSON(&events, filecall.MaxEvents); err != nil {
		return nil, w.h.lost(err)
	}
	return events, nil
}

// Close ends the Watch. It can be called twice.
func (w *Watch) Close() error {
	w.stop()
	return w.h.p.Close()
}
