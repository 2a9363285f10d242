package opensandbox

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"

	"wolffia/runtime"
	"wolffia/service"
)

// maxResume is the longest that a command may go on without its client, in ms.
const maxResume = 600_000

// The bounds of what is kept for clients that resume.
const (
	// keptEvents is for the events of a command that were sent, in bytes: as much as may be on its
	// way when a connection breaks.
	keptEvents = 4 << 20
	// aheadEvents is for those that no client has got yet: output beyond that waits.
	aheadEvents = 1 << 20
	maxLive     = 64 // commands of the sandboxes of one owner
)

// A liveOf names a command that can be resumed.
type liveOf struct{ sandboxID, command string }

// lives are the commands that can be resumed.
type lives struct {
	mu    sync.Mutex
	all   map[liveOf]*live
	added int64
}

// add adds a command, in the place of one that has ended if its owner has too many. If all of
// those run, or have a client, that is a fault.
func (s *lives) add(key liveOf, l *live) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	count := 0
	var oldest liveOf
	for k, other := range s.all {
		if other.of.Owner != l.of.Owner {
			continue
		}
		count++
		if (oldest == liveOf{} || other.number < s.all[oldest].number) && other.ended() {
			oldest = k
		}
	}
	if count >= maxLive {
		ended := s.all[oldest]
		if ended == nil {
			return &fault{http.StatusServiceUnavailable, "UNAVAILABLE", fmt.Sprintf("%d commands that can be resumed run, the limit: leave resumeWithin out, or use background", maxLive)}
		}
		delete(s.all, oldest)
		ended.drop()
	}
	if s.all == nil {
		s.all = map[liveOf]*live{}
	}
	s.added++
	l.number = s.added
	s.all[key] = l
	return nil
}

func (s *lives) get(key liveOf) *live {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all[key]
}

func (s *lives) remove(key liveOf) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.all, key)
}

// leave drops the commands of a sandbox that was stopped, unless they have clients, which get
// the last events.
func (s *lives) leave(sandboxID string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, l := range s.all {
		if key.sandboxID == sandboxID && l.alone() {
			delete(s.all, key)
			l.drop()
		}
	}
}

// A live is a command whose events are kept, so that a client that has lost its connection can have
// the rest. It has one client at a time. Output beyond what is kept waits for a client; without one
// for some time, the command is killed.
type live struct {
	within time.Duration
	timer  *time.Timer // calls forget; runs while there is no client
	forget func()      // kills the command, and removes it from the lives
	of     *service.FleetSandbox
	number int64 // of the lives that were added; guarded by their mu

	mu     sync.Mutex
	change *sync.Cond // what follows has changed; uses mu
	kept   [][]byte   // the frames of events first to first+len-1
	first  int64
	size   int   // bytes in kept
	at     int64 // the event that the client gets next
	ahead  int   // bytes in kept from at on
	client bool  // there is one
	over   bool  // there will be no more events
	gone   bool  // forget was called
}

var errGone = errors.New("no client has come back")

// send implements [sender].
func (l *live) send(events ...event) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.ahead > aheadEvents && !l.gone {
		l.change.Wait()
	}
	if l.gone {
		return errGone
	}
	now := time.Now().UnixMilli()
	var frames bytes.Buffer
	ends := make([]int, len(events))
	for i, e := range events {
		e.Timestamp, e.EID = now, l.first+int64(len(l.kept)+i)
		text, err := json.Marshal(e)
		if err != nil {
			return err
		}
		frames.Write(text)
		frames.WriteString("\n\n")
		ends[i] = frames.Len()
	}
	all, begin := bytes.Clone(frames.Bytes()), 0 // without what the buffer has in reserve
	for _, end := range ends {
		l.kept = append(l.kept, all[begin:end:end])
		begin = end
	}
	l.size += len(all)
	l.ahead += len(all)
	l.trim()
	l.change.Broadcast()
	return nil
}

// trim drops the oldest events that the client has got, if too much is kept. Precondition: mu is held.
func (l *live) trim() {
	for l.size > keptEvents && l.first < l.at {
		l.size -= len(l.kept[0])
		l.kept[0] = nil
		l.kept = l.kept[1:]
		l.first++
	}
}

// end notes that there are no more events.
func (l *live) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.over = true
	l.change.Broadcast()
}

// ended reports whether there are no more events, and no client.
func (l *live) ended() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.over && !l.client
}

// alone reports whether there is no client.
func (l *live) alone() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.client
}

// drop ends all that waits, and lets the events go.
func (l *live) drop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.gone, l.kept, l.size = true, nil, 0
	l.change.Broadcast()
}

