package stream

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// An Input is what a client has typed and a terminal has not taken: a program inside may read
// nothing for as long as it likes, and signals and pings of the client must get by.
type Input struct {
	most int
	mu   sync.Mutex
	text []byte
	more chan struct{} // has a value when text is there
	room chan struct{} // has a value when text was taken

	waits atomic.Int64 // of Put: how many have begun and ended, so that it is odd during one
}

// NewInput returns an Input of at most so many bytes.
func NewInput(most int) *Input {
	return &Input{most: most, more: make(chan struct{}, 1), room: make(chan struct{}, 1)}
}

// Waits counts the beginnings and ends of waits for room, so that it is odd during one.
func (t *Input) Waits() int64 { return t.waits.Load() }

// Answers reports whether a client answers a ping within a limit. While a program inside leaves what
// was typed, nothing is read of the client, so that it counts as one that does as long as its
// connection takes pings.
func (t *Input) Answers(ctx context.Context, ping func(context.Context) error, limit time.Duration) bool {
	waits := t.Waits()
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	err := ping(ctx)
	unread := waits%2 == 1 || t.Waits() != waits
	return err == nil || unread && errors.Is(err, context.DeadlineExceeded)
}

// How often a client is pinged, and how long it has for the answer.
const (
	pingEach  = 30 * time.Second
	pongLimit = 30 * time.Second
)

// Watch pings a client now and then until one ping is not answered, as Answers says, or ctx ends.
func (t *Input) Watch(ctx context.Context, ping func(context.Context) error) {
	ticker := time.NewTicker(pingEach)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		if !t.Answers(ctx, ping, pongLimit) {
			return
		}
	}
}

// Put appends text, and waits for room unless there is none yet, or it fits. It is called by one
// goroutine.
func (t *Input) Put(ctx context.Context, b []byte) error {
	if t.add(b) {
		return nil
	}
	t.waits.Add(1)
	defer t.waits.Add(1)
	for !t.add(b) {
		select {
		case <-t.room:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// add appends text if there is room.
func (t *Input) add(b []byte) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.text) > 0 && len(t.text)+len(b) > t.most {
		return false
	}
	t.text = append(t.text, b...)
	tell(t.more)
	return true
}

// Take waits for text, and takes all that is there. It is called by one goroutine.
func (t *Input) Take(ctx context.Context) ([]byte, error) {
	select {
	case <-t.more:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	b := t.text
	t.text = nil
	tell(t.room)
	return b, nil
}

// tell puts a value into c unless it has one.
func tell(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
