package console

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"sync"
	"time"

	"wolffia/runtime"
	"wolffia/service"
	"wolffia/service/registry"
)

// The bounds of what the clients of the page wait for.
const (
	maxClients   = 64 // streams of events at once
	maxOfCaller  = 16 // of them of one caller
	maxFrames    = 1024
	lookEach     = time.Second
	diskInterval = time.Minute
)

// everyone is the caller that the hub looks as: what each client may see is decided when it is sent.
var everyone = service.Caller{All: true}

// A hub takes samples of all sandboxes and, while it has clients, notes what changes.
type hub struct {
	h    *Handler
	wake chan struct{} // has a value: look now

	mu        sync.Mutex
	clients   map[*client]struct{}          // guarded by mu
	histories map[string]*history           // by sandbox; guarded by mu
	asked     map[string][]runtime.Question // by sandbox that has us to ask; guarded by mu
	heard     chan struct{}                 // closed and replaced with each change of asked; guarded by mu
	owners    map[string]registry.Owner     // of sandboxes that ask; guarded by mu
	counts    map[string]counts             // of denials, by sandbox; guarded by mu
	since     time.Time                     // the first client has come; guarded by mu

	// What follows is run's alone.
	shown  map[string]shown
	tails  map[string]*service.Tail
	asking *asking // nil: nobody is asked
}

// A shown is what clients have got of a sandbox.
type shown struct {
	owner registry.Owner
	text  []byte // JSON of its box
}

// counts are how many accesses were denied.
type counts struct{ denied, refused int }

// A client is a stream of events.
type client struct {
	caller service.Caller
	frames chan []byte
	slow   chan struct{} // closed if the client does not read its frames
}

func newHub(h *Handler) *hub {
	return &hub{
		h: h, wake: make(chan struct{}, 1), clients: map[*client]struct{}{}, histories: map[string]*history{},
		asked: map[string][]runtime.Question{}, owners: map[string]registry.Owner{}, counts: map[string]counts{},
		shown: map[string]shown{}, tails: map[string]*service.Tail{}, heard: make(chan struct{}),
	}
}

// look has the hub look for changes at once.
func (b *hub) look() {
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// run looks until ctx ends.
func (b *hub) run(ctx context.Context) {
	defer b.idle()
	ticker := time.NewTicker(lookEach)
	defer ticker.Stop()
	var disks sync.WaitGroup
	defer disks.Wait()
	sampled, counted := time.Time{}, time.Time{}
	for {
		now := time.Now()
		busy := b.busy()
		if now.Sub(sampled) >= sampleEach {
			sampled = now
			b.sample(ctx, now)
		}
		if busy && now.Sub(counted) >= diskInterval {
			counted = now
			disks.Wait()
			disks.Go(func() { b.countDisks(ctx) })
		}
		if busy {
			b.ask(ctx)
			b.changes(ctx)
		} else {
			b.idle()
		}
		select {
		case <-ticker.C:
		case <-b.wake:
		case <-ctx.Done():
			return
		}
	}
}

// begun returns since when there are clients: they get what was denied from then on.
func (b *hub) begun() time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.since
}

func (b *hub) busy() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.clients) > 0
}

// idle forgets what only clients need.
func (b *hub) idle() {
	for id := range b.tails {
		b.untail(id)
	}
	b.unask()
	clear(b.shown)
}

// sample takes a sample of each running sandbox, and forgets those that do not exist.
func (b *hub) sample(ctx context.Context, now time.Time) {
	usage := b.h.watch.Usage(ctx)
	all, err := b.h.opts.Service.List(ctx, everyone)
	if err != nil {
		return
	}
	samples, owners := map[string]*sample{}, map[string]registry.Owner{}
	b.mu.Lock()
	exists := map[string]bool{}
	for _, s := range all {
		exists[s.ID] = true
		u, runs := usage[s.ID]
		if !runs {
			continue
		}
		p := b.histories[s.ID]
		if p == nil {
			p = &history{}
			b.histories[s.ID] = p
		}
		p.add(now, u)
		samples[s.ID], owners[s.ID] = p.last(now), s.Owner
	}
	maps.DeleteFunc(b.histories, func(id string, _ *history) bool { return !exists[id] })
	b.mu.Unlock()
	b.each(func(caller service.Caller) []byte {
		own := maps.Clone(samples)
		maps.DeleteFunc(own, func(id string, _ *sample) bool { return !caller.May(owners[id]) })
		return frame("samples", map[string]any{"samples": own})
	})
}

// countDisks counts what the sandboxes with a history have on the disk.
func (b *hub) countDisks(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, diskInterval)
	defer cancel()
	b.mu.Lock()
	var ids []string
	for id := range b.histories {
		ids = append(ids, id)
	}
	b.mu.Unlock()
	for _, id := range ids {
		n, err := b.h.watch.DiskUsage(ctx, id)
		if ctx.Err() != nil {
			return
		}
		b.mu.Lock()
		if p := b.histories[id]; p != nil && err == nil {
			p.disk = &n
		}
		b.mu.Unlock()
	}
}

