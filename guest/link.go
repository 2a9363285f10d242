package guest

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"wolffia/internal/sys/rawsock"
	"wolffia/wire"
)

// A link is a connection over which the host asks PID 1 to start processes. It is PID 1's own
// stream, or the connection of one client, whose descriptor the shim has passed so that frames
// need not pass the shim. A client's link asks for no sockets, and has no channel 0.
type link struct {
	*guest
	w       *wire.Writer
	parts   parts    // serve's goroutine only
	quiet   bool     // the host has sent Quiesce, and not Resumed; serve's goroutine only
	network *network // nil: a client's

	mu    sync.Mutex
	procs map[uint32]channelHandler // by channel; guarded by mu
}

func (g *guest) link(w *wire.Writer) *link {
	return &link{guest: g, w: w, procs: map[uint32]channelHandler{}}
}

// serve handles frames until the stream ends, which is not an error, or breaches the protocol.
func (l *link) serve(in io.Reader) error {
	r := wire.NewReader(in)
	defer r.Release()
	for {
		f, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := l.handle(f); err != nil {
			return err
		}
	}
}

// serveClients serves the connections whose descriptors the host passes over from.
func (g *guest) serveClients(from *os.File) {
	for {
		n, socket, err := rawsock.ReceiveSocket(from, make([]byte, 1))
		switch {
		case err == nil && n == 0, errors.Is(err, unix.ECONNRESET):
			return // the host has closed its end
		case socket == nil:
			continue // PID 1 has no free descriptor: the client sees its connection closed
		}
		go g.serveClient(socket) // ends with the connection
	}
}

// serveClient serves a client until its connection ends or breaks, and then kills the processes
// that it has left running.
func (g *guest) serveClient(socket *rawsock.Socket) {
	out := wire.NewOutbox(socket, nil)
	go out.Run() // ends with the connection
	g.mu.Lock()
	g.clients[out] = true
	g.mu.Unlock()
	l := g.link(wire.NewOutboxWriter(out))
	_ = l.serve(socket) // a client that breaks the protocol harms itself only
	out.Close()
	g.mu.Lock()
	delete(g.clients, out)
	g.mu.Unlock()
	_ = socket.Close()
	l.abandon()
}

// errRestored says that the stream is a new one, since the sandbox was restored.
var errRestored = errors.New("the sandbox was restored")

func (l *link) greet() error {
	return l.w.SendJSON(wire.Hello, 0, wire.Greeting{Version: wire.Version})
}

// end ends the channels of PID 1's own stream, which has a new host. Nothing of them goes there.
// Sessions and kept jobs run on. It returns when no address is in use.
func (l *link) end() {
	l.w.Discard()
	l.leave()
}

// leave is end for a stream that is closed.
func (l *link) leave() {
	l.abandon()
	l.network.listening.Wait()
}

// abandon kills the processes of all channels but those that outlive the link, the newest first:
// a command that waits for its session must not start when the command before it ends.
func (l *link) abandon() {
	l.mu.Lock()
	left := slices.SortedFunc(maps.Keys(l.procs), func(a, b uint32) int { return cmp.Compare(b, a) })
	l.mu.Unlock()
	for _, ch := range left {
		switch p := l.process(ch).(type) {
		case nil:
		case *process:
			if !p.detach() {
				p.Kill()
			}
		default:
			p.Kill()
		}
	}
}

// A channelHandler does what the frames of a channel ask for: a process, or a call of
// a shell session. Its methods do not wait.
type channelHandler interface {
	PutInput(f wire.Frame) bool // owns f afterwards; false: more than granted
	CloseInput()
	Signal(sig syscall.Signal)
	Kill()
	Resize(rows, cols uint16)
	Grant(stream wire.Type, n int)
}

func (l *link) process(channel uint32) channelHandler {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.procs[channel]
}

// set makes h the handler of a channel; nil: the channel has none any more.
func (l *link) set(channel uint32, h channelHandler) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.procs[channel] = h; h == nil {
		delete(l.procs, channel)
	}
}

