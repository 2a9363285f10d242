package envd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"wolffia/runtime"
	"wolffia/service/e2b/fault"
)

// exitKept is for how long it is known how a process has ended.
const exitKept = 30 * time.Second

// chunk is the most output of one message, in bytes, and ahead how many messages a client may be
// behind.
const (
	chunk = 32 << 10
	ahead = 32
)

// A keptProcess is what is known of a process that outlives the service, or is in a copy of a
// sandbox. It comes from the sandbox.
type keptProcess struct {
	Config processConfig `json:"config"`
	Tag    *string       `json:"tag,omitempty"`
	PTY    bool          `json:"pty,omitempty"`
	Input  bool          `json:"input,omitempty"` // it can be typed to
}

// text returns it as text, without the command's arguments and variables if these are too long.
func (k *keptProcess) text() string {
	text, _ := json.Marshal(k) // never fails: it has texts
	if len(text) > runtime.MaxKeep {
		text, _ = json.Marshal(&keptProcess{PTY: k.PTY, Input: k.Input})
	}
	return string(text)
}

// A running is a process that a client has started. It outlives the connection of its client.
type running struct {
	runtime.Process
	*keptProcess
	pid    number
	open   bool          // it has an input; guarded by typing
	typing chan struct{} // has a value while input is written, or closed

	mu      sync.Mutex
	clients []*client // guarded by mu
	done    chan struct{}
	end     *endEvent // how it has ended, set before done is closed; nil: err is why that is not known
	err     error
}

// A client gets the output of a process.
type client struct {
	events chan *processEvent
	left   chan struct{} // closed when it has gone
}

func newRunning(k *keptProcess) *running {
	return &running{keptProcess: k, open: k.Input, typing: make(chan struct{}, 1), done: make(chan struct{})}
}

// adopt takes the processes of a sandbox that have lost the service that has started them.
func (h *Handler) adopt(ctx context.Context, c *call) error {
	c.room.adopting.Lock() // else one of two requests has a process that the other one has got
	defer c.room.adopting.Unlock()
	all, err := c.in.Kept(ctx)
	for _, one := range all {
		k := new(keptProcess)
		if one.PID < 1 || json.Unmarshal([]byte(one.Keep), k) != nil {
			continue // another interface has started it
		}
		r := newRunning(k)
		r.pid = number(one.PID)
		if r.Process, err = c.in.StartProcess(ctx, &runtime.Command{Adopt: one.PID}); err != nil {
			return err
		}
		go r.run() // ends with the process
		h.keep(c.room, r, 0)
	}
	return err
}

// find returns a process; with ended also one that has ended not long ago.
func (h *Handler) find(ctx context.Context, c *call, s *selector, ended bool) (*running, error) {
	r, err := c.room.find(s, ended)
	if f := new(fault.Error); errors.As(err, &f) && f.Status == http.StatusNotFound {
		if err := h.adopt(ctx, c); err != nil {
			return nil, err
		}
		return c.room.find(s, ended)
	}
	return r, err
}

// join makes a client that gets what comes from now on. The caller calls leave.
func (r *running) join() (c *client, leave func()) {
	c = &client{make(chan *processEvent, ahead), make(chan struct{})}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.clients = append(r.clients, c)
	return c, func() {
		close(c.left)
		r.mu.Lock()
		defer r.mu.Unlock()
		r.clients = slices.DeleteFunc(r.clients, func(other *client) bool { return other == c })
	}
}

// pass passes output on to the clients that there are, and waits for each until it takes that, or
// has gone: a client has a limited time to read a part of its reply.
func (r *running) pass(from io.Reader, event func(b []byte) *dataEvent) {
	buf := make([]byte, chunk)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			r.mu.Lock()
			clients := slices.Clone(r.clients)
			r.mu.Unlock()
			if len(clients) > 0 {
				e := &processEvent{Data: event(slices.Clone(buf[:n]))}
				for _, c := range clients {
					select {
					case c.events <- e:
					case <-c.left:
					}
				}
			}
		}
		if err != nil {
			return
		}
	}
}

// run passes on the output until the process ends, and notes how. It closes it.
func (r *running) run() {
	var passing sync.WaitGroup
	if r.PTY {
		passing.Go(func() { r.pass(r.Stdout(), func(b []byte) *dataEvent { return &dataEvent{PTY: b} }) })
	} else {
		passing.Go(func() { r.pass(r.Stdout(), func(b []byte) *dataEvent { return &dataEvent{Stdout: b} }) })
		passing.Go(func() { r.pass(r.Stderr(), func(b []byte) *dataEvent { return &dataEvent{Stderr: b} }) })
	}
	exit, err := r.Wait(context.Background())
	passing.Wait()
	_ = r.Close()
	if r.err = err; err == nil {
		r.end = endOf(&exit)
	}
	close(r.done)
}

// endOf returns the end of a process as clients get it.
func endOf(exit *runtime.Result) *endEvent {
	e := &endEvent{ExitCode: exit.ExitCode, Exited: true, Status: "exit status " + strconv.Itoa(exit.ExitCode)}
	if exit.Signal != 0 {
		e = &endEvent{ExitCode: -1, Status: "signal: " + exit.Signal.String()}
	}
	if exit.ExitCode != 0 {
		e.Error = e.Status
	}
	return e
}