// fill adds to what is shown of a sandbox what the hub knows.
func (b *hub) fill(s *box) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if p := b.histories[s.ID]; s.State.Runs() && p != nil {
		s.Now, s.Running = p.last(time.Now()), p.usage.Running
	}
	if n, is := b.counts[s.ID]; is {
		s.Denied, s.Refused = &n.denied, &n.refused
	}
}

// samplesOf returns the samples of a sandbox, oldest first.
func (b *hub) samplesOf(id string) []sample {
	b.mu.Lock()
	defer b.mu.Unlock()
	p := b.histories[id]
	if p == nil {
		return []sample{}
	}
	return append([]sample{}, p.samples...)
}

// changes sends what has changed since the last call.
func (b *hub) changes(ctx context.Context) {
	all, err := b.h.opts.Service.List(ctx, everyone)
	if err != nil {
		b.h.log.WarnContext(ctx, "the console cannot list the sandboxes", "error", err.Error())
		return
	}
	exists := map[string]bool{}
	for _, s := range all {
		exists[s.ID] = true
		b.own(s)
		b.follow(ctx, s)
		full := boxOf(s, everyone)
		b.fill(&full)
		full.Now = nil // samples have it
		text, err := json.Marshal(full)
		if err != nil || bytes.Equal(text, b.shown[s.ID].text) {
			continue
		}
		b.shown[s.ID] = shown{s.Owner, text}
		b.each(func(caller service.Caller) []byte {
			if !caller.May(s.Owner) {
				return nil
			}
			own := boxOf(s, caller)
			b.fill(&own)
			return frame("sandbox", own)
		})
	}
	for id, old := range b.shown {
		if exists[id] {
			continue
		}
		delete(b.shown, id)
		b.untail(id)
		b.mu.Lock()
		delete(b.owners, id)
		delete(b.asked, id)
		b.mu.Unlock()
		b.each(func(caller service.Caller) []byte {
			if !caller.May(old.owner) {
				return nil
			}
			return frame("gone", map[string]string{"id": id})
		})
	}
}

// follow sends what was denied to a sandbox.
func (b *hub) follow(ctx context.Context, s *service.Sandbox) {
	if !s.State.Runs() {
		b.untail(s.ID)
		return
	}
	if s.Filter != runtime.FilterFuse && s.Network != runtime.NetworkFiltered {
		return
	}
	t := b.tails[s.ID]
	if t == nil {
		var err error
		if t, err = b.h.watch.Tail(ctx, everyone, s.ID, b.begun()); err != nil {
			return // the next time
		}
		b.tails[s.ID] = t
	}
	list, err := t.Next()
	b.mu.Lock()
	b.counts[s.ID] = counts{t.Denied, t.Refused}
	b.mu.Unlock()
	for i := range list {
		d := deniedOf(s.ID, &list[i])
		b.each(func(caller service.Caller) []byte {
			if !caller.May(s.Owner) {
				return nil
			}
			return frame("denied", map[string]any{"sandbox": s.ID, "denied": d})
		})
	}
	if err != nil {
		b.untail(s.ID)
	}
}

func (b *hub) untail(id string) {
	if t := b.tails[id]; t != nil {
		_ = t.Close()
		delete(b.tails, id)
		b.mu.Lock()
		delete(b.counts, id)
		b.mu.Unlock()
	}
}

// each sends to each client the frame that make has for its caller; nil: nothing.
func (b *hub) each(make func(service.Caller) []byte) {
	b.mu.Lock()
	clients := maps.Clone(b.clients)
	b.mu.Unlock()
	for c := range clients {
		if f := make(c.caller); f != nil {
			b.send(c, f)
		}
	}
}

// send queues a frame. A client that does not read is ended: it connects again, and gets all anew.
func (b *hub) send(c *client, f []byte) {
	select {
	case c.frames <- f:
		return
	default:
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, is := b.clients[c]; is {
		delete(b.clients, c)
		close(c.slow)
	}
}

// join adds a client of a caller, which the caller of join removes by leave.
func (b *hub) join(caller service.Caller) (*client, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	own := 0
	for c := range b.clients {
		if c.caller == caller {
			own++
		}
	}
	if len(b.clients) >= maxClients || own >= maxOfCaller {
		return nil, runtime.Errorf(runtime.ErrUnavailable, "%d pages of this key and %d in all are open, of %d and %d at most: close one", own, len(b.clients), maxOfCaller, maxClients)
	}
	if len(b.clients) == 0 {
		b.since = time.Now()
	}
	c := &client{caller, make(chan []byte, maxFrames), make(chan struct{})}
	b.clients[c] = struct{}{}
	return c, nil
}

func (b *hub) leave(c *client) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.clients, c)
}

// frame returns an event of a stream.
func frame(name string, data any) []byte {
	text, err := json.Marshal(data)
	if err != nil {
		return nil
	}
	return fmt.Appendf(nil, "event: %s\ndata: %s\n\n", name, text)
}
