package shim

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"wolffia/internal/boot"
	"wolffia/internal/step"
	"wolffia/wire"
)

// A peer is one client of the shim.
type peer struct {
	conn  *boot.Socket
	relay *relay

	mu       sync.Mutex
	change   *sync.Cond        // out or over has changed; uses mu
	channels map[uint32]uint32 // the client's channel to the guest's; guarded by mu
	out      []wire.Frame      // for the client; bounded by its credit; guarded by mu
	at       int               // bytes of the first of out that are written; guarded by mu
	writing  bool              // what was taken out is being written; guarded by mu
	over     bool              // guarded by mu
	asking   bool              // a question to the tree server is under way; guarded by mu
	replies  int               // answers in out, or being written; guarded by mu

	request []byte // the pieces of a Control request that is not complete; serve's own
}

// acceptPause is how long a client waits for whom there is no descriptor, or no memory:
// nothing tells when there is again.
const acceptPause = 20 * time.Millisecond

// accept serves clients until the process ends.
func (s *shim) accept(l *net.UnixListener) {
	for {
		conn, err := l.AcceptUnix()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			time.Sleep(acceptPause)
			continue
		}
		sock, err := boot.NewSocket(conn)
		if err != nil {
			continue // no descriptors left: the client sees that it was hung up on
		}
		step.Reached("client there")
		p := &peer{conn: sock, relay: s.relay, channels: map[uint32]uint32{}}
		p.change = sync.NewCond(&p.mu)
		go p.write()  // ends with the connection
		go s.serve(p) // ends with the connection
	}
}

// serve passes on what a client says until it is gone, and ends what it has
// left.
func (s *shim) serve(p *peer) {
	r := wire.NewReader(p.conn)
	for {
		f, err := r.Next()
		if err != nil {
			break
		}
		if err := s.fromClient(p, f); err != nil {
			break
		}
	}
	_ = p.conn.Close()
	p.mu.Lock()
	p.over = true
	var left []uint32
	for _, ch := range p.channels {
		left = append(left, ch)
	}
	for _, f := range p.out {
		f.Release()
	}
	p.out = nil
	p.change.Signal()
	p.mu.Unlock()
	s.relay.abandon(left)
}

// fromClient passes one frame on and releases it. An error ends the
// connection.
func (s *shim) fromClient(p *peer, f wire.Frame) error {
	defer f.Release()
	if f.Channel == 0 {
		return s.onControl(p, &f)
	}
	p.mu.Lock()
	ch, open := p.channels[f.Channel]
	if !open && (f.Type == wire.Start || f.Type == wire.StartMore) {
		ch = s.relay.open(p, f.Channel)
		p.channels[f.Channel] = ch
		open = true
	}
	p.mu.Unlock()
	if !open {
		return nil // it ended while this was on its way
	}
	switch f.Type {
	case wire.Start, wire.StartMore, wire.StdinClose, wire.Signal, wire.Resize, wire.Kill:
	case wire.Stdin:
		s.relay.sent(ch, len(f.Payload()))
	case wire.Credit:
		stream, n, err := wire.ParseCredit(f.Payload())
		if err != nil {
			return err
		}
		if err := s.relay.grant(ch, stream, n); err != nil {
			return err
		}
	default:
		return fmt.Errorf("%w: frame of type %d from a client", wire.ErrProtocol, f.Type)
	}
	f.Channel = ch
	if f.Type == wire.Start {
		step.Reached("process asked for")
	}
	return s.relay.w.Write(&f)
}

// closed forgets a channel that has ended.
func (p *peer) closed(channel uint32) {
	p.mu.Lock()
	delete(p.channels, channel)
	p.mu.Unlock()
}

// queue sends a frame, or what does not go out at once by the client's writer;
// it never waits.
func (p *peer) queue(f wire.Frame) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over {
		f.Release()
		return
	}
	if len(p.out) == 0 && !p.writing {
		b := f.Bytes()
		if p.at = p.conn.Try(b); p.at == len(b) {
			p.at = 0
			p.written(&f)
			return
		}
	}
	p.out = wire.Enqueue(p.out, f)
	p.change.Signal()
}

// written releases a frame that is out. p.mu is held.
func (p *peer) written(f *wire.Frame) {
	if f.Type == wire.Reply {
		p.replies--
	}
	f.Release()
}

// write sends what is queued.
func (p *peer) write() {
	for {
		p.mu.Lock()
		p.writing = false
		for len(p.out) == 0 && !p.over {
			p.change.Wait()
		}
		out, at := p.out, p.at
		p.out, p.at = nil, 0
		p.writing = true
		over := p.over
		p.mu.Unlock()
		if over {
			return
		}
		for i := range out {
			if _, err := p.conn.Write(out[i].Bytes()[at:]); err != nil {
				_ = p.conn.Close() // serve notices and cleans up
			}
			at = 0
			p.mu.Lock()
			p.written(&out[i])
			p.mu.Unlock()
		}
	}
}
