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
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"wolffia/internal/host/egress"
	"wolffia/network"

	"golang.org/x/net/dns/dnsmessage"

	"wolffia/internal/test/wait"
)

func allow(rules ...string) network.Policy { return network.Policy{Allow: rules} }

func TestDNS(t *testing.T) {
	checkLeaks(t)
	w := newWorld(t, allow("a.example", "b.example", "*.wild.example"))
	first := netip.MustParseAddr("127.64.1.0")
	for _, row := range []struct {
		name string
		kind dnsmessage.Type
		code dnsmessage.RCode
		addr netip.Addr
	}{
		{"a.example.", dnsmessage.TypeA, 0, first},
		{"A.EXAMPLE.", dnsmessage.TypeA, 0, first},
		{"b.example.", dnsmessage.TypeA, 0, first.Next()},
		{"x.wild.example.", dnsmessage.TypeA, 0, first.Next().Next()},
		{"a.example.", dnsmessage.TypeA, 0, first},
		{"a.example.", dnsmessage.TypeAAAA, 0, netip.Addr{}},
		{"a.example.", typeHTTPS, 0, netip.Addr{}},
		{"a.example.", typeSVCB, 0, netip.Addr{}},
		{"a.example.", dnsmessage.TypeMX, dnsmessage.RCodeRefused, netip.Addr{}},
		{"a.example.", dnsmessage.TypeTXT, dnsmessage.RCodeRefused, netip.Addr{}},
		{"a.example.", dnsmessage.TypeALL, dnsmessage.RCodeRefused, netip.Addr{}},
		{"localhost.", dnsmessage.TypeA, 0, netip.MustParseAddr("127.0.0.1")},
	} {
		code, addr := w.ask(row.name, row.kind)
		if code != row.code || addr != row.addr {
			t.Errorf("%s %v: %v, %v; want %v, %v", row.name, row.kind, code, addr, row.code, row.addr)
		}
	}
	w.quiet()
	if code, addr := w.ask("other.example.", dnsmessage.TypeTXT); code != dnsmessage.RCodeNameError || addr.IsValid() {
		t.Errorf("a name that no rule has: %v, %v", code, addr)
	}
	e := w.expect(egress.ReasonName)
	if e.Op != egress.OpLookup || e.Name != "other.example" || e.Remedy != "--allow-host other.example" || e.Time.IsZero() {
		t.Errorf("event %+v", e)
	}
	if len(w.looked) > 0 {
		t.Errorf("the host looked up %v", w.looked)
	}

	c := w.connect(AddrDNS.Addr(), 53) // over TCP, twice
	for range 2 {
		q := query("a.example.", dnsmessage.TypeA)
		if _, err := c.Write(append([]byte{0, byte(len(q))}, q...)); err != nil {
			t.Fatal(err)
		}
		size := make([]byte, 2)
		if _, err := io.ReadFull(c, size); err != nil {
			t.Fatal(err)
		}
		b := make([]byte, size[1])
		if _, err := io.ReadFull(c, b); err != nil {
			t.Fatal(err)
		}
		if code, addr := parseAnswer(t, b); code != 0 || addr != first {
			t.Errorf("over TCP: %v, %v", code, addr)
		}
	}
}

// dialer returns how a program inside connects: by DNS and the name's address.
func (w *world) dialer() func(context.Context, string, string) (net.Conn, error) {
	return func(_ context.Context, _, at string) (net.Conn, error) {
		host, port, _ := net.SplitHostPort(at)
		var n uint16
		_, _ = fmt.Sscan(port, &n)
		return w.name(host, n), nil
	}
}

// serviceURL is the URL of a proxy inside.
func (w *world) serviceURL(scheme string, at netip.AddrPort) func(*http.Request) (*url.URL, error) {
	return http.ProxyURL(&url.URL{Scheme: scheme, Host: netip.AddrPortFrom(at.Addr(), w.net.real(at.Port())).String()})
}

// clients are the ways by which an HTTP client gets out.
func (w *world) clients(roots *x509.CertPool) map[string]*http.Client {
	config := &tls.Config{RootCAs: roots, ServerName: ""}
	return map[string]*http.Client{
		"address": {Transport: &http.Transport{DialContext: w.dialer(), TLSClientConfig: config, DisableKeepAlives: true}},
		"http":    {Transport: &http.Transport{Proxy: w.serviceURL("http", AddrHTTP), TLSClientConfig: config, DisableKeepAlives: true}},
		"socks5":  {Transport: &http.Transport{Proxy: w.serviceURL("socks5h", AddrSOCKS), TLSClientConfig: config, DisableKeepAlives: true}},
	}
}