// handle does what f asks for, without waiting for anything, and releases it.
// An error is a breach of the protocol.
func (l *link) handle(f wire.Frame) error {
	if l.quiet != (f.Type == wire.Resumed || f.Type == wire.Restored) {
		// a write would wait for Resumed, which nothing would read
		defer f.Release()
		return fmt.Errorf("%w: frame of type %d, and the stream is quiet: %t", wire.ErrProtocol, f.Type, l.quiet)
	}
	if f.Channel == 0 {
		defer f.Release()
		if l.network == nil {
			return fmt.Errorf("%w: frame of type %d on channel 0 from a client", wire.ErrProtocol, f.Type)
		}
		return l.handleConn(&f)
	}
	p := l.process(f.Channel)
	if f.Type == wire.Stdin {
		if p == nil {
			f.Release() // it ended while this was on its way
			return nil
		}
		if !p.PutInput(f) {
			return fmt.Errorf("%w: more input than granted", wire.ErrProtocol)
		}
		return nil
	}
	defer f.Release()
	if f.Type == wire.StartMore || f.Type == wire.Start {
		return l.start(&f)
	}
	if p == nil && (f.Type == wire.Kill || f.Type == wire.Detach) && l.parts.begun(f.Channel) {
		_, _ = l.parts.remove(f.Channel)
		return l.w.SendJSON(wire.Failed, f.Channel, failure("", errCanceled))
	}
	if p == nil {
		return nil // it ended while this was on its way
	}
	switch f.Type {
	case wire.StdinClose:
		p.CloseInput()
	case wire.Signal:
		if len(f.Payload()) != 1 {
			return fmt.Errorf("%w: signal frame of %d bytes", wire.ErrProtocol, len(f.Payload()))
		}
		p.Signal(syscall.Signal(f.Payload()[0]))
	case wire.Kill:
		p.Kill()
	case wire.Detach:
		if own, is := p.(*process); is {
			go l.detach(f.Channel, own) // ends when the host reads
		} else {
			p.Kill()
		}
	case wire.Resize:
		rows, cols, err := wire.ParseSize(f.Payload())
		if err != nil {
			return err
		}
		p.Resize(rows, cols)
	case wire.Credit:
		stream, n, err := wire.ParseCredit(f.Payload())
		if err != nil {
			return err
		}
		p.Grant(stream, n)
	default:
		return fmt.Errorf("%w: frame of type %d on a channel", wire.ErrProtocol, f.Type)
	}
	return nil
}

// handleConn handles the frames of channel 0.
func (l *link) handleConn(f *wire.Frame) error {
	switch f.Type {
	case wire.Ping:
		return l.w.Send(wire.Pong, 0, f.Payload()[:min(len(f.Payload()), 64)])
	case wire.Shutdown:
		if len(f.Payload()) != 4 {
			return fmt.Errorf("%w: shutdown frame of %d bytes", wire.ErrProtocol, len(f.Payload()))
		}
		ms := binary.LittleEndian.Uint32(f.Payload())
		go l.shutdown(time.Duration(ms) * time.Millisecond) // ends the process
		return nil
	case wire.Quiesce:
		l.quiet = true
		l.clock.Stop()
		return l.w.Hold(wire.Quiet)
	case wire.Resumed:
		l.quiet = false
		l.clock.Continue()
		return l.w.Free()
	case wire.Restored:
		l.clock.Continue()
		return errRestored
	case wire.WatchBusy:
		l.shells.WatchBusy(func(n uint32) { _ = l.w.Send(wire.Busy, 0, binary.LittleEndian.AppendUint32(nil, n)) })
		return nil
	}
	return fmt.Errorf("%w: frame of type %d on channel 0", wire.ErrProtocol, f.Type)
}

// start opens a channel, or keeps a piece of the request.
func (l *link) start(f *wire.Frame) error {
	if l.process(f.Channel) != nil {
		return fmt.Errorf("%w: channel %d is in use", wire.ErrProtocol, f.Channel)
	}
	request := f.Payload()
	if f.Type == wire.StartMore || l.parts.begun(f.Channel) {
		l.parts.add(f.Channel, request)
		if f.Type == wire.StartMore {
			return nil
		}
		var err error
		if request, err = l.parts.remove(f.Channel); err != nil {
			return l.w.SendJSON(wire.Failed, f.Channel, wire.Failure{Code: 125, Message: err.Error()})
		}
	}
	req, err := wire.ParseStart(request)
	if err != nil {
		return err
	}
	channel := f.Channel
	if req.Network != nil && l.network == nil {
		return fmt.Errorf("%w: request for a socket from a client", wire.ErrProtocol)
	}
	if req.Network != nil {
		l.network.open(channel, req.Network)
		return nil
	}
	if req.Session != nil {
		l.talk(channel, req)
		return nil
	}
	if req.Kept != nil {
		return l.attach(channel, req.Kept.PID)
	}
	p, files, err := newProcess(l.place(channel), req)
	if err != nil {
		return l.w.SendJSON(wire.Failed, channel, wire.Failure{Code: 125, Message: err.Error()})
	}
	l.set(channel, p)
	l.running.Go(func() { // ends with the process
		if shell := l.shells.DiscardPrestarted(); shell != 0 {
			l.reaper.awaitGone(shell) // the process does not see it
		}
		p.run(l.reaper, l.clock, l.kept, req, files)
	})
	return nil
}

// talk opens a channel to the shell sessions.
func (l *link) talk(channel uint32, req *wire.StartRequest) {
	over := false // guarded by mu
	c := l.shells.Open(channel, l.w, req, func() {
		l.mu.Lock()
		over = true
		delete(l.procs, channel)
		l.mu.Unlock()
	})
	l.mu.Lock()
	if !over {
		l.procs[channel] = c
	}
	l.mu.Unlock()
}
