package gateway

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"wolffia/internal/host/egress"
	"wolffia/network"

	"golang.org/x/net/dns/dnsmessage"

	"wolffia/internal/test/wait"
)

// A crowd is a network inside whose listeners have as many connections as a test wants, in memory.
type crowd struct {
	loop
	conns    chan net.Conn // to the address of the first name, port 443
	accepted atomic.Int64
	done     chan struct{}
}

type crowdListener struct {
	c  *crowd
	at netip.AddrPort
	mu sync.Once
}

func (c *crowd) ListenTCP(_ context.Context, at netip.AddrPort) (net.Listener, error) {
	return &crowdListener{c: c, at: at}, nil
}

func (l *crowdListener) Accept() (net.Conn, error) {
	var conns chan net.Conn
	if l.at.Port() == 443 {
		conns = l.c.conns
	}
	select {
	case c := <-conns:
		l.c.accepted.Add(1)
		return c, nil
	case <-l.c.done:
		return nil, net.ErrClosed
	}
}

func (l *crowdListener) Close() error {
	if l.at.Port() == 443 {
		l.mu.Do(func() { close(l.c.done) })
	}
	return nil
}
func (l *crowdListener) Addr() net.Addr { return net.TCPAddrFromAddrPort(l.at) }

// A pipeConn is one end of a pipe, at the address of the first name.
type pipeConn struct {
	net.Conn
	closed func()
}

func (p *pipeConn) LocalAddr() net.Addr {
	return net.TCPAddrFromAddrPort(netip.MustParseAddrPort("127.64.1.0:443"))
}

func (p *pipeConn) RemoteAddr() net.Addr {
	return net.TCPAddrFromAddrPort(netip.MustParseAddrPort("127.0.0.1:1"))
}

func (p *pipeConn) Close() error {
	p.closed()
	return p.Conn.Close()
}

// 10,000 connections that say nothing, or send endless handshakes: at most 1024 are served at once,
// the others wait, memory is bounded, and afterwards the gateway serves as before.
func TestFlood(t *testing.T) {
	checkLeaks(t)
	const (
		attempts = 10000
		window   = maxConns - 100 // clients that stay once the limit was reached
	)
	c := &crowd{conns: make(chan net.Conn), done: make(chan struct{})}
	c.ports = map[uint16]uint16{}
	w := newWorld(t, allow("good.example:443"), func(o *Options) {
		o.Network = c
		o.patience = time.Minute // what ends is ended by the test
	})
	w.net = &c.loop
	w.site("good.example", "93.184.216.34")
	w.address("good.example")

	var open, most atomic.Int64
	var before, during runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	var running sync.WaitGroup
	var clients []net.Conn
	gone := 0
	for i := range attempts {
		client, server := net.Pipe()
		_ = client.SetDeadline(time.Now().Add(time.Minute))
		clients = append(clients, client)
		var once sync.Once
		conn := &pipeConn{server, func() { once.Do(func() { open.Add(-1) }) }}
		select {
		case c.conns <- conn:
		case <-time.After(wait.Limit):
			t.Fatal("connections are not accepted any more")
		}
		n := open.Add(1)
		for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
		}
		if i == maxConns { // the one that waits
			w.expect(egress.ReasonBusy)
			runtime.GC()
			runtime.ReadMemStats(&during)
		}
		if i > maxConns && i%8 == 0 {
			running.Go(func() { endless(client) })
		}
		for ; i >= maxConns && gone < i-window; gone++ {
			_ = clients[gone].Close()
		}
	}
	for _, client := range clients[gone:] {
		_ = client.Close()
	}
	running.Wait()
	w.expect(egress.ReasonBadTLS)
	if n := most.Load(); n > maxConns+2 { // one more is accepted and waits, one is about to be
		t.Errorf("%d connections at once", n)
	}
	// 1024 connections with what was read, what the parser keeps, and the buffers of this test.
	if grown := int64(during.HeapAlloc) - int64(before.HeapAlloc); grown > maxConns*6*maxPeek {
		t.Errorf("the heap has grown by %d MiB", grown>>20)
	}
	w.mu.Lock()
	if len(w.dialled) > 0 {
		t.Errorf("the gateway connected to %v", w.dialled)
	}
	w.mu.Unlock()

	client, server := net.Pipe()
	c.conns <- &pipeConn{server, func() {}}
	_ = client.SetDeadline(time.Now().Add(wait.Limit))
	conn := tls.Client(client, &tls.Config{ServerName: "good.example", InsecureSkipVerify: true}) // the test's own server
	if err := conn.Handshake(); err != nil {
		t.Error("after the flood:", err)
	}
	_ = client.Close()
}

