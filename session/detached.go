package session

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"sync"

	"wolffia/wire"
)

// Bounds of the ended detached commands that a session remembers, and of the bytes of their
// output. The last one's output is always kept.
const (
	maxDetached      = 32
	maxDetachedBytes = 2 * wire.MaxKept
)

// maxPending bounds how many detached commands of a session may wait.
const maxPending = 256

// A detached command continues when its caller disconnects, and can be asked for again by its
// operation id (docs/decisions/04-protocol.md). It stands in for the channel of the command's own
// Call.
type detached struct {
	key    string
	digest [sha256.Size]byte // of the request
	call   *Call             // the command's own; the session's
	end    func()            // called when the command is over

	mu      sync.Mutex
	change  *sync.Cond // anything below has changed; uses mu
	out     [2]head    // guarded by mu
	total   [2]uint64  // bytes that were written; guarded by mu
	begun   bool       // it has had its turn; guarded by mu
	over    bool       // guarded by mu
	status  *wire.ExitStatus
	failure wire.Failure // if there is no status; guarded by mu
}

// Operations are the detached commands of a session. They belong to its turn.
type operations struct {
	all      []*detached // oldest first
	activity *activity
}

func (d *detached) write(stream wire.Type, b []byte) {
	d.mu.Lock()
	defer d.mu.Unlock()
	i := slices.Index(outputs[:], stream)
	d.total[i] += uint64(len(b))
	room := wire.MaxKept - len(d.out[i])
	d.out[i] = append(d.out[i], b[:min(len(b), room)]...)
	d.change.Broadcast()
}

// finish takes the payload of the frame that would end the channel.
func (d *detached) finish(v any) {
	d.mu.Lock()
	again := d.over
	d.over = true
	switch v := v.(type) {
	case wire.ExitStatus:
		v.StdoutEnd, v.StderrEnd = d.total[0], d.total[1]
		d.status = &v
	case wire.Failure:
		d.failure = v
	}
	d.change.Broadcast()
	d.mu.Unlock()
	if !again {
		d.end()
	}
}

// begin notes that the command has had its turn.
func (d *detached) begin() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.begun = true
	d.change.Broadcast()
}

// state returns how many bytes are kept, whether the command is over, and whether it
// could not be begun.
func (d *detached) state() (size int, over, failed bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.out[0]) + len(d.out[1]), d.over, d.over && d.status == nil
}

// digest is the same for two requests for the same command only.
func digest(r *wire.StartRequest) [sha256.Size]byte {
	return sha256.Sum256(fmt.Appendf(nil, "%q %q %q %d %t", r.Args, r.Dir, r.Env, r.TimeoutMS, r.Merge))
}

// detach makes c watch the detached command of its name, which it begins if the command does not
// exist.
func (s *Session) detach(c *Call) {
	q := c.req.Session
	if s.refuses(c) {
		return
	}
	sum := digest(c.req)
	d := s.ops.find(q.Job)
	switch {
	case d == nil && s.ops.pending() >= maxPending:
		c.fail(wire.ClassConflict, fmt.Sprintf("session %q: %d operations wait already", s.name, maxPending))
		return
	case d == nil:
		d = s.ops.begin(c.req, sum)
		s.submit(d.call)
	case d.digest != sum:
		c.fail(wire.ClassExists, fmt.Sprintf("operation %q was another command", q.Job))
		return
	}
	w := &detachedWatch{watcher{change: d.change}, d}
	c.setHandler(w)
	go w.run(c) // ends with the command, or when the call is canceled
}

// begin adds a detached command.
func (o *operations) begin(req *wire.StartRequest, sum [sha256.Size]byte) *detached {
	d := &detached{key: req.Session.Job, digest: sum, end: func() { o.activity.count(-1) }}
	o.activity.count(1)
	d.change = sync.NewCond(&d.mu)
	d.call = &Call{req: req, detached: d}
	o.forget()
	o.all = append(o.all, d)
	return d
}

// find finds a detached command by name; one that could not be begun does not
// count.
func (o *operations) find(key string) *detached {
	for _, d := range o.all {
		if _, _, failed := d.state(); d.key == key && !failed {
			return d
		}
	}
	return nil
}

// pending counts the detached commands that are not over.
func (o *operations) pending() (n int) {
	for _, d := range o.all {
		if _, over, _ := d.state(); !over {
			n++
		}
	}
	return n
}

// forget makes room for another one.
func (o *operations) forget() {
	n, bytes := 0, 0
	for i := len(o.all) - 1; i >= 0; i-- { // the newest first
		size, over, failed := o.all[i].state()
		if !over {
			continue
		}
		n, bytes = n+1, bytes+size
		if failed || n > 1 && (n >= maxDetached || bytes > maxDetachedBytes) {
			o.all = slices.Delete(o.all, i, i+1)
		}
	}
}

// cancel ends a detached command.
func (s *Session) cancel(c *Call) {
	d := s.ops.find(c.req.Session.Job)
	if d == nil {
		c.fail(wire.ClassNotFound, fmt.Sprintf("no operation %q", c.req.Session.Job))
		return
	}
	s.onKill(d.call)
	c.exit(wire.ExitStatus{})
}

// A detachedWatch is a call that watches a detached command.
type detachedWatch struct {
	watcher
	d *detached
}

// run sends what the command writes, and how it ends; runs in a goroutine of its
// own.
func (w *detachedWatch) run(c *Call) {
	d := w.d
	var at [2]uint64
	told := c.req.TimeoutMS == 0
	d.mu.Lock()
	w.follow(c, func() (sent, more bool) {
		if d.begun && !told {
			told, sent = true, true
			d.mu.Unlock()
			c.sendStarted()
			d.mu.Lock()
		}
		some, left := w.sendHeads(c, &d.out, &at)
		return sent || some, !d.over || left
	})
	killed, status, failure := c.killed, d.status, d.failure
	d.mu.Unlock()
	switch {
	case killed:
		c.giveUp()
	case status != nil:
		c.exit(*status)
	default:
		c.fail(failure.Class, failure.Message)
	}
}
