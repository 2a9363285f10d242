package stream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"wolffia/runtime"
)

// MaxWithin is the longest that a command may go on without its client.
const MaxWithin = 10 * time.Minute

// A LostError is the error for events up to that number, which are not kept any more.
type LostError int64

func (e LostError) Error() string {
	return fmt.Sprintf("the events up to %d are not kept any more", int64(e))
}

// The bounds of what is kept for clients that resume.
const (
	// keptEvents is for the events of a command that were sent, in bytes: as much as may be on its
	// way when a connection breaks.
	keptEvents = 4 << 20
	// aheadEvents is for those that no client has got yet: output beyond that waits.
	aheadEvents = 1 << 20
	maxLive     = 64 // commands of one party
)

// A Key names a command that can be resumed.
type Key struct{ SandboxID, Command string }

// Kept are the commands that can be resumed, with events of one type. The zero value is ready to
// use. It is safe for concurrent use.
type Kept[E Event] struct {
	mu    sync.Mutex
	all   map[Key]*Live[E]
	added int64
}

// Begin keeps the events of a command that runs, which produce sends until it returns, and lets it
// go on for a time without its client. It is of a party, a comparable value, which has a limited
// number of them. stop ends the command. The caller serves the first client.
func (s *Kept[E]) Begin(key Key, party any, within time.Duration, produce func(Sender[E]), stop func()) (*Live[E], error) {
	l := &Live[E]{within: within, party: party, first: 1, at: 1}
	l.change = sync.NewCond(&l.mu)
	l.forget = func() {
		s.remove(key)
		l.drop()
		stop()
	}
	if err := s.add(key, l); err != nil {
		stop()
		return nil, err
	}
	l.timer = time.AfterFunc(MaxWithin, l.forget)
	l.timer.Stop() // until the first client has gone
	go func() {    // ends with the command, or when it is forgotten
		defer stop()
		defer l.end()
		produce(l)
	}()
	return l, nil
}

// add adds a command, in the place of one that has ended if its party has too many.
func (s *Kept[E]) add(key Key, l *Live[E]) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	count := 0
	var oldest Key
	for k, other := range s.all {
		if other.party != l.party {
			continue
		}
		count++
		if (oldest == Key{} || other.number < s.all[oldest].number) && other.ended() {
			oldest = k
		}
	}
	if count >= maxLive {
		ended := s.all[oldest]
		if ended == nil {
			return runtime.Errorf(runtime.ErrUnavailable,
				"%d commands that can be resumed run, the limit: leave resumeWithin out, or use background", maxLive)
		}
		delete(s.all, oldest)
		ended.drop()
	}
	if s.all == nil {
		s.all = map[Key]*Live[E]{}
	}
	s.added++
	l.number = s.added
	s.all[key] = l
	return nil
}

// Get returns a command, or nil.
func (s *Kept[E]) Get(key Key) *Live[E] {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all[key]
}

func (s *Kept[E]) remove(key Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.all, key)
}

// Leave drops the commands of a sandbox that was stopped, unless they have clients, which get
// the last events.
func (s *Kept[E]) Leave(sandboxID string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, l := range s.all {
		if key.SandboxID == sandboxID && l.alone() {
			delete(s.all, key)
			l.drop()
		}
	}
}

// A Live is a command whose events are kept, so that a client that has lost its connection can
// have the rest. It has one client at a time. Output beyond what is kept waits for a client;
// without one for some time, the command is killed.
type Live[E Event] struct {
	within time.Duration
	timer  *time.Timer // calls forget; runs while there is no client
	forget func()      // kills the command, and removes it from Kept
	party  any
	number int64 // of those that were added; guarded by Kept.mu

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

// Send implements [Sender].
func (l *Live[E]) Send(events ...E) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.ahead > aheadEvents && !l.gone {
		l.change.Wait()
	}
	if l.gone {
		return errGone
	}
	now := time.Now()
	var frames []byte
	ends := make([]int, len(events))
	for i, e := range events {
		var err error
		if frames, err = e.AppendFrame(frames, l.first+int64(len(l.kept)+i), now); err != nil {
			return err
		}
		ends[i] = len(frames)
	}
	all, begin := bytes.Clone(frames), 0 // without what the buffer has in reserve
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

// trim drops the oldest events that the client has got, if too much is kept. Precondition: mu is
// held.
func (l *Live[E]) trim() {
	for l.size > keptEvents && l.first < l.at {
		l.size -= len(l.kept[0])
		l.kept[0] = nil
		l.kept = l.kept[1:]
		l.first++
	}
}

// end notes that there are no more events.
func (l *Live[E]) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.over = true
	l.change.Broadcast()
}

// ended reports whether there are no more events, and no client.
func (l *Live[E]) ended() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.over && !l.client
}

// alone reports whether there is no client.
func (l *Live[E]) alone() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.client
}

// drop ends all that waits, and lets the events go.
func (l *Live[E]) drop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.gone, l.kept, l.size = true, nil, 0
	l.change.Broadcast()
}

// Serve sends the events after one to a client until they end or the client is gone. With an error
// nothing was sent: the command was forgotten ([runtime.ErrNotFound]), has a client
// ([runtime.ErrConflict]), has no such event ([runtime.ErrInvalid]), or has it no more
// ([LostError]).
func (l *Live[E]) Serve(ctx context.Context, s *Stream[E], after int64) error {
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
		return runtime.Errorf(runtime.ErrNotFound, "no client came back in time")
	case l.client:
		return runtime.Errorf(runtime.ErrConflict, "the command has a client that is connected")
	case after+1 < l.first:
		return LostError(l.first - 1)
	case after >= next:
		return runtime.Errorf(runtime.ErrInvalid, "after_eid %d: the last event is %d", after, next-1)
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

// take returns frames that the client gets next, and notes that it has them. Precondition: mu is
// held.
func (l *Live[E]) take() []byte {
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
