package envd

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"wolffia/internal/dirwatch"
	"wolffia/internal/filecall"
	"wolffia/internal/fileclient"
	"wolffia/service/e2b/fault"
)

// The messages of filesystem.Filesystem about watchers.
type (
	watchRequest struct {
		Path         string `json:"path"`
		Recursive    bool   `json:"recursive"`
		IncludeEntry bool   `json:"includeEntry"`
		Anywhere     bool   `json:"allowNetworkMounts"`
	}
	watchReply struct {
		Start      *empty     `json:"start,omitempty"`
		Filesystem *fileEvent `json:"filesystem,omitempty"`
		Keepalive  *empty     `json:"keepalive,omitempty"`
	}
	fileEvent struct {
		Name  string `json:"name"`
		Type  string `json:"type"`
		Entry *entry `json:"entry,omitempty"`
	}
	ofWatcher struct {
		ID string `json:"watcherId"`
	}
	eventsReply struct {
		Events []*fileEvent `json:"events"`
	}
)

// size returns how many bytes the texts of an event have.
func (e *fileEvent) size() int {
	n := len(e.Name)
	if i := e.Entry; i != nil {
		n += len(i.Name) + len(i.Path) + len(i.Type) + len(i.Permissions) + len(i.Owner) + len(i.Group)
		if i.Target != nil {
			n += len(*i.Target)
		}
		for k, v := range i.Metadata {
			n += len(k) + len(v)
		}
	}
	return n
}

// eventTypes are the types of events.
var eventTypes = map[string]string{
	dirwatch.Created: "EVENT_TYPE_CREATE", dirwatch.Written: "EVENT_TYPE_WRITE", dirwatch.Removed: "EVENT_TYPE_REMOVE",
	dirwatch.Renamed: "EVENT_TYPE_RENAME", dirwatch.Changed: "EVENT_TYPE_CHMOD",
}

// The bounds of watchers.
const (
	maxWatchers = 32      // of a sandbox: each is a process in it
	maxPolled   = 10_000  // events of one that wait for its client: more end it
	maxWaiting  = 8 << 20 // bytes of their texts, the most: a sandbox can forge them
)

// watch begins to watch what a request asks for, within the bound of the sandbox. The caller ends
// the watcher.
func (h *Handler) watch(ctx context.Context, c *call, q *watchRequest, header http.Header) (*watcher, error) {
	who, err := c.basicUser(ctx, header)
	if err != nil {
		return nil, err
	}
	at, err := who.path(q.Path)
	if err != nil {
		return nil, err
	}
	w := &watcher{id: "w" + strings.ToLower(rand.Text()), ended: make(chan struct{}), more: make(chan struct{}, 1)}
	if err := c.room.add(w); err != nil {
		return nil, err
	}
	h.rooms.enter(c.box.ID)
	w.leave = func() {
		c.room.mu.Lock()
		delete(c.room.watchers, w.id)
		c.room.mu.Unlock()
		h.rooms.exit(c.room)
	}
	ask := &filecall.Request{
		Op: filecall.OpWatch, Path: at, Depth: 1, Remote: q.Anywhere, Full: q.IncludeEntry, Prefix: metadataPrefix,
	}
	if q.Recursive {
		ask.Depth = 2
	}
	of, err := c.in.Files().Watch(context.WithoutCancel(ctx), ask)
	if err != nil {
		w.leave()
		return nil, err
	}
	go func() { // ends with the watcher, whose end ends Next
		<-w.ended
		_ = of.Close()
		w.leave()
	}()
	w.of = of
	return w, nil
}

// A watcher watches a directory, for a stream or for a client that polls.
type watcher struct {
	id    string
	of    *fileclient.Watch
	leave func()
	once  sync.Once
	ended chan struct{} // closed by end

	more chan struct{} // has a value when events have come for a client that polls

	mu     sync.Mutex
	events []*fileEvent // that wait; guarded by mu
	size   int          // of their texts, in bytes; guarded by mu
}

// How long a client that polls waits: what it has done before is to be among the events.
const (
	quiet     = 50 * time.Millisecond // since the last event
	mostQuiet = 10 * quiet
)

// settle waits until no more events come.
func (w *watcher) settle(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, mostQuiet)
	defer cancel()
	timer := time.NewTimer(quiet)
	defer timer.Stop()
	for {
		select {
		case <-w.more:
			timer.Reset(quiet)
		case <-timer.C:
			return
		case <-w.ended:
			return
		case <-ctx.Done():
			return
		}
	}
}