// start starts a process, and returns it once it runs, with a client that gets all of its output.
func (h *Handler) start(
	ctx context.Context, c *call, q *startRequest, header http.Header,
) (r *running, to *client, leave func(), err error) {
	who, err := c.basicUser(ctx, header)
	if err != nil {
		return nil, nil, nil, err
	}
	limit, err := limitOf(header)
	if err != nil {
		return nil, nil, nil, err
	}
	cwd, err := who.path(q.Process.Cwd)
	if err != nil {
		return nil, nil, nil, err
	}
	started := make(chan int, 1)
	cmd := &runtime.Command{
		Command: append([]string{q.Process.Cmd}, q.Process.Args...), Cwd: cwd, User: who.user,
		Env:       c.box.environment(q.Process.Envs),
		OpenStdin: q.PTY == nil && (q.Stdin == nil || *q.Stdin), Started: func(pid int) { started <- pid },
	}
	if limit > 0 { // it ends too where no service watches it
		cmd.Timeout = limit + killLimit
	}
	if q.PTY != nil {
		cmd.TTY, cmd.Rows, cmd.Cols = true, clamp(q.PTY.Size.Rows), clamp(q.PTY.Size.Cols)
	}
	r = newRunning(&keptProcess{q.Process, q.Tag, cmd.TTY, cmd.OpenStdin})
	cmd.Keep = r.text()
	if r.Process, err = c.in.StartProcess(ctx, cmd); err != nil {
		return nil, nil, nil, err
	}
	to, leave = r.join()
	go r.run() // ends with the process
	select {
	case pid := <-started:
		r.pid = number(pid)
	case <-r.done:
		select {
		case pid := <-started:
			r.pid = number(pid)
		default:
			leave()
			return nil, nil, nil, startError(r.err)
		}
	case <-ctx.Done():
		leave()
		_ = r.Close()
		return nil, nil, nil, ctx.Err()
	}
	h.keep(c.room, r, limit)
	return r, to, leave, nil
}

// clamp returns a size of a terminal.
func clamp(n number) uint16 { return uint16(min(n, 1<<16-1)) }

// startError returns the error for a process that could not be started: of a program that does not
// exist, too, it is one of the request.
func startError(err error) error {
	if failed, ok := asStart(err); ok {
		return fault.Invalid("%s", failed.Message)
	}
	if err == nil || isGone(err) {
		return fault.New(http.StatusBadGateway, "The sandbox was not found")
	}
	return err
}

// keep has clients find a process until some time after its end, and kills it when its time is
// over; limit 0: never.
func (h *Handler) keep(in *room, r *running, limit time.Duration) {
	h.rooms.enter(in.id)
	in.mu.Lock()
	in.processes[r.pid] = r // in the place of one that has ended
	in.mu.Unlock()
	if limit > 0 {
		over := time.AfterFunc(limit, func() { _ = r.Close() })
		go func() { <-r.done; over.Stop() }() // ends with the process
	}
	go func() { // ends some time after the process
		<-r.done
		forget := func() {
			in.mu.Lock()
			if in.processes[r.pid] == r {
				delete(in.processes, r.pid)
			}
			in.mu.Unlock()
			h.rooms.exit(in)
		}
		if r.end == nil {
			forget()
			return
		}
		time.AfterFunc(exitKept, forget)
	}()
}

// limitOf returns how long a process may run; 0: without limit.
func limitOf(header http.Header) (time.Duration, error) {
	text := header.Get("Connect-Timeout-Ms")
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 || n > 1<<40 {
		return 0, fault.Invalid("Connect-Timeout-Ms: %q: it must be a number of milliseconds", text)
	}
	return time.Duration(n) * time.Millisecond, nil
}

// follow sends a client what a process does, until it has ended or the client has gone.
func (r *running) follow(
	ctx context.Context, in *room, to *client, header http.Header, send func(*processReply) error,
) error {
	life := keepalive(header)
	defer life.Stop()
	left := in.left()
	if err := send(&processReply{processEvent{Start: &startEvent{r.pid}}}); err != nil {
		return err
	}
	for ended := false; !ended; {
		var e *processEvent
		select {
		case e = <-to.events:
		case <-r.done:
			ended = true
			in.decided(ctx) // the end of the sandbox is not that of its process
			continue
		case <-life.C:
			e = &processEvent{Keepalive: &empty{}}
		case <-left:
			return errGone
		case <-ctx.Done():
			return ctx.Err()
		}
		life.Reset(keepalivePause(header))
		if err := send(&processReply{*e}); err != nil {
			return err
		}
	}
	for len(to.events) > 0 {
		if err := send(&processReply{*<-to.events}); err != nil {
			return err
		}
	}
	select {
	case <-left:
		return errGone
	default:
	}
	if r.end == nil {
		return errGone
	}
	return send(&processReply{processEvent{End: r.end}})
}

// write types input, or closes it if b is nil.
func (r *running) write(ctx context.Context, b []byte, closes bool) error {
	select {
	case r.typing <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	wrote := make(chan error, 1)
	go func() { // ends with the process
		defer func() { <-r.typing }()
		switch {
		case closes && r.open:
			r.open = false
			wrote <- r.Stdin().Close()
		case closes:
			wrote <- nil
		case !r.PTY && !r.open:
			wrote <- fmt.Errorf("%w: it was closed, or the process has none", errInput)
		default:
			_, err := r.Stdin().Write(b)
			if err != nil {
				err = fmt.Errorf("%w: %w", errInput, err)
			}
			wrote <- err
		}
	}()
	select {
	case err := <-wrote:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// signals are those that a client can send, by their names and numbers in the protocol.
var signals = map[symbol]syscall.Signal{
	"SIGNAL_SIGTERM": syscall.SIGTERM, "15": syscall.SIGTERM, "SIGNAL_SIGKILL": syscall.SIGKILL, "9": syscall.SIGKILL,
}
