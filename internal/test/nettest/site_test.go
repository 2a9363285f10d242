package nettest

import (
	"bufio"
	"crypto/sha1"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"
)

// The ports of the test's servers besides 22, 53, 80 and 443.
const (
	webPort  = 8080 // HTTP, as on 80
	echoPort = 7007 // sends back what it gets, and ends when its client does
)

// A visit is a connection to a server of the test's.
type visit struct {
	at   netip.AddrPort // the server's side
	host string         // of an HTTP request or a TLS server name; may be empty
}

func (v visit) String() string { return strings.TrimSpace(v.at.String() + " " + v.host) }

// visits are all connections to the servers of the test.
type visits struct {
	mu  sync.Mutex
	all []visit
}

func (v *visits) add(at net.Addr, host string) {
	a, err := netip.ParseAddrPort(at.String())
	if err != nil {
		return // not of a network
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.all = append(v.all, visit{netip.AddrPortFrom(a.Addr().Unmap().WithZone(""), a.Port()), host})
}

// astray returns the connections to other addresses than the site's.
func (v *visits) astray() (found []visit) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, one := range v.all {
		if a := one.at.Addr().String(); a != site && a != site6 {
			found = append(found, one)
		}
	}
	return found
}

// of returns the number of connections for a name.
func (v *visits) of(host string) int {
	v.mu.Lock()
	defer v.mu.Unlock()
	n := 0
	for _, one := range v.all {
		if one.host == host {
			n++
		}
	}
	return n
}

// A noticing listener notes each connection.
type noticing struct {
	net.Listener
	visits *visits
}

func (l noticing) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err == nil {
		l.visits.add(c.LocalAddr(), "")
	}
	return c, err
}

// serveSite serves the handler on the ports of the web, an echo, and SSH with a configuration, at all addresses
// of the namespace until the end of the test.
func serveSite(t *testing.T, a *authority, v *visits, ssh string, handler http.Handler) {
	t.Helper()
	seen := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host := r.Host
		if name, _, err := net.SplitHostPort(host); err == nil {
			host = name
		}
		v.add(r.Context().Value(http.LocalAddrContextKey).(net.Addr), host)
		handler.ServeHTTP(w, r)
	})
	listen := func(port int) net.Listener {
		l, err := net.Listen("tcp", fmt.Sprintf("[::]:%d", port)) // IPv4 too
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
		return noticing{l, v}
	}
	server := &http.Server{Handler: seen, ReadHeaderTimeout: time.Minute, ErrorLog: nil}
	t.Cleanup(func() { _ = server.Close() })
	go func() { _ = server.Serve(listen(80)) }()
	go func() { _ = server.Serve(listen(webPort)) }()
	secure := tls.NewListener(listen(443), &tls.Config{
		NextProtos: []string{"h2", "http/1.1"},
		GetCertificate: func(h *tls.ClientHelloInfo) (*tls.Certificate, error) {
			v.add(h.Conn.LocalAddr(), h.ServerName)
			return a.certificate(h)
		},
	})
	go func() { _ = server.Serve(secure) }()
	go accept(listen(echoPort), func(c net.Conn) { _, _ = io.Copy(c, c) })
	go accept(listen(22), func(c net.Conn) { serveSSH(c, ssh) })
}

// pages is the site's own content, apart from registries.
func pages(mux *http.ServeMux) {
	mux.HandleFunc("/hello", func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprintf(w, "hello from %s\n", r.Host)
	})
	mux.HandleFunc("/big", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write(make([]byte, 8<<20))
	})
	mux.HandleFunc("/count", func(w http.ResponseWriter, r *http.Request) {
		n, err := io.Copy(io.Discard, r.Body)
		_, _ = fmt.Fprintf(w, "%d %v\n", n, err)
	})
	mux.HandleFunc("/socket", webSocket)
}

// webSocket echoes one text frame of at most 125 bytes (RFC 6455).
func webSocket(w http.ResponseWriter, r *http.Request) {
	if !strings.EqualFold(r.Header.Get("Upgrade"), "websocket") {
		http.Error(w, "not an upgrade", http.StatusBadRequest)
		return
	}
	sum := sha1.Sum([]byte(r.Header.Get("Sec-WebSocket-Key") + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
	c, rw, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer c.Close()
	_, _ = fmt.Fprintf(rw, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: %s\r\n\r\n", base64.StdEncoding.EncodeToString(sum[:]))
	if err := rw.Flush(); err != nil {
		return
	}
	text, err := frame(rw.Reader)
	if err == nil {
		_, _ = rw.Write(append([]byte{0x81, byte(len(text))}, text...))
		_ = rw.Flush()
	}
}

// frame reads one short frame with a mask.
func frame(r *bufio.Reader) ([]byte, error) {
	head := make([]byte, 6)
	if _, err := io.ReadFull(r, head); err != nil {
		return nil, err
	}
	n := int(head[1] &^ 0x80)
	if head[1]&0x80 == 0 || n > 125 {
		return nil, errors.New("not a short frame with a mask")
	}
	text := make([]byte, n)
	_, err := io.ReadFull(r, text)
	for i := range text {
		text[i] ^= head[2+i%4]
	}
	return text, err
}