// end ends the watcher. It does not wait.
func (w *watcher) end() { w.once.Do(func() { close(w.ended) }) }

// add adds a watcher to those of the sandbox.
func (r *room) add(w *watcher) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.watchers) >= maxWatchers {
		why := fmt.Sprintf("the sandbox has %d watchers, the limit: remove one", maxWatchers)
		return fault.New(http.StatusTooManyRequests, why)
	}
	r.watchers[w.id] = w
	return nil
}

// next waits for events. With an error there are no more.
func (w *watcher) next() (events []*fileEvent, err error) {
	seen, err := w.of.Next()
	if err != nil {
		return nil, err
	}
	for _, e := range seen {
		if e.Op == filecall.Overflow {
			return events, internal("events were lost: more has changed than the watcher could take: watch again")
		}
		event := &fileEvent{Name: e.Name, Type: eventTypes[e.Op]}
		if e.Info != nil {
			event.Entry = entryOf(e.Info)
		}
		events = append(events, event)
	}
	return events, nil
}

// poll collects events for a client that asks for them. The watcher ends when there can be no more:
// its client then finds that it does not exist.
func (w *watcher) poll() {
	defer w.end()
	for {
		events, err := w.next()
		if err != nil {
			return
		}
		w.mu.Lock()
		w.events = append(w.events, events...)
		for _, e := range events {
			w.size += e.size()
		}
		full := len(w.events) > maxPolled || w.size > maxWaiting
		if full {
			w.events = nil
		}
		w.mu.Unlock()
		if full {
			return
		}
		select {
		case w.more <- struct{}{}:
		default:
		}
	}
}

// watching serves the methods about watchers.
func (h *Handler) watching() {
	const f = "/filesystem.Filesystem/"
	streaming(h, f+"WatchDir", h.watchDir)
	create := func(ctx context.Context, c *call, q *watchRequest, header http.Header) (*ofWatcher, error) {
		w, err := h.watch(ctx, c, q, header)
		if err != nil {
			return nil, err
		}
		go w.poll() // ends with the watcher
		return &ofWatcher{w.id}, nil
	}
	unary(h, f+"CreateWatcher", create)
	unary(h, f+"GetWatcherEvents", func(ctx context.Context, c *call, q *ofWatcher, _ http.Header) (*eventsReply, error) {
		w, err := c.room.watcher(q.ID)
		if err != nil {
			return nil, err
		}
		w.settle(ctx)
		w.mu.Lock()
		defer w.mu.Unlock()
		events := w.events
		w.events, w.size = nil, 0
		return &eventsReply{events}, nil
	})
	unary(h, f+"RemoveWatcher", func(_ context.Context, c *call, q *ofWatcher, _ http.Header) (*empty, error) {
		w, err := c.room.watcher(q.ID)
		if err != nil {
			return nil, err
		}
		w.end()
		return &empty{}, nil
	})
}

// watcher returns a watcher.
func (r *room) watcher(id string) (*watcher, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	w := r.watchers[id]
	if w == nil {
		why := fmt.Sprintf("watcher with id %.60s not found: it was removed, or too many events have waited", id)
		return nil, fault.New(http.StatusNotFound, why)
	}
	return w, nil
}

// watchDir serves WatchDir until its client has gone, or the sandbox is left.
func (h *Handler) watchDir(
	ctx context.Context, c *call, q *watchRequest, header http.Header, send func(*watchReply) error,
) error {
	left := c.room.left()
	w, err := h.watch(ctx, c, q, header)
	if err != nil {
		return err
	}
	defer w.end()
	if err := send(&watchReply{Start: &empty{}}); err != nil {
		return err
	}
	life := keepalive(header)
	defer life.Stop()
	type batch struct {
		events []*fileEvent
		err    error
	}
	seen := make(chan batch)
	go func() { // ends with the watcher
		for b := (batch{}); b.err == nil; {
			b.events, b.err = w.next()
			select {
			case seen <- b:
			case <-w.ended:
				return
			}
		}
	}()
	for {
		select {
		case b := <-seen:
			for _, e := range b.events {
				if err := send(&watchReply{Filesystem: e}); err != nil {
					return err
				}
			}
			if b.err != nil {
				return b.err
			}
			life.Reset(keepalivePause(header))
		case <-life.C:
			if err := send(&watchReply{Keepalive: &empty{}}); err != nil {
				return err
			}
		case <-left:
			return errGone
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
