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
	"sync/atomic"
	"time"

	"wolffia/internal/host/boot"
	"wolffia/internal/sys/step"
	"wolffia/runtime"
	"wolffia/wire"
)

// A relay multiplexes the channels of all clients on PID 1's stream. It changes channel
// numbers only. The credit that a client has given bounds what is queued for it; a guest
// that sends more breaks the protocol, which ends the sandbox. run is for one goroutine;
// the other methods are safe for concurrent use.
type relay struct {
	stream *replaceable
	r      *wire.Reader // run's own
	w      *wire.Writer
	// returns another stream to the same PID 1, or an error once there will be none; nil: the end
	// of the stream is PID 1's
	again func() (io.ReadWriteCloser, error)
	// read-locked from the choice of a client's channel until its frame is written
	whole       sync.RWMutex
	watchesBusy atomic.Bool // WatchBusy was sent
	// called once if PID 1 does not answer; nil: it is not watched
	dead func(silent time.Duration)
	load func() load // returns PID 1's load; nil: it is not known

	mu      sync.Mutex
	next    uint32            // the last channel towards the guest; guarded by mu
	routes  map[uint32]*route // by the guest's channel; guarded by mu
	orphans map[uint32]bool   // channels whose client has hung up, until they end; guarded by mu
	waiting int               // routes that are no use of the sandbox; guarded by mu
	held    int               // uses of the sandbox beside channels; guarded by mu
	working int               // clients that use it by connections to PID 1; guarded by mu
	jobs    uint32            // background jobs, if the guest was asked; guarded by mu
	lastUse time.Time         // when the sandbox became idle; guarded by mu
	idle    sync.Cond         // the sandbox may be idle

	severed chan struct{} // closed when there is a stream again; nil: there is one; guarded by mu

	received uint64    // frames from the guest; guarded by mu
	watching bool      // beat will be called; guarded by mu
	pulse    pulse     // guarded by mu
	last     load      // at the last beat; guarded by mu
	due      time.Time // of the next beat; guarded by mu

	still   bool          // between quiesce and resume; guarded by mu
	quiet   chan struct{} // closed by PID 1's answer to Quiesce; guarded by mu
	holding chan struct{} // closed when w is held; guarded by mu

	pinged uint32                   // the last ping's number; guarded by mu
	pings  map[uint32]chan struct{} // those that wait for their answer; guarded by mu
}

// A route connects a client's channel with one of the guest's.
type route struct {
	client  *clientConn
	channel uint32 // the client's
	// bytes that the guest may still send, by stream; guarded by relay.mu
	credit map[wire.Type]int
	// bytes that the guest may still give credit for; guarded by relay.mu
	input int
	// types of frames that the guest may still send, once each; guarded by relay.mu
	once [4]wire.Type
	op   wire.NetOp // of a socket; 0: a process
	// it does not count as a use of the sandbox: no connection has come yet; guarded by relay.mu
	waits bool
}

// charge checks a frame from the guest, and takes it from what the guest may still send:
// frames that a client does not read stay in memory. relay.mu is held.
func (to *route) charge(f *wire.Frame) error {
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
	case wire.Queued, wire.Started, wire.StdoutEOF, wire.StderrEOF:
		if to.op != 0 && (f.Type == wire.Queued || f.Type == wire.StderrEOF) {
			return fmt.Errorf("%w: frame of type %d of a socket", wire.ErrProtocol, f.Type)
		}
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
	to := &replaceable{conn: stream}
	r := &relay{
		stream: to, r: wire.NewReader(stream), w: wire.NewWriter(to),
		routes: map[uint32]*route{}, orphans: map[uint32]bool{}, pings: map[uint32]chan struct{}{},
	}
	r.idle.L = &r.mu
	return r
}

// restored says to a guest that its memory was restored, and the stream is new. It answers as
// at a start.
func (r *relay) restored() error { return r.w.Send(wire.Restored, 0, nil) }

