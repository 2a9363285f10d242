package shim

import (
	"errors"
	"io"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"wolffia/runtime"
	"wolffia/wire"
)

// againLimit is how long a request waits while PID 1 has no stream.
const againLimit = 30 * time.Second

// errSevered is the end of what ran over a stream that broke.
var errSevered = runtime.Errorf(runtime.ErrUnavailable, "the connection to PID 1 broke")

// A replaceable is PID 1's stream. Where a network is in between, another takes its place once it
// is broken; no frame goes to two of them. It is safe for concurrent use.
type replaceable struct {
	mu   sync.Mutex
	conn io.ReadWriteCloser // guarded by mu
}

func (s *replaceable) now() io.ReadWriteCloser {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.conn
}

func (s *replaceable) replace(conn io.ReadWriteCloser) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conn = conn
}

// Write writes a frame: see [wire.Writer].
func (s *replaceable) Write(b []byte) (int, error) { return s.now().Write(b) }

// reconnect ends all channels after the end of the stream, and has the relay use the next one. It
// returns an error once there will be none. It is run's, or comes before that.
func (r *relay) reconnect() error {
	_ = r.stream.now().Close() // so that no sender waits
	r.sever()
	for {
		next, err := r.again()
		if err != nil {
			return err
		}
		r.stream.replace(next)
		r.r = wire.NewReader(next)
		err = r.hello(helloLimit, true)
		if err == nil && r.watchesBusy.Load() {
			err = r.w.Send(wire.WatchBusy, 0, nil)
		}
		if err == nil {
			break
		}
		_ = next.Close()
		if errors.Is(err, wire.ErrProtocol) {
			return err
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	close(r.severed)
	r.severed = nil
	return nil
}

// sever ends all channels with an error. Until reconnect has another stream, none is opened.
func (r *relay) sever() {
	r.whole.Lock() // no frame of theirs is on its way to the next stream
	defer r.whole.Unlock()
	r.mu.Lock()
	lost := r.routes
	r.routes, r.orphans, r.waiting = map[uint32]*route{}, map[uint32]bool{}, 0
	if r.severed == nil {
		r.severed = make(chan struct{})
	}
	r.used(time.Now())
	r.mu.Unlock()
	for _, to := range lost {
		to.client.forget(to.channel)
		to.client.refuse(to.channel, to.op, errSevered.Error()+", and what ran over it was ended: run it again")
	}
}

// awaitStream waits while there is no stream, for again to come. It returns an error after a limit.
func (r *relay) awaitStream(limit time.Duration) error {
	r.mu.Lock()
	severed := r.severed
	r.mu.Unlock()
	if severed == nil {
		return nil
	}
	select {
	case <-severed:
		return nil
	case <-time.After(limit):
		return errSevered
	}
}

// refuse ends a channel that has no route.
func (c *clientConn) refuse(channel uint32, op wire.NetOp, why string) {
	failure := wire.Failure{Code: 125, Class: wire.ClassUnavailable, Message: why}
	if op != 0 {
		failure.Errno = int(unix.ECONNRESET)
	}
	_ = wire.NewOutboxWriter(c.out).SendJSON(wire.Failed, channel, failure)
}