// The same requests, by each way.
func TestWays(t *testing.T) {
	checkLeaks(t)
	w := newWorld(t, allow("example.com", "page.example", "dev.example:8080"))
	roots := w.site("example.com", "93.184.216.34") // httptest's certificate has this name
	w.page("page.example", "93.184.216.35", nil)
	w.page("dev.example", "93.184.216.36", nil)
	w.mu.Lock()
	w.servers[netip.MustParseAddrPort("93.184.216.36:8080")] = w.servers[netip.MustParseAddrPort("93.184.216.36:80")]
	w.mu.Unlock()
	for mode, client := range w.clients(roots) {
		for url, want := range map[string]string{
			"https://example.com/":      "example.com example.com",
			"http://page.example/x?a;b": "page.example page.example",
			"http://dev.example:8080/":  "dev.example dev.example:8080",
		} {
			resp, err := client.Get(url)
			if err != nil {
				t.Errorf("%s: %v", mode, err)
				continue
			}
			body, err := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			if err != nil || string(body) != want {
				t.Errorf("%s: %s: got %q, %v; want %q, nil", mode, url, body, err, want)
			}
		}
	}
	w.quiet()
}

// Handshakes of each kind pass: with a second ClientHello, of TLS 1.2, and of TLS on other ports.
func TestTLS(t *testing.T) {
	checkLeaks(t)
	for name, change := range map[string]func(client, server *tls.Config){
		"TLS 1.3": func(_, _ *tls.Config) {},
		"TLS 1.2": func(c, _ *tls.Config) { c.MaxVersion = tls.VersionTLS12 },
		"second ClientHello": func(c, s *tls.Config) {
			c.CurvePreferences, s.CurvePreferences = []tls.CurveID{tls.X25519, tls.CurveP521}, []tls.CurveID{tls.CurveP521}
		},
	} {
		for _, port := range []uint16{443, 8443} {
			t.Run(fmt.Sprintf("%s, port %d", name, port), func(t *testing.T) {
				w := newWorld(t, allow("example.com:443,8443"))
				client, server := &tls.Config{ServerName: "example.com"}, &tls.Config{}
				s := httptest.NewUnstartedServer(nil)
				change(client, server)
				s.TLS = server
				s.Config.ErrorLog = log.New(io.Discard, "", 0) // the client ends at once
				s.StartTLS()
				defer s.Close()
				client.RootCAs = x509.NewCertPool()
				client.RootCAs.AddCert(s.Certificate())
				w.host("example.com", port, s.Listener.Addr().String(), "93.184.216.34")
				c := tls.Client(w.name("example.com", port), client)
				if err := c.Handshake(); err != nil {
					t.Fatal(err)
				}
				again := c.ConnectionState().HelloRetryRequest
				if want := name == "second ClientHello"; again != want {
					t.Errorf("a second ClientHello: %t, want %t", again, want)
				}
				_ = c.Close()
				w.quiet()
			})
		}
	}
}

// Data passes both ways, and so does the end of each direction, also if the server speaks first.
func TestHalfClose(t *testing.T) {
	checkLeaks(t)
	w := newWorld(t, allow("git.example:22"))
	w.plain("git.example", 22, "93.184.216.34", func(c *net.TCPConn) {
		_, _ = io.WriteString(c, "banner\n")
		all, _ := io.ReadAll(c)
		_, _ = fmt.Fprintf(c, "got %d", len(all))
	})
	c := w.name("git.example", 22)
	r := bufio.NewReader(c)
	if line, err := r.ReadString('\n'); err != nil || line != "banner\n" {
		t.Fatal(line, err)
	}
	if _, err := c.Write(make([]byte, 3<<20)); err != nil {
		t.Fatal(err)
	}
	if err := c.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if rest, err := io.ReadAll(r); err != nil || string(rest) != fmt.Sprintf("got %d", 3<<20) {
		t.Errorf("io.ReadAll: got %q, %v; want fmt.Sprintf(%q, 3<<20), nil", rest, err, "got %d")
	}
	w.quiet()
}

