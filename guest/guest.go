package guest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"wolffia/session"
	"wolffia/wire"
)

// Serve speaks the protocol on in and out until in ends or breaks, and then
// returns; the caller ends PID 1, and the kernel everything else. exit ends
// PID 1 at once; it is called when the host asks for an orderly shutdown.
// sessions is a directory for the shell sessions, see [session.Host];
// limits bind what is started, nil is none.
// Precondition: the process is PID 1, or a child subreaper, and has no
// children that another part of it waits for.
func Serve(in io.Reader, out io.Writer, sessions string, limits *Rlimits, exit func(code int)) error {
	limiter, err := newLimiter(limits)
	if err != nil {
		return err
	}
	g := &guest{
		w:      wire.NewWriter(out),
		reaper: newReaper(limiter),
		exit:   exit,
		procs:  map[uint32]channelHandler{},
	}
	g.shells = session.NewManager(session.Host{
		Start:        g.reaper.start,
		Started:      g.reaper.mine,
		OpenTerminal: openTerminal,
		LookPath:     lookPath,
		Dir:          sessions,
	})
	defer g.shells.Close()
	g.network = &network{w: g.w, set: g.set, listeners: map[uint64]*listener{}}
	if err := g.w.SendJSON(wire.Hello, 0, wire.Greeting{Version: wire.Version}); err != nil {
		return err
	}
	for r := wire.NewReader(in); ; {
		f, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := g.handle(f); err != nil {
			return err
		}
	}
}

// A guest is the state of Serve.
type guest struct {
	w      *wire.Writer
	reaper *reaper
	exit   func(code int)
	parts  parts // Serve's goroutine only
	shells *session.Manager

	network *network

	running sync.WaitGroup // one for each process whose channel is open

	mu    sync.Mutex
	procs map[uint32]channelHandler // by channel; guarded by mu
}

// A channelHandler does what the frames of a channel ask for: a process, or a call of
// a shell session. Its methods do not wait.
type channelHandler interface {
	PutInput(f wire.Frame) bool // takes f over; false: more than granted
	CloseInput()
	Signal(sig syscall.Signal)
	Kill()
	Resize(rows, cols uint16)
	Grant(stream wire.Type, n int)
}

func (g *guest) process(channel uint32) channelHandler {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.procs[channel]
}

// set makes h the handler of a channel; nil: the channel has none any more.
func (g *guest) set(channel uint32, h channelHandler) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.procs[channel] = h; h == nil {
		delete(g.procs, channel)
	}
}

// handle does what f asks for, without waiting for anything, and releases it.
// An error is a breach of the protocol.
func (g *guest) handle(f wire.Frame) error {
	if f.Channel == 0 {
		defer f.Release()
		return g.handleConn(&f)
	}
	p := g.process(f.Channel)
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
		return g.start(&f)
	}
	if p == nil && f.Type == wire.Kill && g.parts.begun(f.Channel) {
		_, _ = g.parts.take(f.Channel)
		return g.w.SendJSON(wire.Failed, f.Channel, wire.Failure{Code: 125, Message: "the request was given up"})
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
func (g *guest) handleConn(f *wire.Frame) error {
	switch f.Type {
	case wire.Ping:
		return g.w.Send(wire.Pong, 0, f.Payload()[:min(len(f.Payload()), 64)])
	case wire.Shutdown:
		if len(f.Payload()) != 4 {
			return fmt.Errorf("%w: shutdown frame of %d bytes", wire.ErrProtocol, len(f.Payload()))
		}
		ms := binary.LittleEndian.Uint32(f.Payload())
		go g.shutdown(time.Duration(ms) * time.Millisecond) // ends the process
		return nil
	case wire.WatchBusy:
		g.shells.WatchBusy(func(n uint32) { _ = g.w.Send(wire.Busy, 0, binary.LittleEndian.AppendUint32(nil, n)) })
		return nil
	}
	return fmt.Errorf("%w: frame of type %d on channel 0", wire.ErrProtocol, f.Type)
}

// shutdown asks all processes to end, waits until they are gone and their output is
// sent, but no longer than grace, and ends PID 1; the kernel kills the rest
// (pid_namespaces(7)).
func (g *guest) shutdown(grace time.Duration) {
	if os.Getpid() == 1 { // anywhere else -1 means the user's whole session
		_ = unix.Kill(-1, unix.SIGTERM)
		_ = unix.Kill(-1, unix.SIGCONT)
		g.shells.HangUp()
	}
	over := time.After(grace)
	select {
	case <-g.reaper.idle():
	case <-over:
	}
	sent := make(chan struct{})
	go func() { // ends with PID 1 at the latest
		g.running.Wait()
		close(sent)
	}()
	select {
	case <-sent:
	case <-over:
	}
	g.exit(0)
}

// start opens a channel, or keeps a piece of the request.
func (g *guest) start(f *wire.Frame) error {
	if g.process(f.Channel) != nil {
		return fmt.Errorf("%w: channel %d is in use", wire.ErrProtocol, f.Channel)
	}
	request := f.Payload()
	if f.Type == wire.StartMore || g.parts.begun(f.Channel) {
		g.parts.add(f.Channel, request)
		if f.Type == wire.StartMore {
			return nil
		}
		var err error
		if request, err = g.parts.take(f.Channel); err != nil {
			return g.w.SendJSON(wire.Failed, f.Channel, wire.Failure{Code: 125, Message: err.Error()})
		}
	}
	req, err := wire.ParseStart(request)
	if err != nil {
		return err
	}
	channel := f.Channel
	if req.Network != nil {
		g.network.open(channel, req.Network)
		return nil
	}
	if req.Session != nil {
		g.talk(channel, req)
		return nil
	}
	p, files, err := newProcess(channel, g.w, req)
	if err != nil {
		return g.w.SendJSON(wire.Failed, channel, wire.Failure{Code: 125, Message: err.Error()})
	}
	g.set(channel, p)
	g.running.Go(func() { p.run(g.reaper, req, files, func() { g.set(channel, nil) }) }) // ends with the process
	return nil
}

// talk opens a channel to the shell sessions.
func (g *guest) talk(channel uint32, req *wire.StartRequest) {
	over := false // guarded by mu
	c := g.shells.Open(channel, g.w, req, func() {
		g.mu.Lock()
		over = true
		delete(g.procs, channel)
		g.mu.Unlock()
	})
	g.mu.Lock()
	if !over {
		g.procs[channel] = c
	}
	g.mu.Unlock()
}
