package gateway

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"wolffia/internal/host/egress"
	"wolffia/network"
)

// A proxy of the host's network makes the connections: the host looks up no name. What it refuses
// is refused, and names with addresses of their own do not go through it.
func TestUpstream(t *testing.T) {
	checkLeaks(t)
	proxy, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer proxy.Close()
	asked := make(chan string, 10)
	go func() {
		for {
			c, err := proxy.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				r := bufio.NewReader(c)
				q, err := http.ReadRequest(r)
				if err != nil {
					return
				}
				asked <- q.Method + " " + q.Host
				switch q.Host {
				case "denied.example:22":
					_, _ = io.WriteString(c, "HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")
				case "nonsense.example:22":
					_, _ = io.WriteString(c, "SSH-2.0-x\r\n\r\n")
				case "long.example:22":
					_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nX: "+strings.Repeat("x", 2*maxAnswer))
				default:
					_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nX: y\r\n\r\nhello from "+q.Host+";")
					_, _ = io.Copy(c, r)
				}
			}()
		}
	}()
	w := newWorld(t, network.Policy{
		Allow:    []string{"git.example:22", "denied.example:22", "nonsense.example:22", "long.example:22", "db.example:5432"},
		Hosts:    map[string]string{"db.example": "127.0.0.1"},
		Upstream: "http://" + proxy.Addr().String(),
	})
	c := w.name("git.example", 22)
	_, _ = io.WriteString(c, "and back")
	_ = c.CloseWrite()
	if text := w.ended(c); text != "hello from git.example:22;and back" {
		t.Errorf(`ended: got %q, want "hello from git.example:22;and back"`, text)
	}
	if got := <-asked; got != "CONNECT git.example:22" {
		t.Errorf("the proxy was asked %q", got)
	}
	w.quiet()
	for name, reason := range map[string]string{"denied": egress.ReasonUpstreamRefuses, "nonsense": egress.ReasonUpstream, "long": egress.ReasonUpstream} {
		if text := w.ended(w.name(name+".example", 22)); text != "" {
			t.Errorf(`%s: got %q, want ""`, name, text)
		}
		<-asked
		if e := w.expect(reason); e.Port != 22 {
			t.Errorf("%s: got e %+v; want e.Port == 22", name, e)
		}
	}
	w.mu.Lock()
	if len(w.looked) > 0 {
		t.Errorf("the host looked up %v", w.looked)
	}
	w.mu.Unlock()
	w.undialled()

	w.plain("db.example", 5432, "127.0.0.1", func(c *net.TCPConn) { _, _ = io.WriteString(c, "hi") })
	if text := w.ended(w.name("db.example", 5432)); text != "hi" {
		t.Errorf("a name with an address: %q", text)
	}
	if len(asked) > 0 {
		t.Errorf("the proxy was asked %q", <-asked)
	}
	_ = proxy.Close()
	_ = w.ended(w.name("git.example", 22))
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.dialled[0] != netip.MustParseAddrPort("127.0.0.1:5432") || len(w.dialled) != 1 {
		t.Errorf("without the proxy, the gateway connected to %v", w.dialled)
	}
}