// endless sends a handshake without end, until the other side ends the connection.
func endless(c net.Conn) {
	record := append([]byte{22, 3, 1, 0x40, 0, 1, 0, 0xff, 0xff}, make([]byte, 0x4000-4)...)
	for range 10 {
		if _, err := c.Write(record); err != nil {
			return
		}
		record = append([]byte{22, 3, 1, 0x40, 0}, make([]byte, 0x4000)...)
	}
}

// As many connections as are served at once, each with almost as long a handshake as is read.
func TestHugeHandshakes(t *testing.T) {
	checkLeaks(t)
	c := &crowd{conns: make(chan net.Conn), done: make(chan struct{})}
	c.ports = map[uint16]uint16{}
	w := newWorld(t, allow("good.example:443"), func(o *Options) { o.Network = c })
	w.net = &c.loop
	w.address("good.example")
	var before, during runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	var clients []net.Conn
	first := append([]byte{22, 3, 1, 0x40, 0, 1, 0, 0xff, 0xff}, make([]byte, 0x4000-4)...)
	rest := append([]byte{22, 3, 1, 0x3f, 0}, make([]byte, 0x3f00)...)
	for range maxConns {
		client, server := net.Pipe()
		clients = append(clients, client)
		_ = client.SetDeadline(time.Now().Add(wait.Limit))
		c.conns <- &pipeConn{server, func() {}}
		for _, record := range [][]byte{first, rest} {
			if _, err := client.Write(record); err != nil { // a pipe: it was read when this returns
				t.Fatal(err)
			}
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&during)
	t.Logf("the heap has grown by %d KiB for each connection", (int64(during.HeapAlloc)-int64(before.HeapAlloc))>>10/maxConns)
	if grown := int64(during.HeapAlloc) - int64(before.HeapAlloc); grown > maxConns*4*maxPeek {
		t.Errorf("the heap has grown by %d MiB", grown>>20)
	}
	for _, client := range clients {
		_ = client.Close()
	}
}

// Connections to DNS that stay open do not keep others from it for longer than the limit, and
// those for names have slots of their own.
func TestDNSFlood(t *testing.T) {
	checkLeaks(t)
	w := newWorld(t, allow("git.example:22"), func(o *Options) { o.patience = time.Second })
	w.plain("git.example", 22, "93.184.216.34", func(c *net.TCPConn) { _, _ = io.WriteString(c, "hi") })
	var held []*net.TCPConn
	for range 3 * maxDNSConns {
		held = append(held, w.connect(AddrDNS.Addr(), 53))
	}
	if text := w.ended(w.name("git.example", 22)); text != "hi" {
		t.Errorf(`ended: got %q, want "hi"`, text)
	}
	c := w.connect(AddrDNS.Addr(), 53)
	q := query("git.example.", dnsmessage.TypeA)
	if _, err := c.Write(append([]byte{0, byte(len(q))}, q...)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(c, make([]byte, 12)); err != nil {
		t.Error("DNS does not answer after the limit:", err)
	}
	for _, h := range held {
		w.ended(h)
	}
	w.expect(egress.ReasonBusy)
}

// A listener that fails for a while is used again; one that is closed ends.
func TestAcceptFails(t *testing.T) {
	checkLeaks(t)
	w := newWorld(t, allow("a.example:8001"))
	l := &failing{errs: []error{errors.New("too many open files"), errors.New("again"), net.ErrClosed}}
	w.g.accept(l, w.g.slots, func(*inboundConn) { t.Error("served") })
	if len(l.errs) > 0 {
		t.Error("the listener was given up")
	}
	w.expect(egress.ReasonSystem)
}

type failing struct {
	net.Listener
	errs []error
}

func (f *failing) Accept() (net.Conn, error) {
	err := f.errs[0]
	f.errs = f.errs[1:]
	return nil, err
}

// hangUp sends a request for a name to the HTTP proxy, waits until began says that the gateway
// connects for it, and hangs up.
func (w *world) hangUp(name string, began <-chan struct{}) {
	w.t.Helper()
	c := w.connect(AddrHTTP.Addr(), AddrHTTP.Port())
	defer c.Close()
	if _, err := fmt.Fprintf(c, "GET http://%s/ HTTP/1.1\r\nHost: %[1]s\r\n\r\n", name); err != nil {
		w.t.Fatal(err)
	}
	wait.Receive(w.t, "the gateway connects", began)
}

// What a gateway does to connect for a request ends when the client hangs up.
func TestAbandoned(t *testing.T) {
	checkLeaks(t)
	began, ended := make(chan struct{}, 9), make(chan struct{}, 9)
	p := allow("slow.example")
	p.Headers = []network.Header{{Name: "sealed.example", Header: "Authorization", File: filepath.Join(t.TempDir(), "token")}}
	if err := os.WriteFile(p.Headers[0].File, []byte(secret), 0o600); err != nil {
		t.Fatal(err)
	}
	var w *world
	w = newWorld(t, p, func(o *Options) {
		o.patience = time.Minute
		o.Dial = func(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
			if to.Port() == 443 {
				return w.dial(ctx, to)
			}
			began <- struct{}{}
			<-ctx.Done()
			ended <- struct{}{}
			return nil, ctx.Err()
		}
	})
	w.host("slow.example", 80, "", "93.184.216.34")
	w.plain("sealed.example", 443, "93.184.216.35", func(c *net.TCPConn) {
		if _, err := io.ReadFull(c, make([]byte, 5)); err != nil {
			return
		}
		began <- struct{}{}
		_, _ = io.Copy(io.Discard, c) // a handshake without an answer
		ended <- struct{}{}
	})
	for _, name := range []string{"slow.example", "sealed.example" + network.LocalSuffix} {
		w.hangUp(name, began)
		wait.Receive(t, "the end of the attempt to connect to "+name, ended)
	}
	w.quiet()
}

// Attempts to connect that continue without their client count as connections.
func TestAbandonedCount(t *testing.T) {
	checkLeaks(t)
	began := make(chan struct{}, 2*maxConns)
	held, release := context.WithCancel(t.Context())
	var dials atomic.Int64
	w := newWorld(t, allow("slow.example"), func(o *Options) {
		o.Dial = func(context.Context, netip.AddrPort) (net.Conn, error) {
			dials.Add(1)
			began <- struct{}{}
			<-held.Done()
			return nil, errors.New("no answer")
		}
	})
	t.Cleanup(release)
	w.host("slow.example", 80, "", "93.184.216.34")
	for range maxConns {
		w.hangUp("slow.example", began)
	}
	c := w.connect(AddrHTTP.Addr(), AddrHTTP.Port())
	if _, err := io.WriteString(c, "GET http://slow.example/ HTTP/1.1\r\nHost: slow.example\r\nConnection: close\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	w.expect(egress.ReasonBusy)
	if n := dials.Load(); n != maxConns {
		t.Errorf("%d attempts at once", n)
	}
	release()
	wait.Receive(t, "a slot is given back", began)
	w.ended(c)
}