// serve sends the events after one to a client until they end or the client is gone. The error is
// a fault; then nothing was sent.
func (l *live) serve(ctx context.Context, s *stream, after int64) error {
	stop := context.AfterFunc(ctx, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.change.Broadcast()
	})
	defer stop()
	l.mu.Lock()
	defer l.mu.Unlock()
	next := l.first + int64(len(l.kept))
	switch {
	case l.gone:
		return &fault{http.StatusNotFound, "INVALID_REQUEST_BODY", "command not found: no client came back in time"}
	case l.client:
		return &fault{http.StatusConflict, "CONFLICT", "the command has a client that is connected"}
	case after+1 < l.first:
		return &fault{http.StatusGone, "EVENTS_LOST", fmt.Sprintf("the events up to %d are not kept any more", l.first-1)}
	case after >= next:
		return invalid("after_eid %d: the last event is %d", after, next-1)
	}
	l.client = true
	l.timer.Stop()
	l.at, l.ahead = after+1, 0
	for _, frame := range l.kept[l.at-l.first:] {
		l.ahead += len(frame)
	}
	for ctx.Err() == nil && !l.gone {
		frames := l.take()
		if len(frames) == 0 {
			if l.over {
				break
			}
			l.change.Wait()
			continue
		}
		l.mu.Unlock()
		err := s.pass(frames)
		l.mu.Lock()
		if err != nil {
			break
		}
	}
	l.client = false
	l.timer.Reset(l.within) // what was sent may not have arrived
	return nil
}

// maxFrames is how much is sent at a time, in bytes.
const maxFrames = 256 << 10

// take returns frames that the client gets next, and notes that it has them. Precondition: mu is held.
func (l *live) take() []byte {
	var frames []byte
	for int(l.at-l.first) < len(l.kept) && len(frames) < maxFrames {
		frame := l.kept[l.at-l.first]
		frames = append(frames, frame...)
		l.ahead -= len(frame)
		l.at++
	}
	l.trim()
	l.change.Broadcast()
	return frames
}

// runResumable runs a command that goes on for some time without its client, and serves its first one.
func (h *Handler) runResumable(w http.ResponseWriter, r *http.Request, in *service.Inside, params *runtime.Command, within time.Duration) error {
	begin := time.Now()
	started := make(chan struct{})
	c, err := in.Run(r.Context(), params, func() { close(started) })
	if err != nil {
		return commandFault(err)
	}
	stop := context.AfterFunc(r.Context(), func() { _ = c.Close() })
	if params.Session == "" { // else it exists: the command begins, or waits for others
		waited := make(chan error, 1)
		go func() { // ends with the command
			_, err := c.Wait(context.Background())
			waited <- err
		}()
		select {
		case <-started:
		case err := <-waited:
			if err != nil {
				if !stop() {
					err = canceled(r.Context())
				}
				_ = c.Close()
				return commandFault(err)
			}
		}
	}
	if !stop() { // the client has gone already
		return nil
	}
	return h.resumable(r.Context(), h.newStream(w, nil), in.Sandbox(), c, within, func(to sender) { produce(to, c, begin) })
}

// produce sends the events of a command, up to the last one, and signs of life. If they cannot be sent, it ends
// the command.
func produce(to sender, c *service.Command, begin time.Time) {
	if to.send(event{Type: "init", Text: c.ID}, pong) != nil {
		_ = c.Close()
		return
	}
	ended := make(chan event, 1)
	go func() { // ends with the command
		exit, err := follow(to, c)
		ended <- lastEvent(exit, err, time.Since(begin))
	}()
	ticker := time.NewTicker(pingPause)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			if to.send(pong) != nil { // the client has gone: Close ends the command
				_ = c.Close()
				<-ended
				return
			}
		case last := <-ended:
			_ = to.send(last)
			return
		}
	}
}

// resumable makes a command, which has begun, one that can be resumed, and serves its first client.
func (h *Handler) resumable(ctx context.Context, s *stream, of *service.FleetSandbox, c *service.Command, within time.Duration, produce func(sender)) error {
	key := liveOf{of.ID, c.ID}
	l := &live{within: within, of: of, first: 1, at: 1}
	l.change = sync.NewCond(&l.mu)
	l.forget = func() {
		h.lives.remove(key)
		l.drop()
		_ = c.Close()
	}
	if err := h.lives.add(key, l); err != nil {
		_ = c.Close()
		return err
	}
	l.timer = time.AfterFunc(maxResume*time.Millisecond, l.forget)
	l.timer.Stop() // until the first client has gone
	go func() {    // ends with the command, or when it is forgotten
		defer c.Close()
		defer l.end()
		produce(l)
	}()
	return l.serve(ctx, s, 0)
}

// resumeCommand serves GET /command/{command}/resume.
func (h *Handler) resumeCommand(w http.ResponseWriter, r *http.Request, id string) error {
	in, err := h.inside(r)
	if err != nil {
		return err
	}
	after := int64(0)
	if text := r.URL.Query().Get("after_eid"); text != "" {
		if after, err = strconv.ParseInt(text, 10, 64); err != nil || after < 0 {
			return invalid("after_eid %q: it must be the eid of an event", text)
		}
	}
	l := h.lives.get(liveOf{in.Sandbox().ID, id})
	if l == nil {
		if _, err := in.Status(r.Context(), id); err != nil {
			return unknownCommand(err)
		}
		return &fault{http.StatusConflict, "CONFLICT", "the command cannot be resumed: begin one with resumeWithin, or in the background, whose output is at /command/ID/logs"}
	}
	return l.serve(r.Context(), h.newStream(w, nil), after)
}
