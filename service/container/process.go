package container

import (
	"context"
	"io"
	"sync"
	"syscall"

	"wolffia/internal/excerpt"
	"wolffia/ops"
	"wolffia/runtime"
)

// kept is how many bytes of each stream of a main process are kept.
const kept = 1 << 20

// mainJob is the session, and the job in it, that is a main process byJob.
const mainJob = "main"

// discard reads a stream to its end.
var discard = ops.To(io.Discard)

// A viewed main process is a [runtime.Process] whose Close ends the view only. past is how many
// bytes of each stream are there already.
type viewed struct {
	runtime.Process
	past [2]uint64
}

// errElsewhere is wrapped by the error for a main process whose streams another process of the
// host has.
var errElsewhere = runtime.Errorf(runtime.ErrUnsupported,
	"the container is attached to another client, which has its output and its exit code")

// A look says what a view of a main process shows.
type look struct {
	past     bool // from the beginning on, as far as it is kept; otherwise what comes from now on
	follow   bool // to its end; otherwise as far as it is now, unless it has a terminal
	attached bool // the process waits for this view, if its streams are here
}

// view returns a view of a container's main process. The caller closes the view.
func (c *Container) view(ctx context.Context, l look) (v viewed, err error) {
	in, err := c.inside(ctx)
	if err != nil {
		return v, err
	}
	starting := runtime.Errorf(runtime.ErrUnavailable, "container %s is being started: try again", c.ID())
	switch c.Kind {
	case "": // what the sandbox has is of an earlier start
		return v, starting
	case byHolder:
		m := c.engine.main(c.Sandbox.ID)
		if m == nil {
			return v, errElsewhere
		}
		if !isClosed(m.started) {
			return v, starting
		}
		v.Process, v.past = m.view(l)
	case byTerminal:
		q := &runtime.AttachRequest{Offset: runtime.FromEnd}
		if l.past {
			q.Offset = 0
		}
		t, err := in.View(ctx, c.Session, q)
		if err != nil {
			return v, err
		}
		v.Process, v.past[0] = t, min(t.End()-t.Start(), kept)
	default:
		all := in.Jobs(mainJob)
		j, err := all.Get(ctx, mainJob)
		if err != nil {
			return v, err
		}
		from := [2]uint64{j.Stdout.End, j.Stderr.End}
		if l.past {
			from = [2]uint64{min(j.Stdout.Start, from[0]), min(j.Stderr.Start, from[1])}
			v.past = [2]uint64{min(j.Stdout.End-from[0], kept), min(j.Stderr.End-from[1], kept)}
		}
		p, err := all.Runtime.JobOutput(ctx, all.Session, j.ID, from[0], from[1], l.follow)
		if err != nil {
			return v, err
		}
		v.Process = &job{p, all}
	}
	return v, nil
}

// A job is a view of a main process byJob.
type job struct {
	runtime.Process
	all ops.Jobs
}

// Wait implements [runtime.Process].
func (j *job) Wait(ctx context.Context) (runtime.Result, error) {
	return j.all.Runtime.WaitJob(ctx, j.all.Session, mainJob)
}

// Signal implements [runtime.Process].
func (j *job) Signal(sig syscall.Signal) error {
	return j.all.Runtime.SignalJob(context.Background(), j.all.Session, mainJob, sig)
}

// Resize implements [runtime.Process]: a job has no terminal.
func (j *job) Resize(uint16, uint16) error { return nil }

// A held main process is one whose streams this process has, or for whose start clients of this
// process wait.
type held struct {
	started, ended chan struct{} // closed then

	mu      sync.Mutex
	changed sync.Cond          // on what is below; uses mu
	process runtime.Process    // set before started is closed; nil: its streams are not here
	rings   [2]*excerpt.Ring   // stdout, stderr
	closed  [2]bool            // the stream has ended
	readers map[*heldView]bool // attached clients: the process waits for them
	code    int                // set before ended is closed
}

