package session

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"sync"

	"wolffia/wire"
)

// What is remembered of the commands of a session that were kept and are over:
// that many, and in all that much of their output, but always the last one's.
const (
	maxKept      = 32
	maxKeptBytes = 2 * wire.MaxKept
)

// maxPending bounds how many may wait, of which nobody but us knows.
const maxPending = 256

// A kept is a command that goes on when its caller goes away, and that can be
// asked for again: so neither the command nor its result is lost with a caller
// that was killed. It takes the place of the channel for the command's own Call.
type kept struct {
	key  string
	same [sha256.Size]byte // of the request
	call *Call             // the command's own; the session's
	end  func()            // called when the command is over

	mu     sync.Mutex
	change *sync.Cond // anything below has changed; uses mu
	out    [2][]byte  // stdout, stderr: only ever added to; guarded by mu
	total  [2]uint64  // what was written; guarded by mu
	begun  bool       // it has had its turn; guarded by mu
	over   bool       // guarded by mu
	status *wire.ExitStatus
	why    wire.Failure // if there is no status; guarded by mu
}

var keptStreams = [2]wire.Type{wire.Stdout, wire.Stderr}

func (k *kept) write(typ wire.Type, b []byte) {
	k.mu.Lock()
	defer k.mu.Unlock()
	i := slices.Index(keptStreams[:], typ)
	k.total[i] += uint64(len(b))
	room := wire.MaxKept - len(k.out[i])
	k.out[i] = append(k.out[i], b[:min(len(b), room)]...)
	k.change.Broadcast()
}

// finish takes the frame that would end the channel.
func (k *kept) finish(_ wire.Type, v any) {
	if k.note(v) {
		k.end()
	}
}

// note keeps how the command ended, and reports whether that is news.
func (k *kept) note(v any) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	news := !k.over
	k.over = true
	switch v := v.(type) {
	case wire.ExitStatus:
		v.StdoutEnd, v.StderrEnd = k.total[0], k.total[1]
		k.status = &v
	case wire.Failure:
		k.why = v
	}
	k.change.Broadcast()
	return news
}

// begin notes that the command has had its turn.
func (k *kept) begin() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.begun = true
	k.change.Broadcast()
}

// size is how much is kept; over says whether the command is.
func (k *kept) size() (n int, over, failed bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.out[0]) + len(k.out[1]), k.over, k.over && k.status == nil
}

// digest tells requests apart.
func digest(r *wire.StartRequest) (sum [sha256.Size]byte) {
	h := sha256.New()
	put := func(s string) {
		h.Write(binary.LittleEndian.AppendUint64(nil, uint64(len(s))))
		h.Write([]byte(s))
	}
	for _, s := range r.Args {
		put(s)
	}
	put(r.Dir)
	for _, s := range r.Env {
		put(s)
	}
	put(fmt.Sprint(r.TimeoutMS, r.Merge))
	h.Sum(sum[:0])
	return sum
}

// keep has c watch the command of its name, which is begun if there is none.
func (s *Session) keep(c *Call) {
	q := c.req.Session
	switch err := wire.CheckSessionName(q.Job); {
	case s.dead || s.dying != nil:
		c.fail(wire.ClassNotFound, fmt.Sprintf("session %q is gone", s.name))
		return
	case err != nil:
		c.fail(wire.ClassInvalid, "operation: "+err.Error())
		return
	case c.req.Stdin || c.req.TTY:
		c.fail(wire.ClassInvalid, "a command that outlives its caller has no input and no terminal")
		return
	}
	same := digest(c.req)
	k := s.keptAs(q.Job)
	switch {
	case k == nil && s.pendingKept() >= maxPending:
		c.fail(wire.ClassConflict, fmt.Sprintf("session %q: %d operations wait already", s.name, maxPending))
		return
	case k == nil:
		k = s.begetKept(c.req, same)
	case k.same != same:
		c.fail(wire.ClassExists, fmt.Sprintf("operation %q was another command", q.Job))
		return
	}
	w := &keptWatch{k: k}
	c.setHandler(w)
	go w.run(c) // ends with the command, or when it is let go
}

