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

	"wolffia/internal/boot"
	"wolffia/internal/step"
	"wolffia/wire"
)

// A relay passes frames between PID 1 and any number of clients. It changes
// nothing but channel numbers. What it queues for a client is bounded by the
// credit that this client has given; a guest that sends more breaks the
// protocol, which ends the sandbox.
type relay struct {
	stream io.ReadWriteCloser
	r      *wire.Reader
	w      *wire.Writer
	dead   func(silent time.Duration) // called once if PID 1 does not answer; nil: it is not watched
	load   func() load                // PID 1's; nil: it cannot be known

	mu     sync.Mutex
	next   uint32            // last channel used towards the guest; guarded by mu
	routes map[uint32]*route // by the guest's channel; guarded by mu
	gone   map[uint32]bool   // channels whose client is gone, until they end; guarded by mu
	jobs   uint32            // that run in the background, if the guest was asked; guarded by mu
	used   time.Time         // when the last of all that went on had ended; guarded by mu

	heard    uint64    // frames from the guest; guarded by mu
	watching bool      // beat will be called; guarded by mu
	pulse    pulse     // guarded by mu
	last     load      // at the last beat; guarded by mu
	due      time.Time // when the next one should be; guarded by mu
}

// A route joins a client's channel with one of the guest's.
type route struct {
	client  *peer
	channel uint32            // the client's
	credit  map[wire.Type]int // what the guest may still send, by stream; guarded by relay.mu
	input   int               // bytes that the guest may still give credit for; guarded by relay.mu
	once    [3]wire.Type      // frames that the guest may still send, once each; guarded by relay.mu
}

// take notes a frame that the guest sends, which a client that does not read has us
// keep: so there must be no more than it was allowed. relay.mu is held.
func (to *route) take(f *wire.Frame) error {
	n := len(f.Payload())
	switch f.Type {
	case wire.Stdout, wire.Stderr:
		if to.credit[f.Type] -= n; to.credit[f.Type] < 0 {
			return fmt.Errorf("%w: more output than granted", wire.ErrProtocol)
		}
		if n == 0 {
			return fmt.Errorf("%w: output of no bytes", wire.ErrProtocol)
		}
	case wire.Credit:
		stream, n, err := wire.ParseCredit(f.Payload())
		if err != nil {
			return err
		}
		if to.input -= n; stream != wire.Stdin || n == 0 || to.input < 0 {
			return fmt.Errorf("%w: credit for input that was not sent", wire.ErrProtocol)
		}
	case wire.Started, wire.StdoutEOF, wire.StderrEOF:
		i := slices.Index(to.once[:], f.Type)
		if i < 0 {
			return fmt.Errorf("%w: a second frame of type %d", wire.ErrProtocol, f.Type)
		}
		to.once[i] = 0
	case wire.Exit, wire.Failed: // the channel's last
	default:
		return fmt.Errorf("%w: frame of type %d from the guest", wire.ErrProtocol, f.Type)
	}
	return nil
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
	if !boot.Within(limit, got) {
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
	r.heard++
	to, known := r.routes[f.Channel]
	orphaned := r.gone[f.Channel]
	if f.Type == wire.Exit || f.Type == wire.Failed {
		delete(r.routes, f.Channel)
		delete(r.gone, f.Channel)
		if !r.busy() {
			r.used = time.Now()
		}
	}
	var err error
	if known {
		err = to.take(&f)
	}
	r.mu.Unlock()
	switch {
	case err != nil:
		f.Release()
		return err
	case orphaned:
		f.Release()
		return nil
	case !known:
		f.Release()
		return fmt.Errorf("%w: frame of type %d on channel %d, which is not open", wire.ErrProtocol, f.Type, f.Channel)
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
	r.mu.Lock()
	r.heard++
	r.mu.Unlock()
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
		once:   [3]wire.Type{wire.Started, wire.StdoutEOF, wire.StderrEOF},
	}
	r.watch()
	return r.next
}

// sent notes that a client sends n bytes of input.
func (r *relay) sent(channel uint32, n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if to := r.routes[channel]; to != nil {
		to.input += n
	}
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