func newHeld() *held {
	m := &held{started: make(chan struct{}), ended: make(chan struct{}), readers: map[*heldView]bool{}}
	m.rings = [2]*excerpt.Ring{excerpt.NewRing(kept), excerpt.NewRing(kept)}
	m.changed.L = &m.mu
	return m
}

// main returns what is known here of a sandbox's main process, nil if it is nothing.
func (e *Engine) main(id string) *held {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.live[id]
}

// drop forgets the main process of a sandbox that has ended, or does not run.
func (e *Engine) drop(id string, code int) {
	e.mu.Lock()
	m := e.live[id]
	delete(e.live, id)
	e.mu.Unlock()
	if m != nil {
		m.begin(nil)
		m.end(code)
	}
}

// next returns the next main process of a container that does not run.
func (e *Engine) next(id string) *held {
	e.mu.Lock()
	defer e.mu.Unlock()
	if m := e.live[id]; m != nil && !isClosed(m.started) {
		return m
	}
	e.live[id] = newHeld()
	return e.live[id]
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
func (m *held) awaited() bool {
	if m == nil || isClosed(m.started) {
		return false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.readers) > 0
}

// begin says that the main process runs.
func (m *held) begin(p runtime.Process) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !isClosed(m.started) {
		m.process = p
		close(m.started)
	}
}

// end says how it has ended. The first call counts.
func (m *held) end(code int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !isClosed(m.ended) {
		m.code, m.closed = code, [2]bool{true, true}
		close(m.ended)
		m.changed.Broadcast()
	}
}

// wait waits for the end.
func (m *held) wait(ctx context.Context) (int, error) {
	select {
	case <-m.ended:
		return m.code, nil
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

// take returns what keeps a stream. It waits for the clients that are attached.
func (m *held) take(which int) ops.Sink {
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
func (m *held) behind(which, n int) bool {
	for v := range m.readers {
		if m.rings[which].End()+uint64(n)-v.at[which] > kept {
			return true
		}
	}
	return false
}

// A heldView is a view of a main process that is held here.
type heldView struct {
	*held
	at     [2]uint64 // of the streams; guarded by mu, as what follows
	follow bool
	left   bool
}

// view returns a view; the process waits for an attached one.
func (m *held) view(l look) (v *heldView, there [2]uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	v = &heldView{held: m, follow: l.follow}
	for i, r := range m.rings {
		v.at[i] = r.End()
		if l.past {
			v.at[i] = r.Start()
			there[i] = r.End() - r.Start()
		}
	}
	if l.attached {
		m.readers[v] = true
	}
	return v, there
}

// Stdin implements [runtime.Process].
func (v *heldView) Stdin() io.WriteCloser { return v.process.Stdin() }

// Stdout implements [runtime.Process].
func (v *heldView) Stdout() io.Reader { return &heldStream{v, 0} }

// Stderr implements [runtime.Process].
func (v *heldView) Stderr() io.Reader { return &heldStream{v, 1} }

// Signal implements [runtime.Process].
func (v *heldView) Signal(sig syscall.Signal) error { return v.process.Signal(sig) }

// Resize implements [runtime.Process].
func (v *heldView) Resize(rows, cols uint16) error { return v.process.Resize(rows, cols) }

// Wait implements [runtime.Process].
func (v *heldView) Wait(ctx context.Context) (runtime.Result, error) {
	code, err := v.wait(ctx)
	return runtime.Result{ExitCode: code}, err
}

// Close implements [runtime.Process].
func (v *heldView) Close() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.left = true
	delete(v.readers, v)
	v.changed.Broadcast()
	return nil
}

// A heldStream reads a stream of a view.
type heldStream struct {
	*heldView
	which int
}

// Read implements [io.Reader].
func (s *heldStream) Read(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ring := s.rings[s.which]
	for s.follow && s.at[s.which] >= ring.End() && !s.closed[s.which] && !s.left {
		s.changed.Wait()
	}
	from, n := ring.Read(b, s.at[s.which])
	if n == 0 || s.left {
		return 0, io.EOF
	}
	s.at[s.which] = from + uint64(n)
	s.changed.Broadcast()
	return n, nil
}
