package shim

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	goruntime "runtime"
	"sync"
	"testing"
	"time"

	"wolffia/internal/host/inside"
	"wolffia/internal/test/wait"
	"wolffia/wire"
	"wolffia/wire/client"
)

// A sockets is a liar that makes sockets: it answers the shim's requests.
type sockets struct {
	*liar
	relay   *relay
	network inside.Network // over the shim's own connection

	mu      sync.Mutex
	accepts []uint32 // the channels that wait for a connection; guarded by mu
	killed  []uint32 // guarded by mu
	change  *sync.Cond
}

// lieAboutSockets runs a relay between a liar and the shim itself.
func lieAboutSockets(t *testing.T) *sockets {
	t.Helper()
	fromGuest, guestOut := io.Pipe()
	guestIn, toGuest := io.Pipe()
	s := &shim{relay: newRelay(pair{fromGuest, toGuest})}
	g := &sockets{liar: &liar{w: wire.NewWriter(guestOut), r: wire.NewReader(guestIn), over: make(chan error, 1)}, relay: s.relay}
	g.change = sync.NewCond(&g.mu)
	go func() { g.over <- s.relay.run() }()
	conn, err := s.self()
	if err != nil {
		t.Fatal(err)
	}
	g.network = inside.Relayed(conn)
	t.Cleanup(func() {
		_ = conn.Close()
		_ = guestOut.Close()
		_ = guestIn.Close()
	})
	go g.answer() // ends with the pipe
	return g
}

// answer lets each listener listen, and notes what waits for a connection.
func (g *sockets) answer() {
	for {
		f, err := g.r.Next()
		if err != nil {
			return
		}
		switch {
		case f.Type == wire.Start && wire.NetOpOf(f.Payload()) == wire.NetListen:
			at := netip.MustParseAddrPort("127.0.0.1:80")
			_ = g.w.Send(wire.Started, f.Channel, wire.AppendAddresses(nil, at, at))
		case f.Type == wire.Start:
			g.note(&g.accepts, f.Channel)
		case f.Type == wire.Kill:
			g.note(&g.killed, f.Channel)
		}
		f.Release()
	}
}

func (g *sockets) note(list *[]uint32, channel uint32) {
	g.mu.Lock()
	defer g.mu.Unlock()
	*list = append(*list, channel)
	g.change.Broadcast()
}

// take waits for a channel of a list, and takes it off.
func (g *sockets) take(t *testing.T, list *[]uint32) uint32 {
	t.Helper()
	stop := time.AfterFunc(wait.Limit, g.change.Broadcast)
	defer stop.Stop()
	end := time.Now().Add(wait.Limit)
	g.mu.Lock()
	defer g.mu.Unlock()
	for len(*list) == 0 {
		if time.Now().After(end) {
			t.Fatal("the shim asks for nothing")
		}
		g.change.Wait()
	}
	ch := (*list)[0]
	*list = (*list)[1:]
	return ch
}

func (g *sockets) connect(t *testing.T) (channel uint32) {
	t.Helper()
	channel = g.take(t, &g.accepts)
	at := netip.MustParseAddrPort("127.64.0.9:80")
	if err := g.w.Send(wire.Started, channel, wire.AppendAddresses(nil, at, netip.MustParseAddrPort("127.0.0.1:4711"))); err != nil {
		t.Fatal(err)
	}
	return channel
}

func (g *sockets) listen(t *testing.T) net.Listener {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), wait.Limit)
	defer cancel()
	l, err := g.network.ListenTCP(ctx, netip.MustParseAddrPort("0.0.0.0:80"))
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// What waits for a connection is not a use of the sandbox; a connection is.
func TestWaitingIsNotUse(t *testing.T) {
	g := lieAboutSockets(t)
	l := g.listen(t)
	if busy, _ := g.relay.usage(); busy {
		t.Error("a listener is a use of the sandbox")
	}
	ch := g.connect(t)
	c, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	if c.LocalAddr().String() != "127.64.0.9:80" {
		t.Errorf("dialled %v", c.LocalAddr())
	}
	if busy, _ := g.relay.usage(); !busy {
		t.Error("a connection is not a use of the sandbox")
	}
	_ = c.Close()
	for g.take(t, &g.killed) != ch {
	}
	if err := g.w.SendJSON(wire.Exit, ch, wire.ExitStatus{}); err != nil {
		t.Fatal(err)
	}
	if err := g.w.Send(wire.Pong, 0, nil); err != nil { // the relay has handled the frame before
		t.Fatal(err)
	}
	if busy, _ := g.relay.usage(); busy {
		t.Error("a connection that has ended is a use of the sandbox")
	}
}