// A connection that one end resets is reset at the other: what was sent is not all.
func TestResets(t *testing.T) {
	checkLeaks(t)
	w := newWorld(t, allow("git.example:22", "page.example"))
	reset := func(c *net.TCPConn) { _, _ = c.SetLinger(0), c.Close() }
	next := make(chan struct{})
	seen := make(chan error, 1)
	w.plain("git.example", 22, "93.184.216.34", func(c *net.TCPConn) {
		_, _ = io.WriteString(c, "banner\n")
		r := bufio.NewReader(c)
		if line, _ := r.ReadString('\n'); line == "reset\n" {
			reset(c)
			return
		}
		next <- struct{}{}
		_, err := r.ReadByte()
		seen <- err
	})
	w.plain("page.example", 80, "93.184.216.35", func(c *net.TCPConn) {
		_, _ = http.ReadRequest(bufio.NewReader(c))
		_, _ = io.WriteString(c, "HTTP/1.0 200 OK\r\n\r\nrow\n")
		<-next
		reset(c)
	})
	c := w.name("git.example", 22)
	r := bufio.NewReader(c)
	if line, err := r.ReadString('\n'); err != nil || line != "banner\n" {
		t.Fatal(line, err)
	}
	_, _ = io.WriteString(c, "reset\n")
	if _, err := r.ReadByte(); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the server has reset its connection: %v", err)
	}
	c = w.name("git.example", 22)
	_, _ = io.WriteString(c, "wait\n")
	<-next
	reset(c)
	if err := <-seen; !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the client has reset its connection: %v", err)
	}
	c = w.name("page.example", 80)
	_, _ = io.WriteString(c, "GET / HTTP/1.0\r\nHost: page.example\r\n\r\n")
	r = bufio.NewReader(c)
	for line := ""; line != "row\n"; {
		var err error
		if line, err = r.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
	}
	next <- struct{}{}
	if _, err := r.ReadByte(); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the HTTP server has reset its connection: %v", err)
	}
	w.quiet()
}

// A server that ends its direction first still receives.
func TestServerHalfCloses(t *testing.T) {
	checkLeaks(t)
	w := newWorld(t, allow("git.example:22"))
	got := make(chan string, 1)
	w.plain("git.example", 22, "93.184.216.34", func(c *net.TCPConn) {
		_, _ = io.WriteString(c, "all")
		_ = c.CloseWrite()
		text, _ := io.ReadAll(c)
		got <- string(text)
	})
	c := w.name("git.example", 22)
	if text := w.ended(c); text != "all" {
		t.Errorf(`ended: got %q, want "all"`, text)
	}
	if _, err := io.WriteString(c, "more"); err != nil {
		t.Fatal(err)
	}
	_ = c.CloseWrite()
	if text := wait.Receive(t, "the end at the server", got); text != "more" {
		t.Errorf("the server has read %q, want %q", text, "more")
	}
}

// Several requests on one connection, bodies of unknown length, and an upgrade.
func TestWeb(t *testing.T) {
	checkLeaks(t)
	w := newWorld(t, allow("page.example"))
	w.page("page.example", "93.184.216.34", func(rw http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") == "websocket" {
			c, buf, err := http.NewResponseController(rw).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
			line, _ := buf.ReadString('\n')
			_, _ = io.WriteString(c, line)
			return
		}
		body, _ := io.ReadAll(r.Body)
		_, _ = fmt.Fprintf(rw, "%s %s %d %q", r.Method, r.RequestURI, len(body), r.Header["User-Agent"])
	})
	c := w.name("page.example", 80)
	r := bufio.NewReader(c)
	for _, row := range []struct{ text, want string }{
		{"GET /a%2Fb?x=1;2&y HTTP/1.1\nHost: page.example\n\n", `GET /a%2Fb?x=1;2&y 0 []`},
		{"GET / HTTP/1.1\nHost: PAGE.example.:80\nUser-Agent: u\n\n", `GET / 0 ["u"]`},
		{"POST /p HTTP/1.1\nHost: page.example\nContent-Length: 3\n\nabc", `POST /p 3 []`},
		{"PUT /p HTTP/1.1\nHost: page.example\nTransfer-Encoding: chunked\n\n3\nabc\n0\n\n", `PUT /p 3 []`},
		{"GET http://page.example/abs HTTP/1.1\nHost: page.example\n\n", `GET /abs 0 []`},
	} {
		if status, body := request(t, c, r, row.text); status != 200 || body != row.want {
			t.Errorf("%q: got %d, %q; want 200, %q", row.text, status, body, row.want)
		}
	}
	if status, _ := request(t, c, r, "GET /ws HTTP/1.1\nHost: page.example\nConnection: Upgrade\nUpgrade: websocket\n\n"); status != 101 {
		t.Fatal("status", status)
	}
	if _, err := io.WriteString(c, "hello\n"); err != nil {
		t.Fatal(err)
	}
	if line, err := r.ReadString('\n'); line != "hello\n" {
		t.Errorf("ReadString: got line %q, err %v; want line == %q", line, err, "hello\n")
	}
	w.quiet()
}