// hello waits for the guest's greeting and, with answers, for its answer to a ping: so it reads
// what it is sent.
func (r *relay) hello(limit time.Duration, answers bool) error {
	var err error
	from, got := r.r, make(chan struct{})
	go func() { // ends with the stream at the latest
		defer close(got)
		var f wire.Frame
		if f, err = from.Next(); err != nil {
			return
		}
		err = wire.CheckHello(&f)
		f.Release()
		if err == nil && answers {
			err = r.w.Send(wire.Ping, 0, nil)
		}
		for answered := !answers; !answered && err == nil; {
			if f, err = from.Next(); err == nil {
				answered = f.Type == wire.Pong
				err = r.fromGuest(f)
			}
		}
	}()
	if !boot.Within(limit, got) {
		return fmt.Errorf("PID 1 did not greet and answer within %v", limit)
	}
	if errors.Is(err, io.EOF) {
		return errors.New("PID 1 ended at once")
	}
	return err
}

// shutdown asks PID 1 to end all processes within grace, and itself.
func (r *relay) shutdown(grace time.Duration) error {
	ms := uint32(min(grace.Milliseconds(), math.MaxUint32))
	return r.w.Send(wire.Shutdown, 0, binary.LittleEndian.AppendUint32(nil, ms))
}

// run relays the guest's frames until the last stream ends, or the guest breaks the protocol.
func (r *relay) run() error {
	defer func() { _ = r.stream.now().Close() }()
	for {
		f, err := r.r.Next()
		if err == nil {
			err = r.fromGuest(f)
		}
		if err != nil && r.again != nil && !errors.Is(err, wire.ErrProtocol) {
			err = r.reconnect()
		}
		if err != nil {
			return err
		}
	}
}

// fromGuest relays a frame of the guest's, or releases it.
func (r *relay) fromGuest(f wire.Frame) error {
	if f.Channel == 0 {
		defer f.Release()
		return r.fromInit(&f)
	}
	r.mu.Lock()
	r.received++
	to, known := r.routes[f.Channel]
	orphaned := r.orphans[f.Channel]
	last := f.Type == wire.Exit || f.Type == wire.Failed
	used := !known || !to.waits
	if known && to.waits && (last || to.op == wire.NetAccept && f.Type == wire.Started) {
		to.waits = false
		r.waiting--
		r.watch()
	}
	if last {
		delete(r.routes, f.Channel)
		delete(r.orphans, f.Channel)
		if used {
			r.used(time.Now())
		}
	}
	var err error
	if known {
		err = to.charge(&f)
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
		to.client.forget(to.channel)
	}
	f.Channel = to.channel
	to.client.out.Put(f)
	return nil
}

// fromInit handles a frame on channel 0, which is about PID 1 itself.
func (r *relay) fromInit(f *wire.Frame) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.received++
	switch b := f.Payload(); {
	case f.Type == wire.Pong && len(b) == 4:
		n := binary.LittleEndian.Uint32(b)
		if answered := r.pings[n]; answered != nil {
			delete(r.pings, n)
			close(answered)
		}
	case f.Type == wire.Quiet && r.quiet != nil:
		close(r.quiet)
		r.quiet = nil
	case f.Type == wire.Busy && len(b) == 4:
		r.jobs, r.lastUse = binary.LittleEndian.Uint32(b), time.Now()
		r.used(r.lastUse)
	case f.Type == wire.Busy:
		return fmt.Errorf("%w: jobs frame of %d bytes", wire.ErrProtocol, len(b))
	}
	return nil
}

// ping waits until PID 1 answers; an error says that it has not within the limit.
func (r *relay) ping(limit time.Duration) error {
	if err := r.awaitStream(limit); err != nil {
		return err
	}
	answered := make(chan struct{})
	r.mu.Lock()
	r.pinged++
	n := r.pinged
	r.pings[n] = answered
	r.mu.Unlock()
	// ends with the stream; a PID 1 that does not read holds it up
	go func() { _ = r.w.Send(wire.Ping, 0, binary.LittleEndian.AppendUint32(nil, n)) }()
	if boot.Within(limit, answered) {
		return nil
	}
	r.mu.Lock()
	delete(r.pings, n)
	r.mu.Unlock()
	return runtime.Errorf(runtime.ErrUnavailable, "PID 1 does not answer")
}

