package container

import (
	"context"
	"io"
	"sync"
	"time"

	"wolffia/internal/excerpt"
	"wolffia/ops"
	"wolffia/runtime"
	"wolffia/service"
)

// kept is how many bytes of each stream of a main process are kept.
const kept = 1 << 20

// A Main is a main process that this process holds, or that clients of this process wait for.
type Main struct {
	runtime.Process // set before started is closed; nil: another one than byHolder
	started         chan struct{}
	ended           chan struct{}

	mu      sync.Mutex
	changed sync.Cond          // on what is below; uses mu
	waiting int                // clients that have attached before the start
	rings   [2]*excerpt.Ring   // stdout, stderr
	closed  [2]bool            // the stream has ended
	readers map[*position]bool // attached clients: the process waits for them
	code    *int               // known before ended is closed
}

// A position is how much of a stream a client has.
type position struct {
	which int
	at    uint64
}

func newMain() *Main {
	m := &Main{
		started: make(chan struct{}), ended: make(chan struct{}), readers: map[*position]bool{},
		rings: [2]*excerpt.Ring{excerpt.NewRing(kept), excerpt.NewRing(kept)},
	}
	m.changed.L = &m.mu
	return m
}

// main returns what is known here of a sandbox's main process, nil if it is nothing.
func (e *Engine) main(id string) *Main {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.live[id]
}

// drop forgets the main process of a sandbox that has gone, or does not run.
func (e *Engine) drop(id string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if m := e.live[id]; m != nil {
		m.begin(nil)
		m.end(lost)
	}
	delete(e.live, id)
}

// await returns the main process of a container that does not run yet. Its next start has the
// process wait for an attached client.
func (e *Engine) await(id string, attached bool) *Main {
	e.mu.Lock()
	defer e.mu.Unlock()
	m := e.live[id]
	if m == nil || isClosed(m.started) {
		m = newMain()
		e.live[id] = m
	}
	if attached {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.waiting++
	}
	return m
}

// Next returns what waits for the end of a container's main process: of its next start, if it does
// not run. That is expected from the call of Next on.
func (e *Engine) Next(caller service.Caller, c *Container) (wait func(context.Context) (int, error)) {
	if c.State == Running {
		return func(ctx context.Context) (int, error) { return e.Wait(ctx, caller, c) }
	}
	return e.await(c.Sandbox.ID, false).wait
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// awaited reports whether clients have attached before the start.
func (m *Main) awaited() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.waiting > 0 && !isClosed(m.started)
}

// begin says that the main process runs.
func (m *Main) begin(p runtime.Process) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !isClosed(m.started) {
		m.Process = p
		close(m.started)
	}
}

// end says how it has ended.
func (m *Main) end(code int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !isClosed(m.ended) {
		if m.code == nil {
			m.code = &code
		}
		m.closed = [2]bool{true, true}
		close(m.ended)
		m.changed.Broadcast()
	}
}

// settle notes the exit code of an end that is not told yet.
func (m *Main) settle(code int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.code == nil {
		m.code = &code
	}
}

// wait waits for the end.
func (m *Main) wait(ctx context.Context) (int, error) {
	select {
	case <-m.ended:
		return *m.code, nil
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

// process returns the main process of a container byHolder; nil: another process holds it.
func (e *Engine) process(c *Container) (runtime.Process, error) {
	m := e.main(c.Sandbox.ID)
	if m == nil {
		return nil, nil
	}
	if !isClosed(m.started) {
		return nil, runtime.Errorf(runtime.ErrUnavailable, "container %s is being started: try again", c.ID())
	}
	return m.Process, nil
}

// startHeld starts a main process that ends with this process.
func (e *Engine) startHeld(ctx context.Context, caller service.Caller, c *Container, in *service.Inside) error {
	began := make(chan struct{})
	begin := sync.OnceFunc(func() { close(began) })
	p, err := in.Start(context.WithoutCancel(ctx), &runtime.Command{
		Command: c.Argv, OpenStdin: c.OpenStdin, TTY: c.Tty, Rows: 24, Cols: 80,
		Queued: func(waits bool) {
			if !waits {
				begin()
			}
		},
	})
	if err != nil {
		return StartError(err)
	}
	e.mu.Lock()
	m := e.live[c.Sandbox.ID]
	if m == nil || isClosed(m.started) {
		m = newMain()
		e.live[c.Sandbox.ID] = m
	}
	e.mu.Unlock()
	ended, failed := make(chan struct{}), error(nil)
	var result runtime.Result
	go func() { // ends with the process
		result, failed = ops.Follow(context.Background(), p, m.take(0), m.take(1))
		close(ended)
	}()
	select {
	case <-began:
	case <-ended:
		if failed != nil {
			return StartError(failed)
		}
	}
	m.begin(p)
	e.events.tell("start", c, nil)
	go func() { // ends with the process
		<-ended
		if failed != nil {
			result.ExitCode = lost
		}
		e.finish(context.Background(), caller, c, Exit{codeOf(&result), time.Now()})
	}()
	return nil
}

// take returns what keeps a stream. It waits for the clients that are attached.
func (m *Main) take(which int) ops.Sink {
	return func(r io.Reader) error {
		buf := make([]byte, 32<<10)
		for {
			n, err := r.Read(buf)
			m.mu.Lock()
			for m.behind(which, n) {
				m.changed.Wait()
			}
			m.rings[which].Write(buf[:n])
			m.closed[which] = err != nil
			m.changed.Broadcast()
			m.mu.Unlock()
			if err != nil {
				return nil
			}
		}
	}
}

// behind reports whether an attached client would lose something by n more bytes. The caller holds
// mu.
func (m *Main) behind(which, n int) bool {
	for p := range m.readers {
		if p.which == which && m.rings[which].End()+uint64(n)-p.at > kept {
			return true
		}
	}
	return false
}

// read enters an attached client, from the beginning of a stream on, or from its present end.
func (m *Main) read(which int, fromEnd bool) *position {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := &position{which: which, at: m.rings[which].Start()}
	if fromEnd {
		p.at = m.rings[which].End()
	}
	m.readers[p] = true
	return p
}

// leave ends that.
func (m *Main) leave(p *position) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.readers, p)
	m.changed.Broadcast()
}

// copy writes a stream from a position on, to its end or, without follow, as far as it has come.
func (m *Main) copy(ctx context.Context, p *position, follow bool, w io.Writer) error {
	defer context.AfterFunc(ctx, m.changed.Broadcast)()
	buf := make([]byte, 32<<10)
	for {
		m.mu.Lock()
		ring := m.rings[p.which]
		for follow && p.at >= ring.End() && !m.closed[p.which] && ctx.Err() == nil {
			m.changed.Wait()
		}
		from, n := ring.Read(buf, p.at)
		m.mu.Unlock()
		if n == 0 || ctx.Err() != nil {
			return ctx.Err()
		}
		if _, err := w.Write(buf[:n]); err != nil {
			return err
		}
		m.mu.Lock()
		p.at = from + uint64(n)
		m.changed.Broadcast()
		m.mu.Unlock()
	}
}