// A guest that lies about a socket ends its sandbox.
func TestLiesAboutSockets(t *testing.T) {
	for name, say := range map[string]func(g *sockets, ch uint32) error{
		"bytes beyond its credit": func(g *sockets, ch uint32) error {
			for range wire.NetWindow/wire.MaxPayload + 1 {
				if err := g.w.Send(wire.Stdout, ch, make([]byte, wire.MaxPayload)); err != nil {
					return err
				}
			}
			return nil
		},
		"standard error": func(g *sockets, ch uint32) error { return g.w.Send(wire.Stderr, ch, []byte("x")) },
		"its end":        func(g *sockets, ch uint32) error { return g.w.Send(wire.StderrEOF, ch, nil) },
		"a queue":        func(g *sockets, ch uint32) error { return g.w.Send(wire.Queued, ch, nil) },
		"started twice":  func(g *sockets, ch uint32) error { return g.w.Send(wire.Started, ch, nil) },
	} {
		t.Run(name, func(t *testing.T) {
			g := lieAboutSockets(t)
			g.listen(t) // no call of Accept
			ch := g.connect(t)
			go func() { _ = say(g, ch) }()
			if err := wait.Receive(t, "the end of the relay", g.over); !errors.Is(err, wire.ErrProtocol) {
				t.Errorf("the relay ended with %v, want %v", err, wire.ErrProtocol)
			}
		})
	}
}

// waiting is how many channels wait for the connections of a listener.
const waiting = 8

// Connections that are closed here, and not inside, take their places until they are: a guest
// cannot have more by never ending them.
func TestUnendedConnectionsAreBounded(t *testing.T) {
	g := lieAboutSockets(t)
	for range 2 { // that wait for a connection take no place
		idle := g.listen(t)
		go func() { _, _ = idle.Accept() }() // ends with the network
		for range waiting {
			g.take(t, &g.accepts)
		}
	}
	l := g.listen(t)
	for range inside.MaxConnections {
		g.connect(t)
		c, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		_ = c.Close()
	}
	g.connect(t)
	accepted := make(chan net.Conn, 1)
	go func() {
		if c, err := l.Accept(); err == nil {
			accepted <- c
		}
	}()
	ended := g.take(t, &g.killed)
	select {
	case <-accepted:
		t.Error("one more is accepted")
	case <-time.After(50 * time.Millisecond): // can only be too short to see the failure
	}
	if err := g.w.SendJSON(wire.Exit, ended, wire.ExitStatus{}); err != nil {
		t.Fatal(err)
	}
	wait.Receive(t, "a connection after one has ended", accepted)
}

// Single bytes on many connections take not much more memory than their number.
func TestConnectionsOfSingleBytes(t *testing.T) {
	g := lieAboutSockets(t)
	l := g.listen(t)
	used := func() uint64 {
		goruntime.GC()
		var m goruntime.MemStats
		goruntime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := used()
	const connections, each, most = 16, 1 << 14, 6 << 20
	var conns []net.Conn
	for range connections {
		ch := g.connect(t)
		c, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		conns = append(conns, c)
		for range each {
			if err := g.w.Send(wire.Stdout, ch, []byte("x")); err != nil {
				t.Fatal(err)
			}
		}
		if err := g.w.Send(wire.StdoutEOF, ch, nil); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range conns { // from the end on nothing is on its way
		_ = c.SetReadDeadline(time.Now().Add(wait.Limit))
		if _, err := c.Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
	}
	if after := used(); after > before+most { // one frame for each byte takes 15 MB
		t.Errorf("%d bytes are kept for %d", after-before, connections*each)
	}
	for _, c := range conns {
		if got, err := io.ReadAll(c); len(got) != each-1 || err != nil {
			t.Errorf("%d bytes, %v", len(got), err)
		}
	}
}

// A client may connect to a server inside; it may not listen.
func TestClientsCannotListen(t *testing.T) {
	_, conn := lie(t)
	ctx, cancel := context.WithTimeout(t.Context(), wait.Limit)
	defer cancel()
	if _, err := inside.Relayed(conn).ListenTCP(ctx, netip.MustParseAddrPort("127.0.0.1:80")); err == nil {
		t.Error("a client listens")
	}
	if !errors.Is(conn.Err(), client.ErrClosed) {
		t.Errorf("the connection is %v", conn.Err())
	}
}