// begetKept begins a command that is kept.
func (s *Session) begetKept(req *wire.StartRequest, same [sha256.Size]byte) *kept {
	k := &kept{key: req.Session.Job, same: same, end: s.m.alive.end}
	s.m.alive.begin()
	k.change = sync.NewCond(&k.mu)
	k.call = &Call{req: req, kept: k, done: func() {}, credit: map[wire.Type]int{}}
	k.call.setHandler(s)
	s.forgetKept()
	s.kept = append(s.kept, k)
	s.submit(k.call)
	return k
}

// keptAs finds one; what could not be begun is as if it had not been asked for.
func (s *Session) keptAs(key string) *kept {
	i := slices.IndexFunc(s.kept, func(k *kept) bool {
		_, _, failed := k.size()
		return k.key == key && !failed
	})
	if i < 0 {
		return nil
	}
	return s.kept[i]
}

// pendingKept counts those that are not over.
func (s *Session) pendingKept() (n int) {
	for _, k := range s.kept {
		if _, over, _ := k.size(); !over {
			n++
		}
	}
	return n
}

// forgetKept makes room for another one.
func (s *Session) forgetKept() {
	n, bytes := 0, 0
	for i := len(s.kept) - 1; i >= 0; i-- { // the newest first
		size, over, failed := s.kept[i].size()
		if !over {
			continue
		}
		n, bytes = n+1, bytes+size
		if failed || n > 1 && (n >= maxKept || bytes > maxKeptBytes) {
			s.kept = slices.Delete(s.kept, i, i+1)
		}
	}
}

// cancel ends a command that is kept.
func (s *Session) cancel(c *Call) {
	k := s.keptAs(c.req.Session.Job)
	if k == nil {
		c.fail(wire.ClassNotFound, fmt.Sprintf("no operation %q", c.req.Session.Job))
		return
	}
	s.onKill(k.call)
	c.exit(wire.ExitStatus{})
}

// A keptWatch is a call that watches a command that is kept.
type keptWatch struct {
	nobody
	k *kept
}

func (w *keptWatch) onKill(c *Call) {
	w.k.mu.Lock()
	c.killed = true
	w.k.change.Broadcast()
	w.k.mu.Unlock()
}

func (w *keptWatch) onCredit(c *Call, typ wire.Type, n int) {
	w.k.mu.Lock()
	c.credit[typ] = min(c.credit[typ]+n, wire.MaxCredit)
	w.k.change.Broadcast()
	w.k.mu.Unlock()
}

// run sends what the command writes, and how it ends; runs in a goroutine of its
// own.
func (w *keptWatch) run(c *Call) {
	k := w.k
	var at [2]int
	told := c.req.TimeoutMS == 0
	k.mu.Lock()
	for !c.killed {
		sent, more := false, !k.over
		if k.begun && !told {
			told, sent = true, true
			k.mu.Unlock()
			c.sendBegun()
			k.mu.Lock()
		}
		for i, typ := range keptStreams {
			b := k.out[i][at[i]:] // and these bytes do not change any more
			b = b[:min(len(b), c.credit[typ], wire.MaxPayload)]
			if len(b) > 0 {
				at[i] += len(b)
				c.credit[typ] -= len(b)
				k.mu.Unlock()
				_ = c.w.Send(typ, c.channel, b) // a broken stream to the host ends the guest elsewhere
				k.mu.Lock()
				sent = true
			}
			more = more || at[i] < len(k.out[i])
		}
		if !sent && !more {
			break
		}
		if !sent {
			k.change.Wait()
		}
	}
	killed, status, why := c.killed, k.status, k.why
	k.mu.Unlock()
	switch {
	case killed:
		c.fail(wire.ClassConflict, "the request was given up")
	case status != nil:
		c.exit(*status)
	default:
		c.fail(why.Class, why.Message)
	}
}