// A connection to port 80 changes to WebSocket only: with HTTP/2 (h2c) the requests that follow
// could be for other hosts.
func TestUpgradeRefused(t *testing.T) {
	checkLeaks(t)
	w := newWorld(t, allow("page.example"))
	w.page("page.example", "93.184.216.34", func(rw http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") == "" && r.URL.Path != "/unasked" {
			_, _ = fmt.Fprintf(rw, "%q", r.Header["Connection"])
			return
		}
		rw.Header().Set("Connection", "Upgrade")
		if protocol := r.Header.Get("Upgrade"); protocol != "" {
			rw.Header().Set("Upgrade", protocol)
		}
		rw.WriteHeader(http.StatusSwitchingProtocols)
	})
	for text, want := range map[string]int{
		"GET / HTTP/1.1\nHost: page.example\nConnection: Upgrade, HTTP2-Settings\nUpgrade: h2c\nHTTP2-Settings: AAMAAABk\n\n": 200,
		"GET / HTTP/1.1\nHost: page.example\nConnection: Upgrade\nUpgrade: websocket, h2c\n\n":                                200,
		"GET / HTTP/1.1\nHost: page.example\nConnection: Upgrade\nUpgrade: h2c\nUpgrade: websocket\n\n":                       200,
		"GET /unasked HTTP/1.1\nHost: page.example\n\n":                                                                       502,
	} {
		c := w.name("page.example", 80)
		if status, body := request(t, c, bufio.NewReader(c), text); status != want || want == 200 && body != "[]" {
			t.Errorf(`%q: got status %d, body %q; want status == %d and (want != 200 or body == "[]")`, text, status, body, want)
		}
	}
	w.quiet()
}

// A reply may begin before the request has ended.
func TestReplyBeforeRequestEnds(t *testing.T) {
	checkLeaks(t)
	w := newWorld(t, allow("page.example"))
	w.page("page.example", "93.184.216.34", func(rw http.ResponseWriter, r *http.Request) {
		control := http.NewResponseController(rw)
		if err := control.EnableFullDuplex(); err != nil {
			t.Error(err)
		}
		half := make([]byte, 4)
		for range 2 {
			_, err := io.ReadFull(r.Body, half)
			_, werr := rw.Write(half)
			if err = errors.Join(err, werr, control.Flush()); err != nil {
				t.Error(err)
			}
		}
	})
	c := w.name("page.example", 80)
	if _, err := io.WriteString(c, "POST / HTTP/1.1\r\nHost: page.example\r\nContent-Length: 8\r\n\r\none "); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	for i, want := range []string{"one ", "two "} {
		if i == 1 {
			if _, err := io.WriteString(c, want); err != nil {
				t.Fatal(err)
			}
		}
		got := make([]byte, len(want))
		if _, err := io.ReadFull(resp.Body, got); err != nil || string(got) != want {
			t.Fatalf("half %d of the reply: %q, %v", i, got, err)
		}
	}
	w.quiet()
}

// A name is looked up by the host once for each connection, and connected to at the address that
// was checked.
func TestLookupOncePerConnection(t *testing.T) {
	checkLeaks(t)
	w := newWorld(t, allow("git.example:22"))
	w.plain("git.example", 22, "93.184.216.34", func(c *net.TCPConn) { _, _ = io.WriteString(c, "hi") })
	for n := 1; n <= 2; n++ {
		if text := w.ended(w.name("git.example", 22)); text != "hi" {
			t.Errorf(`ended: got %q, want "hi"`, text)
		}
		w.mu.Lock()
		if w.looked["git.example"] != n || len(w.dialled) != n {
			t.Errorf("%d connections: %d lookups, dialled %v", n, w.looked["git.example"], w.dialled)
		}
		w.mu.Unlock()
	}
}

// The next address is tried if one does not answer; forbidden ones are not tried.
func TestSeveralAddresses(t *testing.T) {
	checkLeaks(t)
	w := newWorld(t, allow("git.example:22"))
	w.plain("git.example", 22, "93.184.216.34", func(c *net.TCPConn) { _, _ = io.WriteString(c, "hi") })
	w.host("git.example", 22, "", "127.0.0.1", "2606:2800::1", "10.0.0.1", "93.184.216.34")
	if text := w.ended(w.name("git.example", 22)); text != "hi" {
		t.Errorf(`ended: got %q, want "hi"`, text)
	}
	if e := w.expect(fmt.Sprintf(egress.ReasonForbidden, "private")); e.Address != "10.0.0.1" || e.Remedy != "--allow-host git.example:22@private" {
		t.Errorf("event %+v", e)
	}
	w.expect(fmt.Sprintf(egress.ReasonForbidden, "loopback"))
	if len(w.dialled) != 2 || w.dialled[0].Addr().Is4() {
		t.Errorf("dialled %v", w.dialled)
	}
}

