package gateway

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"wolffia/internal/host/egress"
	"wolffia/internal/test/leak"
	"wolffia/network"

	"golang.org/x/net/dns/dnsmessage"

	"wolffia/internal/test/wait"
)

// checkLeaks fails the test if it leaves something behind. The pipes of splice(2) stay in a
// pool until the garbage collector has found them.
func checkLeaks(t *testing.T) {
	leak.Check(t)
	t.Cleanup(func() {
		for range 4 {
			runtime.GC()
		}
	})
}

// A loop is the network of a sandbox, on the loopback of this machine: ports inside are other ones
// outside.
type loop struct {
	mu    sync.Mutex
	ports map[uint16]uint16 // real port by the one inside
	open  []io.Closer
	plain bool // connections as they are: LocalAddr has the real port
}

func (l *loop) real(inside uint16) uint16 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ports[inside]
}

func (l *loop) ListenTCP(ctx context.Context, at netip.AddrPort) (net.Listener, error) {
	port := uint16(0)
	switch {
	case l.plain && at.Addr().As4()[2] != 0: // of a name
		port = at.Port()
	case l.plain && at.Addr().IsUnspecified():
		port = at.Port()
	case !at.Addr().IsUnspecified():
		port = l.real(at.Port()) // the same at each address
	}
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp4", netip.AddrPortFrom(at.Addr(), port).String())
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ports[at.Port()] = addrPort(listener.Addr()).Port()
	l.open = append(l.open, listener)
	return &loopListener{listener, at.Port(), l.plain}, nil
}

func (l *loop) ListenUDP(ctx context.Context, at netip.AddrPort) (net.PacketConn, error) {
	var config net.ListenConfig
	socket, err := config.ListenPacket(ctx, "udp4", netip.AddrPortFrom(at.Addr(), 0).String())
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ports[0] = addrPort(socket.LocalAddr()).Port() // of UDP
	return socket, nil
}

func (l *loop) ListenUnix(context.Context, string) (net.Listener, error) {
	return nil, errors.ErrUnsupported
}

func (l *loop) DialTCP(context.Context, netip.AddrPort) (net.Conn, error) {
	return nil, errors.ErrUnsupported
}

func (l *loop) Close() error { return nil }

// A loopListener accepts connections from this machine's loopback, as from inside.
type loopListener struct {
	net.Listener
	port  uint16
	plain bool
}

func (l *loopListener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if !addrPort(c.RemoteAddr()).Addr().IsLoopback() {
			_ = c.Close()
			continue
		}
		if l.plain {
			return c, nil
		}
		return &loopConn{c.(*net.TCPConn), l.port}, nil
	}
}

// A loopConn has the port inside.
type loopConn struct {
	*net.TCPConn
	port uint16
}

func (c *loopConn) LocalAddr() net.Addr {
	return net.TCPAddrFromAddrPort(netip.AddrPortFrom(addrPort(c.TCPConn.LocalAddr()).Addr(), c.port))
}

// A world is a gateway with the hosts that it can reach.
type world struct {
	t   testing.TB
	g   *Gateway
	net *loop

	mu      sync.Mutex
	changed *sync.Cond
	hosts   map[string][]netip.Addr // what the host's resolver says
	looked  map[string]int
	servers map[netip.AddrPort]string // real address of a server
	dialled []netip.AddrPort
	events  []egress.Event
}

// newWorld starts a gateway. Its hosts have no addresses yet.
func newWorld(t testing.TB, p network.Policy, change ...func(*Options)) *world {
	t.Helper()
	w := &world{
		t: t, net: &loop{ports: map[uint16]uint16{}},
		hosts: map[string][]netip.Addr{}, looked: map[string]int{}, servers: map[netip.AddrPort]string{},
	}
	w.changed = sync.NewCond(&w.mu)
	c, err := p.Compile()
	if err != nil {
		t.Fatal(err)
	}
	o := Options{
		Config: egress.Config{Network: w.net, Policy: c, Event: w.event}, Lookup: w.resolve, Dial: w.dial,
		own: func() ([]netip.Addr, error) { return []netip.Addr{netip.MustParseAddr("9.9.9.1")}, nil },
	}
	for _, f := range change {
		f(&o)
	}
	if w.g, err = Start(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.g.Close(); err != nil {
			t.Error(err)
		}
	})
	return w
}

