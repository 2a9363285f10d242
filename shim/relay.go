package shim

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"sync"
	"time"

	"wolffia/guest/wire"
	"wolffia/internal/step"
)

// A relay passes frames between PID 1 and any number of clients. It changes
// nothing but channel numbers. What it queues for a client is bounded by the
// credit that this client has given; a guest that sends more breaks the
// protocol, which ends the sandbox.
type relay struct {
	stream io.ReadWriteCloser
	r      *wire.Reader
	w      *wire.Writer

	mu     sync.Mutex
	next   uint32            // last channel used towards the guest; guarded by mu
	routes map[uint32]*route // by the guest's channel; guarded by mu
	gone   map[uint32]bool   // channels whose client is gone, until they end; guarded by mu
	jobs   uint32            // that run in the background, if the guest was asked; guarded by mu
	used   time.Time         // when the last of all that went on had ended; guarded by mu
}

// A route joins a client's channel with one of the guest's.
type route struct {
	client  *peer
	channel uint32            // the client's
	credit  map[wire.Type]int // what the guest may still send, by stream; guarded by relay.mu
}

func newRelay(stream io.ReadWriteCloser) *relay {
	return &relay{
		stream: stream, r: wire.NewReader(stream), w: wire.NewWriter(stream),
		routes: map[uint32]*route{}, gone: map[uint32]bool{},
	}
}

// hello waits for the guest's greeting.
func (r *relay) hello(limit time.Duration) error {
	var err error
	got := make(chan struct{})
	go func() { // ends with the stream at the latest
		defer close(got)
		var f wire.Frame
		if f, err = r.r.Next(); err != nil {
			return
		}
		defer f.Release()
		err = wire.CheckHello(&f)
	}()
	if !within(limit, got) {
		return fmt.Errorf("no word from PID 1 in %v", limit)
	}
	if errors.Is(err, io.EOF) {
		return errors.New("PID 1 ended at once")
	}
	return err
}

// shutdown asks the guest to end everything.
func (r *relay) shutdown(grace time.Duration) error {
	ms := uint32(min(grace.Milliseconds(), math.MaxUint32))
	return r.w.Send(wire.Shutdown, 0, binary.LittleEndian.AppendUint32(nil, ms))
}

// run passes on what the guest says until the stream ends or it lies.
func (r *relay) run() error {
	defer r.stream.Close()
	for {
		f, err := r.r.Next()
		if err != nil {
			return err
		}
		if err := r.fromGuest(f); err != nil {
			return err
		}
	}
}

func (r *relay) fromGuest(f wire.Frame) error {
	if f.Channel == 0 {
		defer f.Release()
		return r.fromInit(&f)
	}
	r.mu.Lock()
	to, known := r.routes[f.Channel]
	orphaned := r.gone[f.Channel]
	if f.Type == wire.Exit || f.Type == wire.Failed {
		delete(r.routes, f.Channel)
		delete(r.gone, f.Channel)
		if !r.busy() {
			r.used = time.Now()
		}
	}
	if known && (f.Type == wire.Stdout || f.Type == wire.Stderr) {
		to.credit[f.Type] -= len(f.Payload())
		if to.credit[f.Type] < 0 {
			r.mu.Unlock()
			f.Release()
			return fmt.Errorf("%w: more output than granted", wire.ErrProtocol)
		}
	}
	r.mu.Unlock()
	switch {
	case orphaned:
		f.Release()
		return nil
	case !known:
		f.Release()
		return fmt.Errorf("%w: frame of type %d on channel %d, which is not open", wire.ErrProtocol, f.Type, f.Channel)
	}
	switch f.Type {
	case wire.Started, wire.Stdout, wire.Stderr, wire.StdoutEOF, wire.StderrEOF, wire.Exit, wire.Failed, wire.Credit:
	default:
		f.Release()
		return fmt.Errorf("%w: frame of type %d from the guest", wire.ErrProtocol, f.Type)
	}
	if f.Type == wire.Exit || f.Type == wire.Failed {
		step.Reached("process ended")
		to.client.closed(to.channel)
	}
	f.Channel = to.channel
	to.client.queue(f)
	return nil
}

// fromInit takes what the guest says of itself: nothing that a client waits for.
func (r *relay) fromInit(f *wire.Frame) error {
	if f.Type != wire.Busy {
		return nil
	}
	if len(f.Payload()) != 4 {
		return fmt.Errorf("%w: jobs frame of %d bytes", wire.ErrProtocol, len(f.Payload()))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.jobs = binary.LittleEndian.Uint32(f.Payload())
	r.used = time.Now()
	return nil
}

// busy reports whether something goes on in the sandbox that counts as its use:
// a channel is open, or a background job runs. r.mu is held.
func (r *relay) busy() bool { return len(r.routes)+len(r.gone) > 0 || r.jobs > 0 }

// use reports whether the sandbox is used, or how long it was not.
func (r *relay) use() (busy bool, idle time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.busy(), time.Since(r.used)
}

// touch counts as a use.
func (r *relay) touch() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.used = time.Now()
}

// open makes a route for a client's channel.
func (r *relay) open(client *peer, channel uint32) uint32 {
	r.mu.Lock()
	defer r.mu.Unlock()
	for {
		r.next++
		if r.next != 0 && r.routes[r.next] == nil && !r.gone[r.next] {
			break
		}
	}
	r.routes[r.next] = &route{
		client: client, channel: channel,
		credit: map[wire.Type]int{wire.Stdout: wire.Window, wire.Stderr: wire.Window},
	}
	return r.next
}

// grant notes credit that a client gives.
func (r *relay) grant(channel uint32, stream wire.Type, n int) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if to := r.routes[channel]; to != nil {
		if to.credit[stream] += n; to.credit[stream] > wire.MaxCredit {
			return fmt.Errorf("%w: credit of %d bytes for one stream", wire.ErrProtocol, to.credit[stream])
		}
	}
	return nil
}

// abandon ends what a client that is gone has left running, the newest first:
// what waits in a session for its turn must not get it by the end of what runs.
func (r *relay) abandon(channels []uint32) {
	slices.SortFunc(channels, func(a, b uint32) int { return cmp.Compare(b, a) })
	for _, ch := range channels {
		r.mu.Lock()
		open := r.routes[ch] != nil
		if open {
			delete(r.routes, ch)
			r.gone[ch] = true
		}
		r.mu.Unlock()
		if open {
			_ = r.w.Send(wire.Kill, ch, nil)
		}
	}
}