// A name that may lead to private addresses leads to these, and to no others that are not public.
func TestPrivateAddresses(t *testing.T) {
	checkLeaks(t)
	p := allow("git.example:22", "*.corp.example:22", "@npm")
	p.Private = []string{"git.example", "*.corp.example", "@npm"}
	w := newWorld(t, p)
	for _, name := range []string{"git.example", "a.corp.example"} {
		w.plain(name, 22, "10.0.0.1", func(c *net.TCPConn) { _, _ = io.WriteString(c, "hi") })
		w.host(name, 22, "", "127.0.0.1", "169.254.169.254", "10.0.0.1")
		if text := w.ended(w.name(name, 22)); text != "hi" {
			t.Errorf(`%s: got %q, want "hi"`, name, text)
		}
		w.expect(fmt.Sprintf(egress.ReasonForbidden, "loopback"))
		w.expect(fmt.Sprintf(egress.ReasonForbidden, "metadata"))
	}
	if len(w.dialled) != 2 {
		t.Errorf("dialled %v", w.dialled)
	}
	c, err := p.Compile()
	if err != nil || !c.Private("registry.npmjs.org") || c.Private("corp.example") || c.Private("example") {
		t.Errorf("names with private addresses: %v", err)
	}
}

// An address that does not answer delays the next one only; what it answers later is closed.
func TestSilentAddress(t *testing.T) {
	checkLeaks(t)
	late := make(chan struct{})
	w := newWorld(t, allow("git.example:22"), func(o *Options) {
		dial := o.Dial
		o.Dial = func(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
			if to.Addr().Is6() {
				<-ctx.Done() // the other one has won
				defer close(late)
				to = netip.AddrPortFrom(netip.MustParseAddr("93.184.216.34"), to.Port())
				return dial(context.Background(), to)
			}
			return dial(ctx, to)
		}
	})
	w.plain("git.example", 22, "93.184.216.34", func(c *net.TCPConn) { _, _ = io.WriteString(c, "hi") })
	w.host("git.example", 22, "", "2606:2800::1", "93.184.216.34")
	if text := w.ended(w.name("git.example", 22)); text != "hi" {
		t.Errorf(`ended: got %q, want "hi"`, text)
	}
	wait.Receive(t, "the end of the silent attempt", late)
	w.quiet()
}

// Events name the process, if the network knows it.
func TestProcess(t *testing.T) {
	checkLeaks(t)
	w := newWorld(t, allow("git.example:22"), func(o *Options) {
		o.Process = func(local, remote netip.AddrPort) (int, string) {
			if !local.IsValid() || local.Port() == 0 || !remote.Addr().IsLoopback() {
				t.Errorf("ends %s, %s", local, remote)
			}
			return int(remote.Port()), "program"
		}
	})
	w.refusedName("evil.example.")
	if e := w.expect(egress.ReasonName); e.PID != 53 || e.Program != "program" {
		t.Errorf("event %+v", e)
	}
	w.address("git.example")
	w.ended(w.connect(netip.MustParseAddr("127.64.9.9"), 22))
	if e := w.expect(egress.ReasonAddress); e.PID != 22 || e.Address != "127.64.9.9" || e.Port != 22 || e.Remedy != "" {
		t.Errorf("event %+v", e)
	}
}