func (w *world) event(e egress.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events = append(w.events, e)
	w.changed.Broadcast()
}

func (w *world) resolve(_ context.Context, name string) ([]netip.Addr, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.looked[name]++
	return w.hosts[name], nil
}

func (w *world) dial(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
	w.mu.Lock()
	w.dialled = append(w.dialled, to)
	real := w.servers[to]
	w.mu.Unlock()
	if real == "" {
		return nil, fmt.Errorf("no server at %s", to)
	}
	return new(net.Dialer).DialContext(ctx, "tcp", real)
}

// host lets a name have addresses, in order; the server, if any, is at the last one.
func (w *world) host(name string, port uint16, server string, addrs ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []netip.Addr
	for _, a := range addrs {
		all = append(all, netip.MustParseAddr(a))
	}
	w.hosts[name] = all
	if server != "" {
		w.servers[netip.AddrPortFrom(all[len(all)-1].Unmap(), port)] = server
	}
}

// expect waits for an event with a reason, and returns it.
func (w *world) expect(reason string) egress.Event {
	w.t.Helper()
	guard := time.AfterFunc(wait.Limit, w.changed.Broadcast)
	defer guard.Stop()
	end := time.Now().Add(wait.Limit)
	w.mu.Lock()
	defer w.mu.Unlock()
	for {
		for _, e := range w.events {
			if e.Reason == reason {
				return e
			}
		}
		if !time.Now().Before(end) {
			w.t.Fatalf("no event %q; have %+v", reason, w.events)
		}
		w.changed.Wait()
	}
}

// quiet fails the test if there was an event.
func (w *world) quiet() {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range w.events {
		w.t.Errorf("event %+v", e)
	}
}

// undialled fails the test if the gateway has connected to anything.
func (w *world) undialled() {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, to := range w.dialled {
		w.t.Errorf("the gateway connected to %s", to)
	}
}

// ask sends a query to the gateway's DNS over UDP.
func (w *world) ask(name string, kind dnsmessage.Type) (dnsmessage.RCode, netip.Addr) {
	w.t.Helper()
	c, err := net.Dial("udp4", netip.AddrPortFrom(AddrDNS.Addr(), w.net.real(0)).String())
	if err != nil {
		w.t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(wait.Limit))
	if _, err := c.Write(query(name, kind)); err != nil {
		w.t.Fatal(err)
	}
	buf := make([]byte, 512)
	n, err := c.Read(buf)
	if err != nil {
		w.t.Fatal(err)
	}
	return parseAnswer(w.t, buf[:n])
}

func query(name string, kind dnsmessage.Type) []byte {
	m := dnsmessage.Message{
		Header: dnsmessage.Header{ID: 7, RecursionDesired: true},
		Questions: []dnsmessage.Question{{
			Name: dnsmessage.MustNewName(name), Type: kind, Class: dnsmessage.ClassINET,
		}},
	}
	b, err := m.Pack()
	if err != nil {
		panic(err)
	}
	return b
}

func parseAnswer(t testing.TB, b []byte) (dnsmessage.RCode, netip.Addr) {
	t.Helper()
	var m dnsmessage.Message
	if err := m.Unpack(b); err != nil || !m.Response || m.ID != 7 || len(m.Answers) > 1 {
		t.Fatalf("Unpack: got err %v, m %+v; want err == nil and m.Response and m.ID == 7 and len(m.Answers) <= 1", err, m)
	}
	if len(m.Answers) == 0 {
		return m.RCode, netip.Addr{}
	}
	return m.RCode, netip.AddrFrom4(m.Answers[0].Body.(*dnsmessage.AResource).A)
}