// active returns the number of open channels, without those on which the shim waits for a
// connection, and of clients that may have some with PID 1 itself. r.mu is held.
func (r *relay) active() int { return len(r.routes) + len(r.orphans) - r.waiting + r.working }

// busy reports whether the sandbox is in use: a channel is open, a background job runs, or
// hold was called. r.mu is held.
func (r *relay) busy() bool { return r.active() > 0 || r.jobs > 0 || r.held > 0 }

// hold makes the sandbox count as in use until release.
func (r *relay) hold() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.held++
}

// release undoes one hold.
func (r *relay) release() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.held--
	r.used(time.Now())
}

// work notes that a client begins to use the sandbox by a connection to PID 1, or has not for so
// long.
func (r *relay) work(begins bool, idle time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if begins {
		r.working++
		r.watch()
		return
	}
	r.working--
	r.used(time.Now().Add(-idle))
}

// used notes that a use of the sandbox has ended at a time. r.mu is held.
func (r *relay) used(at time.Time) {
	if r.busy() {
		return
	}
	if at.After(r.lastUse) {
		r.lastUse = at
	}
	r.idle.Broadcast()
}

// awaitIdle waits until the sandbox is not in use, or anyway returns true.
func (r *relay) awaitIdle(anyway func() bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.busy() && !anyway() {
		r.idle.Wait()
	}
}

// recheck has each awaitIdle call its function again.
func (r *relay) recheck() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.idle.Broadcast()
}

// usage reports whether the sandbox is in use, or for how long it was not.
func (r *relay) usage() (busy bool, idle time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.busy(), time.Since(r.lastUse)
}

// touch counts as a use of the sandbox.
func (r *relay) touch() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lastUse = time.Now()
}

// open makes a route for a client's channel, and returns the guest's. op is that of a
// socket, 0 for a process.
func (r *relay) open(client *clientConn, channel uint32, op wire.NetOp) uint32 {
	r.mu.Lock()
	defer r.mu.Unlock()
	for {
		r.next++
		if r.next != 0 && r.routes[r.next] == nil && !r.orphans[r.next] {
			break
		}
	}
	to := &route{
		client: client, channel: channel, op: op, waits: op != 0 && op != wire.NetDial,
		credit: map[wire.Type]int{wire.Stdout: wire.Window, wire.Stderr: wire.Window},
		once:   [4]wire.Type{wire.Queued, wire.Started, wire.StdoutEOF, wire.StderrEOF},
	}
	if op != 0 {
		to.credit = map[wire.Type]int{wire.Stdout: wire.NetWindow}
	}
	r.routes[r.next] = to
	if to.waits {
		r.waiting++
	} else {
		r.watch()
	}
	return r.next
}

// sent records n bytes of input from a client.
func (r *relay) sent(channel uint32, n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if to := r.routes[channel]; to != nil {
		to.input += n
	}
}

// grant records credit from a client.
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

// abandon ends the processes of channels whose client has hung up, but for those that outlive
// that, the newest first: a command that waits for its session must not start when the one before
// it ends.
func (r *relay) abandon(channels []uint32) {
	slices.SortFunc(channels, func(a, b uint32) int { return cmp.Compare(b, a) })
	for _, ch := range channels {
		r.mu.Lock()
		to := r.routes[ch]
		open := to != nil
		if open {
			if to.waits {
				r.waiting--
			}
			delete(r.routes, ch)
			r.orphans[ch] = true
		}
		r.mu.Unlock()
		if open {
			_ = r.w.Send(wire.Detach, ch, nil)
		}
	}
}