// While the process of a refused lookup is searched for, other names are answered. Searches are
// made one at a time.
func TestProcessSearch(t *testing.T) {
	checkLeaks(t)
	searching, found := make(chan struct{}, 9), make(chan struct{})
	var at atomic.Int64
	w := newWorld(t, allow("good.example"), func(o *Options) {
		o.Process = func(netip.AddrPort, netip.AddrPort) (int, string) {
			if at.Add(1) > 1 {
				t.Error("two searches at a time")
			}
			defer at.Add(-1)
			searching <- struct{}{}
			<-found
			return 1, "program"
		}
	})
	end := sync.OnceFunc(func() { close(found) })
	t.Cleanup(end)
	c, err := net.Dial("udp4", netip.AddrPortFrom(AddrDNS.Addr(), w.net.real(0)).String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(wait.Limit))
	for range 2 {
		if _, err := c.Write(query("evil.example.", dnsmessage.TypeA)); err != nil {
			t.Fatal(err)
		}
	}
	wait.Receive(t, "a process is searched for", searching)
	w.address("good.example")
	end()
	for range 2 {
		buf := make([]byte, 512)
		n, err := c.Read(buf)
		if err != nil {
			t.Fatal(err)
		}
		if code, _ := parseAnswer(t, buf[:n]); code != dnsmessage.RCodeNameError {
			t.Error(code)
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.events) != 2 || w.events[0].Program != "program" || w.events[1].Program != "program" {
		t.Errorf(`newWorld: got w.events %+v; want len(w.events) == 2 and w.events[0].Program == "program" and w.events[1].Program == "program"`,
			w.events)
	}
}

// An address of the policy needs no lookup and is not checked.
func TestAddHost(t *testing.T) {
	checkLeaks(t)
	w := newWorld(t, network.Policy{Allow: []string{"db.example:5432"}, Hosts: map[string]string{"db.example": "127.0.0.1"}})
	w.plain("db.example", 5432, "127.0.0.1", func(c *net.TCPConn) { _, _ = io.WriteString(c, "hi") })
	if text := w.ended(w.name("db.example", 5432)); text != "hi" {
		t.Errorf(`ended: got %q, want "hi"`, text)
	}
	if len(w.looked) > 0 {
		t.Errorf("the host looked up %v", w.looked)
	}
	w.quiet()
}

func (w *world) set(p network.Policy) {
	w.t.Helper()
	c, err := p.Compile()
	if err != nil {
		w.t.Fatal(err)
	}
	if err := w.g.SetPolicy(c); err != nil {
		w.t.Fatal(err)
	}
}

// A new policy holds at once: for names, for ports, and for connections that exist.
// The hosts that were reached are remembered, each once, and not without end.
func TestReached(t *testing.T) {
	g := &Gateway{ctx: t.Context(), outbound: map[*outboundConn]struct{}{}, reached: map[target]struct{}{}}
	compiled, err := (&network.Policy{Allow: []string{"*.example"}}).Compile()
	if err != nil {
		t.Fatal(err)
	}
	g.policy.Store(compiled)
	g.register(&outboundConn{g: g, to: target{name: "c.other", port: 443}}) // not allowed any more
	for _, name := range []string{"b.example", "a.example", "b.example"} {
		g.register(&outboundConn{g: g, to: target{name: name, port: 443}})
	}
	if got, want := g.Reached(), []string{"a.example:443", "b.example:443"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	for i := range 2 * maxReached {
		g.register(&outboundConn{g: g, to: target{name: fmt.Sprintf("%d.example", i), port: 443}})
	}
	if got := len(g.Reached()); got != maxReached {
		t.Errorf("%d hosts, want %d", got, maxReached)
	}
}

func TestSetPolicy(t *testing.T) {
	checkLeaks(t)
	w := newWorld(t, allow("git.example:22", "stays.example:22"))
	echo := func(c *net.TCPConn) { _, _ = io.Copy(c, c) }
	w.plain("git.example", 22, "93.184.216.34", echo)
	w.plain("stays.example", 22, "93.184.216.35", echo)
	gone, stays := w.name("git.example", 22), w.name("stays.example", 22)
	say := func(c net.Conn, word string) {
		t.Helper()
		b := make([]byte, len(word))
		if _, err := io.WriteString(c, word); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(c, b); err != nil || string(b) != word {
			t.Fatal(string(b), err)
		}
	}
	say(gone, "one")
	say(stays, "one")
	addr := w.address("git.example")
	w.set(allow("stays.example:22,8022"))
	w.ended(gone)
	say(stays, "two")
	if code, _ := w.ask("git.example.", dnsmessage.TypeA); code != dnsmessage.RCodeNameError {
		t.Error("the name is still known:", code)
	}
	w.ended(w.connect(addr, 22))
	w.expect(egress.ReasonName)
	if e := (&inboundConn{g: w.g}).permit(t.Context(), target{"git.example", 22}); e != egress.ReasonName {
		t.Error(e)
	}
	w.ended(w.connect(w.address("stays.example"), 8022))
	w.expect(egress.ReasonUnreached)
	w.set(allow("git.example:22"))
	w.ended(stays)
	if w.address("git.example") != addr {
		t.Error("the name has another address")
	}
	say(w.name("git.example", 22), "three")
	if c, err := net.DialTimeout("tcp4", netip.AddrPortFrom(addr, w.net.real(8022)).String(), wait.Limit); err == nil {
		_ = c.Close()
		t.Error("port 8022 is still open")
	}
	if err := w.g.SetPolicy(nil); err != nil || w.g.policy.Load().Known("git.example") {
		t.Error("the absent policy:", err)
	}
	w.set(allow("git.example:22"))
	moved := w.name("git.example", 22)
	say(moved, "four")
	w.set(network.Policy{Allow: []string{"git.example:22"}, Hosts: map[string]string{"git.example": "10.0.0.7"}})
	w.ended(moved) // the name is at another address now
	w.ended(w.name("git.example", 22))
}

// A policy that learns allows public names, and reports what no rule allows.
func TestLearn(t *testing.T) {
	checkLeaks(t)
	w := newWorld(t, network.Policy{Allow: []string{"git.example:22"}, Learn: true})
	w.plain("new.example", 22, "93.184.216.34", func(c *net.TCPConn) { _, _ = io.WriteString(c, "hi") })
	if text := w.ended(w.name("new.example", 22)); text != "hi" {
		t.Errorf(`ended: got %q, want "hi"`, text)
	}
	if e := w.expect(egress.ReasonLearned); e.Remedy != "--allow-host new.example:22" || e.Port != 22 {
		t.Errorf("event %+v", e)
	}
	w.host("private.example", 22, "", "10.0.0.1")
	w.ended(w.name("private.example", 22))
	w.expect(fmt.Sprintf(egress.ReasonForbidden, "private"))
}

// A program inside can listen at its loopback on a port that a rule has, and at all addresses until
// the name is looked up: then connections to the name are not made, which is said.
func TestPortTaken(t *testing.T) {
	checkLeaks(t)
	w := newWorld(t, allow("a.example:443"))
	w.net.plain = true
	own, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := addrPort(own.Addr()).Port()
	change := func() {
		t.Helper()
		c, err := (&network.Policy{Allow: []string{fmt.Sprintf("b.example:%d", port)}}).Compile()
		if err != nil {
			t.Fatal(err)
		}
		if err := w.g.SetPolicy(c); err != nil {
			t.Fatal(err)
		}
	}
	change()
	at := netip.AddrPortFrom(w.address("b.example"), port)
	if !w.listens(at) {
		t.Error("no listener beside a server at 127.0.0.1")
	}
	w.quiet()
	_ = own.Close()

	if _, err := net.Listen("tcp4", fmt.Sprintf("0.0.0.0:%d", port)); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("at all addresses, beside the name's: %v", err)
	}
	if err := w.g.SetPolicy(nil); err != nil { // closes the listener
		t.Fatal(err)
	}
	all, err := net.Listen("tcp4", fmt.Sprintf("0.0.0.0:%d", port))
	if err != nil {
		t.Fatal(err)
	}
	defer all.Close()
	change()
	w.address("b.example")
	if e := w.expect(egress.ReasonTaken); e.Name != "b.example" || e.Port != int(port) {
		t.Errorf("event %+v", e)
	}
	_ = all.Close()
	w.address("b.example") // tries again
	if !w.listens(at) {
		t.Error("no listener although the server has ended")
	}
}

// listens reports whether a name's address has a listener.
func (w *world) listens(at netip.AddrPort) bool {
	w.t.Helper()
	w.g.change.Lock()
	defer w.g.change.Unlock()
	if n := len(w.g.nameListeners.order); n > maxNameListeners || n != len(w.g.nameListeners.by) {
		w.t.Fatalf("%d listeners", n)
	}
	return w.g.nameListeners.by[at] != nil
}

// There is a limit to the listeners of names: the oldest are closed, and opened by the next lookup.
func TestManyDoors(t *testing.T) {
	checkLeaks(t)
	w := newWorld(t, allow("*.a.example:2000-2099"))
	at := func(i int) netip.AddrPort {
		return netip.AddrPortFrom(w.address(fmt.Sprintf("n%d.a.example", i)), 2000)
	}
	first := at(0)
	for i := range 20 {
		if last := at(i); !w.listens(last) {
			t.Errorf("no listener at %s", last)
		}
	}
	if w.listens(first) {
		t.Error("the first is open still")
	}
	if again := at(0); again != first || !w.listens(first) {
		t.Error("the first is not open again")
	}
}

// A name whose listeners are the oldest gets the listeners of further ports too.
func TestMoreDoors(t *testing.T) {
	checkLeaks(t)
	w := newWorld(t, allow("*.a.example:2000"))
	for i := range maxNameListeners {
		w.address(fmt.Sprintf("n%d.a.example", i))
	}
	p := allow("*.a.example:2000-2009")
	c, err := p.Compile()
	if err != nil {
		t.Fatal(err)
	}
	if err := w.g.SetPolicy(c); err != nil {
		t.Fatal(err)
	}
	first := w.address("n0.a.example")
	for _, port := range c.Ports() {
		if at := netip.AddrPortFrom(first, port); !w.listens(at) {
			t.Errorf("no listener at %s", at)
		}
	}
}

// A rule may have the port of a service inside, of an exposed one, or of a server of root's: the name is reached at its
// own address, and through the proxies.
func TestServicePort(t *testing.T) {
	checkLeaks(t)
	for _, port := range []uint16{53, 81, 82, 1080} {
		w := newWorld(t, allow(fmt.Sprintf("git.example:%d", port)), func(o *Options) {
			o.Exposed, o.LowPorts = []uint16{81}, port == 82
		})
		w.plain("git.example", port, "93.184.216.34", func(c *net.TCPConn) { _, _ = io.WriteString(c, "hi") })
		if l := w.g.listeners[port]; l != nil {
			t.Errorf("port %d: a listener at all addresses", port)
		}
		if text := w.ended(w.name("git.example", port)); text != "hi" {
			t.Errorf("port %d: %q", port, text)
		}
		c, code := w.socks(socksConnect, socksName, []byte("git.example"), port)
		if text := w.ended(c); code != socksGranted || text != "hi" {
			t.Errorf("port %d: %d, %q", port, code, text)
		}
		w.quiet()
	}
}

// A client of SOCKS5 that looks the name up itself sends the address inside.
func TestSOCKSAddress(t *testing.T) {
	checkLeaks(t)
	w := newWorld(t, allow("git.example:22"))
	w.plain("git.example", 22, "93.184.216.34", func(c *net.TCPConn) { _, _ = io.WriteString(c, "hi") })
	addr := w.address("git.example").As4()
	c, code := w.socks(socksConnect, socksIPv4, addr[:], 22)
	if text := w.ended(c); code != socksGranted || text != "hi" {
		t.Errorf(`socks: got %d, %q; want socksGranted, "hi"`, code, text)
	}
	w.quiet()
}

// The path and the headers of a request arrive as they were sent, in each way to a name.
func TestAsSent(t *testing.T) {
	checkLeaks(t)
	w := newWorld(t, allow("page.example"))
	w.page("page.example", "93.184.216.34", func(rw http.ResponseWriter, r *http.Request) {
		var all []string
		for _, name := range forwarded {
			all = append(all, r.Header[name]...)
		}
		_, _ = fmt.Fprintf(rw, "%s %s %q", r.Host, r.RequestURI, all)
	})
	for _, mode := range []string{"address", "proxy"} {
		c, prefix := w.name("page.example", 80), ""
		if mode == "proxy" {
			c, prefix = w.connect(AddrHTTP.Addr(), AddrHTTP.Port()), "http://page.example"
		}
		in := bufio.NewReader(c)
		for _, row := range []struct{ path, headers, want string }{
			{"/a%2fb%5b{}^\"?q={}", "", `/a%2fb%5b%7B%7D%5E%22?q={} []`},
			{"//other.example/%2f|", "", `//other.example/%2f%7C []`},
			{"/%0d%0aHost:%20other.example%2f{}", "", `/%0d%0aHost:%20other.example%2f%7B%7D []`},
			{"/", "x-forwarded-for: 1.2.3.4\nX-Forwarded-For: b\nX-Forwarded-Proto: https\nX-Forwarded-Host: h\nForwarded: for=1\n", `/ ["for=1" "1.2.3.4" "b" "h" "https"]`},
			{"/", "X-Forwarded-For: 1.2.3.4\nForwarded: for=1\nConnection: x, forwarded\n", `/ ["1.2.3.4"]`},
		} {
			code, text := request(t, c, in, "GET "+prefix+row.path+" HTTP/1.1\nHost: page.example\n"+row.headers+"\n")
			if code != http.StatusOK || text != "page.example "+row.want {
				t.Errorf("%s, %s %q: got %d, %q; want http.StatusOK, %q", mode, row.path, row.headers, code, text, "page.example "+row.want)
			}
		}
	}
	w.quiet()
}

// Close ends what is open.
func TestClose(t *testing.T) {
	checkLeaks(t)
	w := newWorld(t, allow("git.example:22", "page.example", "tls.example:443"))
	w.plain("git.example", 22, "93.184.216.34", func(c *net.TCPConn) { _, _ = io.Copy(io.Discard, c) })
	open := []*net.TCPConn{
		w.name("git.example", 22), w.name("page.example", 80), w.name("tls.example", 443),
		w.connect(AddrHTTP.Addr(), 3128), w.connect(AddrSOCKS.Addr(), 1080), w.connect(AddrDNS.Addr(), 53),
	}
	if err := w.g.Close(); err != nil {
		t.Error(err)
	}
	for _, c := range open {
		w.ended(c)
	}
	if err := w.g.Close(); err != nil {
		t.Error(err)
	}
	if err := w.g.SetPolicy(w.g.policy.Load()); err == nil {
		t.Error("a closed gateway accepts a policy")
	}
}

// What connections have carried is counted while they are open, and once after their end.
func TestTraffic(t *testing.T) {
	checkLeaks(t)
	w := newWorld(t, allow("git.example:22"))
	w.plain("git.example", 22, "93.184.216.34", func(c *net.TCPConn) {
		_, _ = io.CopyN(io.Discard, c, 3000)
		_, _ = c.Write(make([]byte, 5000))
		_, _ = io.Copy(io.Discard, c)
	})
	for n := int64(1); n <= 2; n++ {
		c := w.name("git.example", 22)
		if _, err := c.Write(make([]byte, 3000)); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(c, make([]byte, 5000)); err != nil {
			t.Fatal(err)
		}
		carried := func() bool {
			sent, received := w.g.Traffic()
			return sent >= 3000*n && received >= 5000*n // the kernel counts what was acknowledged
		}
		wait.Until(t, "the traffic", carried)
		_ = c.Close()
		wait.Until(t, "the end", func() bool {
			w.g.mu.Lock()
			defer w.g.mu.Unlock()
			return len(w.g.outbound) == 0
		})
		if sent, received := w.g.Traffic(); sent < 3000*n || sent > 3002*n || received < 5000*n || received > 5002*n { // begin and end count too
			t.Errorf("after %d connections: %d sent, %d received", n, sent, received)
		}
	}
}