// address looks a name up, which must be allowed.
func (w *world) address(name string) netip.Addr {
	w.t.Helper()
	code, addr := w.ask(name+".", dnsmessage.TypeA)
	if code != dnsmessage.RCodeSuccess || !addr.IsValid() {
		w.t.Fatalf("%s: got code %v, addr %v; want code == dnsmessage.RCodeSuccess and addr.IsValid()", name, code, addr)
	}
	return addr
}

// connect connects to a port of an address inside.
func (w *world) connect(addr netip.Addr, port uint16) *net.TCPConn {
	w.t.Helper()
	c, err := net.DialTimeout("tcp4", netip.AddrPortFrom(addr, w.net.real(port)).String(), wait.Limit)
	if errors.Is(err, syscall.ECONNRESET) {
		return &net.TCPConn{} // it was refused before the kernel had said that it is made
	}
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(wait.Limit))
	return c.(*net.TCPConn)
}

// name connects to a port of a name, as a program without proxies.
func (w *world) name(name string, port uint16) *net.TCPConn {
	w.t.Helper()
	return w.connect(w.address(name), port)
}

// ended waits until the other side ends a connection, and returns what it sent.
func (w *world) ended(c net.Conn) string {
	w.t.Helper()
	text, err := io.ReadAll(c)
	if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() {
		w.t.Fatal("the connection was not ended")
	}
	return string(text)
}

// site is a TLS server for a name. It answers each request with its name and the request's.
func (w *world) site(name, addr string) *x509.CertPool {
	w.t.Helper()
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(rw, name+" "+r.Host)
	}))
	s.Config.ErrorLog = log.New(io.Discard, "", 0) // attacks leave handshakes half done
	s.StartTLS()
	w.t.Cleanup(s.Close)
	w.host(name, 443, s.Listener.Addr().String(), addr)
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	return roots
}

// page is an HTTP server for a name on port 80.
func (w *world) page(name, addr string, h http.HandlerFunc) {
	w.t.Helper()
	if h == nil {
		h = func(rw http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(rw, name+" "+r.Host) }
	}
	s := httptest.NewServer(h)
	w.t.Cleanup(s.Close)
	w.host(name, 80, s.Listener.Addr().String(), addr)
}

// plain is a TCP server for a name, which serves each connection by a function.
func (w *world) plain(name string, port uint16, addr string, serve func(*net.TCPConn)) {
	w.t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		w.t.Fatal(err)
	}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_ = c.SetDeadline(time.Now().Add(3 * wait.Limit)) // its end must not look like the gateway's doing
			running.Go(func() {
				defer c.Close()
				serve(c.(*net.TCPConn))
			})
		}
	})
	w.t.Cleanup(func() {
		_ = l.Close()
		running.Wait()
	})
	w.host(name, port, l.Addr().String(), addr)
}

// hello returns a ClientHello.
func hello(t testing.TB, config *tls.Config) []byte {
	t.Helper()
	client, server := net.Pipe()
	defer server.Close()
	go func() {
		_ = tls.Client(client, config).Handshake()
		_ = client.Close()
	}()
	head := make([]byte, 5)
	if _, err := io.ReadFull(server, head); err != nil {
		t.Fatal(err)
	}
	body := make([]byte, int(head[3])<<8|int(head[4]))
	if _, err := io.ReadFull(server, body); err != nil {
		t.Fatal(err)
	}
	return append(head, body...)
}

// request writes an HTTP request, and returns status and body of the response.
func request(t testing.TB, c net.Conn, r *bufio.Reader, text string) (int, string) {
	t.Helper()
	if _, err := io.WriteString(c, strings.ReplaceAll(text, "\n", "\r\n")); err != nil {
		t.Fatal(err)
	}
	method, _, _ := strings.Cut(text, " ")
	resp, err := http.ReadResponse(r, &http.Request{Method: method})
	if err != nil {
		t.Fatal(err)
	}
	if method == http.MethodConnect && resp.StatusCode == http.StatusOK || resp.StatusCode == http.StatusSwitchingProtocols {
		return resp.StatusCode, "" // what follows is no body
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}
