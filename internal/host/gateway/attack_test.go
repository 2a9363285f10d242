package gateway

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"wolffia/internal/host/egress"
	"wolffia/internal/test/wait"
	"wolffia/network"

	"golang.org/x/net/dns/dnsmessage"
)

// socks sends a request for a host to the SOCKS5 proxy, and returns the code of the answer.
func (w *world) socks(command, kind byte, host []byte, port uint16) (net.Conn, byte) {
	w.t.Helper()
	c := w.connect(AddrSOCKS.Addr(), 1080)
	if kind == socksName {
		host = append([]byte{byte(len(host))}, host...)
	}
	message := append([]byte{5, 1, 0, 5, command, 0, kind}, host...)
	if _, err := c.Write(binary.BigEndian.AppendUint16(message, port)); err != nil {
		w.t.Fatal(err)
	}
	answer := make([]byte, 2+socksAnswerLen)
	if _, err := io.ReadFull(c, answer); err != nil {
		w.t.Fatal(err)
	}
	return c, answer[3]
}

// send writes to a connection, and expects that it ends without an answer but an alert of TLS.
func (w *world) send(c net.Conn, b []byte) {
	w.t.Helper()
	_, _ = c.Write(b) // the gateway may have ended it already
	if text := w.ended(c); text != "" && text != string(alertDenied) {
		w.t.Errorf("answer %q", text)
	}
}

// web sends requests on one connection, and expects that the last one is refused.
func (w *world) web(c net.Conn, requests ...string) {
	w.t.Helper()
	r := bufio.NewReader(c)
	for i, text := range requests {
		status, body := request(w.t, c, r, text)
		if last := i == len(requests)-1; last != (status >= 400) {
			w.t.Errorf("request %d: status %d, %q", i, status, body)
		}
	}
}

// proxy sends one request to the HTTP proxy, and expects that it is refused.
func (w *world) proxy(text string) {
	w.t.Helper()
	w.web(w.connect(AddrHTTP.Addr(), 3128), text)
}

// An attack is what a program inside tries to get around the policy
// "good.example, good.example:22, *.wild.example".
var attacks = []struct {
	name    string
	try     func(w *world)
	reason  string // of the event
	touches bool   // the gateway connects to good.example's own address
}{
	// Another server behind a shared address: the name in the TLS handshake.
	{"SNI: another name", func(w *world) {
		w.send(w.name("good.example", 443), hello(w.t, &tls.Config{ServerName: "evil.example"}))
	}, egress.ReasonSNI, false},
	{"SNI: a name below", func(w *world) {
		w.send(w.name("good.example", 443), hello(w.t, &tls.Config{ServerName: "x.good.example"}))
	}, egress.ReasonSNI, false},
	{"SNI: missing", func(w *world) {
		w.send(w.name("good.example", 443), hello(w.t, &tls.Config{InsecureSkipVerify: true}))
	}, egress.ReasonNoSNI, false},
	{"SNI: an address", func(w *world) {
		w.send(w.name("good.example", 443), withName(w.t, "127.0.0.1"))
	}, egress.ReasonSNI, false},
	{"SNI: final dot", func(w *world) {
		w.send(w.name("good.example", 443), withName(w.t, "good.example."))
	}, egress.ReasonBadTLS, false},
	{"SNI: NUL", func(w *world) {
		w.send(w.name("good.example", 443), withName(w.t, "good.example\x00.evil.example"))
	}, egress.ReasonSNI, false},
	{"SNI: encrypted", func(w *world) {
		w.send(w.name("good.example", 443), withECH(w.t))
	}, egress.ReasonECH, false},
	{"SNI: another name, through CONNECT", func(w *world) {
		c := w.connect(AddrHTTP.Addr(), 3128)
		if status, _ := request(w.t, c, bufio.NewReader(c), "CONNECT good.example:443 HTTP/1.1\nHost: good.example:443\n\n"); status != 200 {
			w.t.Fatal(status)
		}
		w.send(c, hello(w.t, &tls.Config{ServerName: "evil.example"}))
	}, egress.ReasonSNI, true},
	{"SNI: another name, with CONNECT in one write", func(w *world) {
		c := w.connect(AddrHTTP.Addr(), 3128)
		_, _ = c.Write(append([]byte("CONNECT good.example:443 HTTP/1.1\r\nHost: good.example:443\r\n\r\n"), hello(w.t, &tls.Config{ServerName: "evil.example"})...))
		if text := w.ended(c); text != "HTTP/1.1 200 Connection established\r\n\r\n"+string(alertDenied) {
			w.t.Errorf("ended: got %q, want %q+string(alertDenied)", text, "HTTP/1.1 200 Connection established\r\n\r\n")
		}
	}, egress.ReasonSNI, true},
	{"SNI: another name, through SOCKS", func(w *world) {
		c, code := w.socks(socksConnect, socksName, []byte("good.example"), 443)
		if code != socksGranted {
			w.t.Fatal(code)
		}
		w.send(c, hello(w.t, &tls.Config{ServerName: "evil.example"}))
	}, egress.ReasonSNI, true},
	{"SNI: another name, on port 22", func(w *world) {
		w.send(w.name("good.example", 22), hello(w.t, &tls.Config{ServerName: "evil.example"}))
	}, egress.ReasonSNI, true},
	{"SNI: another name, on port 22, in pieces", func(w *world) {
		c := w.name("good.example", 22)
		for _, b := range hello(w.t, &tls.Config{ServerName: "evil.example"}) {
			if _, err := c.Write([]byte{b}); err != nil {
				break
			}
		}
		w.send(c, nil)
	}, egress.ReasonSNI, true},
	{"SNI: another name, after an alert of TLS", func(w *world) {
		w.send(w.name("good.example", 443), append([]byte{21, 3, 1, 0, 2, 1, 90}, hello(w.t, &tls.Config{ServerName: "evil.example"})...))
	}, egress.ReasonSNI, false},
	{"SNI: another name in a second ClientHello, sent with the first", func(w *world) {
		w.ahead(hello(w.t, &tls.Config{ServerName: "evil.example"}))
	}, egress.ReasonSNI, true},
	{"SNI: another name in a second ClientHello, in one record with the first", func(w *world) {
		both := append(hello(w.t, &tls.Config{ServerName: "good.example"}), hello(w.t, &tls.Config{ServerName: "evil.example"})[recordHeader:]...)
		binary.BigEndian.PutUint16(both[3:], uint16(len(both)-recordHeader))
		w.send(w.name("good.example", 443), both)
	}, egress.ReasonBadTLS, false},
	{"SNI: another name in the second ClientHello", func(w *world) {
		w.again(hello(w.t, &tls.Config{ServerName: "evil.example"}))
	}, egress.ReasonSNI, true},
	{"SNI: another name in the second ClientHello, after a ChangeCipherSpec", func(w *world) {
		w.again(append([]byte{20, 3, 3, 0, 1, 1}, hello(w.t, &tls.Config{ServerName: "evil.example"})...))
	}, egress.ReasonSNI, true},
	{"SNI: no second ClientHello", func(w *world) { w.again([]byte{23, 3, 3, 0, 1, 1}) }, egress.ReasonNotTLS, true},
	{"SSH on port 443", func(w *world) {
		w.send(w.name("good.example", 443), []byte("SSH-2.0-x\r\n"))
	}, egress.ReasonNotTLS, false},
	{"HTTP on port 443", func(w *world) {
		w.send(w.name("good.example", 443), []byte("GET / HTTP/1.1\r\nHost: good.example\r\n\r\n"))
	}, egress.ReasonNotTLS, false},
	{"TLS: cut", func(w *world) {
		c := w.name("good.example", 443)
		b := hello(w.t, &tls.Config{ServerName: "good.example"})
		_, _ = c.Write(b[:len(b)-1])
		_ = c.CloseWrite()
		w.send(c, nil)
	}, egress.ReasonBadTLS, false},
	{"TLS: endless handshake", func(w *world) {
		c := w.name("good.example", 443)
		record := append([]byte{22, 3, 1, 0x40, 0, 1, 0, 0xff, 0xff}, make([]byte, 0x4000-4)...)
		for range 8 {
			if _, err := c.Write(record); err != nil {
				break
			}
			record = append([]byte{22, 3, 1, 0x40, 0}, make([]byte, 0x4000)...)
		}
		w.ended(c)
	}, egress.ReasonBadTLS, false},
	{"TLS: empty records", func(w *world) {
		c := w.name("good.example", 443)
		_, _ = c.Write(bytes.Repeat([]byte{22, 3, 1, 0, 0}, 20000))
		w.ended(c)
	}, egress.ReasonBadTLS, false},
	{"TLS: silence", func(w *world) { w.send(w.name("good.example", 443), nil) }, egress.ReasonSlow, false},
	{"TLS: slow", func(w *world) {
		w.send(w.name("good.example", 443), hello(w.t, &tls.Config{ServerName: "good.example"})[:20])
	}, egress.ReasonSlow, false},
	{"TLS: slow on port 22", func(w *world) { w.send(w.name("good.example", 22), []byte{22}) }, egress.ReasonSlow, true},

	// Another server behind a shared address: the host in HTTP.
	{"Host: another one", func(w *world) {
		w.web(w.name("good.example", 80), "GET / HTTP/1.1\nHost: evil.example\n\n")
	}, egress.ReasonHost, false},
	{"Host: another one in the second request", func(w *world) {
		w.web(w.name("good.example", 80), "GET / HTTP/1.1\nHost: good.example\n\n", "GET / HTTP/1.1\nHost: evil.example\n\n")
	}, egress.ReasonHost, true},
	{"Host: another one, pipelined", func(w *world) {
		c := w.name("good.example", 80)
		_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: good.example\r\n\r\nGET / HTTP/1.1\r\nHost: evil.example\r\n\r\n")
		if text := w.ended(c); strings.Count(text, "200 OK") != 1 || strings.Count(text, "403 Forbidden") != 1 {
			w.t.Errorf(`ended: got text %q; want strings.Count(text, "200 OK") == 1 and strings.Count(text, "403 Forbidden") == 1`, text)
		}
	}, egress.ReasonHost, true},
	{"Host: another one in an absolute URI", func(w *world) {
		w.web(w.name("good.example", 80), "GET http://evil.example/ HTTP/1.1\nHost: good.example\n\n")
	}, egress.ReasonHost, false},
	{"Host: another port", func(w *world) {
		w.web(w.name("good.example", 80), "GET / HTTP/1.1\nHost: good.example:8080\n\n")
	}, egress.ReasonHost, false},
	{"Host: an address", func(w *world) {
		w.web(w.name("good.example", 80), "GET / HTTP/1.1\nHost: 169.254.169.254\n\n")
	}, egress.ReasonHost, false},
	{"Host: two", func(w *world) {
		w.web(w.name("good.example", 80), "GET / HTTP/1.1\nHost: good.example\nHost: evil.example\n\n")
	}, egress.ReasonNotHTTP, false},
	{"Host: folded", func(w *world) {
		w.web(w.name("good.example", 80), "GET / HTTP/1.1\nHost: good.example\n evil.example\n\n")
	}, egress.ReasonNotHTTP, false},
	{"Host: none", func(w *world) { w.web(w.name("good.example", 80), "GET / HTTP/1.1\n\n") }, egress.ReasonNotHTTP, false},
	{"Host: none in HTTP/1.0", func(w *world) { w.web(w.name("good.example", 80), "GET / HTTP/1.0\n\n") }, egress.ReasonHost, false},
	{"Host: none in the second request", func(w *world) {
		w.web(w.name("good.example", 80), "GET / HTTP/1.1\nHost: good.example\n\n", "GET / HTTP/1.1\n\n")
	}, egress.ReasonNotHTTP, true},
	{"CONNECT on port 80", func(w *world) {
		w.web(w.name("good.example", 80), "CONNECT good.example:80 HTTP/1.1\nHost: good.example\n\n")
	}, egress.ReasonMethod, false},
	{"HTTP/2 without TLS on port 80", func(w *world) {
		c := w.name("good.example", 80)
		_, _ = io.WriteString(c, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
		if text := w.ended(c); strings.HasPrefix(text, "HTTP/1.1 2") {
			w.t.Errorf(`ended: got text %q; want text does not begin with "HTTP/1.1 2"`, text)
		}
	}, egress.ReasonHost, false},
	{"TLS on port 80", func(w *world) {
		c := w.name("good.example", 80)
		_, _ = c.Write(hello(w.t, &tls.Config{ServerName: "good.example"}))
		w.ended(c)
	}, egress.ReasonNotHTTP, false},
	{"SSH on port 80", func(w *world) {
		c := w.name("good.example", 80)
		_, _ = io.WriteString(c, "SSH-2.0-x\r\n\r\n\r\n")
		w.ended(c)
	}, egress.ReasonNotHTTP, false},
	{"two lengths of a body", func(w *world) {
		w.web(w.name("good.example", 80), "POST / HTTP/1.1\nHost: good.example\nContent-Length: 5\nContent-Length: 6\n\nhello")
	}, egress.ReasonNotHTTP, false},
	{"HTTP: huge header", func(w *world) {
		c := w.name("good.example", 80)
		_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: good.example\r\nX: "+strings.Repeat("x", 4*maxHeaders))
		w.ended(c)
	}, egress.ReasonNotHTTP, false},
	{"HTTP: silence", func(w *world) { w.send(w.name("good.example", 80), nil) }, egress.ReasonSlow, false},
	{"HTTP: slow header", func(w *world) {
		c := w.name("good.example", 80)
		_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHos")
		w.ended(c)
	}, egress.ReasonSlow, false},
	{"Host: another one, through CONNECT to port 80", func(w *world) {
		c := w.connect(AddrHTTP.Addr(), 3128)
		r := bufio.NewReader(c)
		if status, _ := request(w.t, c, r, "CONNECT good.example:80 HTTP/1.1\nHost: good.example:80\n\n"); status != 200 {
			w.t.Fatal(status)
		}
		if status, _ := request(w.t, c, r, "GET / HTTP/1.1\nHost: evil.example\n\n"); status != 403 {
			w.t.Error(status)
		}
	}, egress.ReasonHost, false},
	{"Host: another one, through SOCKS to port 80", func(w *world) {
		c, code := w.socks(socksConnect, socksName, []byte("good.example"), 80)
		if code != socksGranted {
			w.t.Fatal(code)
		}
		w.web(c, "GET / HTTP/1.1\nHost: evil.example\n\n")
	}, egress.ReasonHost, false},

	// Names and addresses that no rule has.
	{"DNS: another name", func(w *world) { w.refusedName("evil.example.") }, egress.ReasonName, false},
	{"DNS: the domain of a wildcard", func(w *world) { w.refusedName("wild.example.") }, egress.ReasonName, false},
	{"DNS: a name below", func(w *world) { w.refusedName("x.good.example.") }, egress.ReasonName, false},
	{"DNS: tunnel", func(w *world) { w.refusedName(strings.Repeat("a", 60) + ".data.evil.example.") }, egress.ReasonName, false},
	{"DNS: tunnel by TXT", func(w *world) {
		if code, _ := w.ask("x.evil.example.", dnsmessage.TypeTXT); code != dnsmessage.RCodeNameError {
			w.t.Error(code)
		}
	}, egress.ReasonName, false},
	{"DNS: not a name", func(w *world) { w.refusedName("a b\x00.good.example.") }, egress.ReasonBadName, false},
	{"DNS: an address", func(w *world) { w.refusedName("169.254.169.254.") }, egress.ReasonBadName, false},
	{"DNS: a decimal address", func(w *world) { w.refusedName("2852039166.") }, egress.ReasonBadName, false},
	{"an address without a name", func(w *world) {
		w.address("good.example")
		w.send(w.connect(netip.MustParseAddr("127.64.200.1"), 443), nil)
	}, egress.ReasonAddress, false},
	{"loopback inside, on a port of the policy", func(w *world) {
		w.send(w.connect(netip.MustParseAddr("127.0.0.1"), 443), nil)
	}, egress.ReasonAddress, false},
	{"a port of another name", func(w *world) { w.send(w.name("x.wild.example", 22), nil) }, egress.ReasonPort, false},
	{"CONNECT: loopback", func(w *world) { w.proxy("CONNECT 127.0.0.1:22 HTTP/1.1\nHost: 127.0.0.1:22\n\n") }, egress.ReasonAddress, false},
	{"CONNECT: loopback of IPv6", func(w *world) { w.proxy("CONNECT [::1]:443 HTTP/1.1\nHost: [::1]:443\n\n") }, egress.ReasonAddress, false},
	{"CONNECT: a mapped address", func(w *world) {
		w.proxy("CONNECT [::ffff:127.0.0.1]:443 HTTP/1.1\nHost: [::ffff:127.0.0.1]:443\n\n")
	}, egress.ReasonAddress, false},
	{"CONNECT: metadata", func(w *world) { w.proxy("CONNECT 169.254.169.254:80 HTTP/1.1\nHost: 169.254.169.254:80\n\n") }, egress.ReasonAddress, false},
	{"CONNECT: a public address", func(w *world) { w.proxy("CONNECT 93.184.216.34:443 HTTP/1.1\nHost: 93.184.216.34:443\n\n") }, egress.ReasonAddress, false},
	{"CONNECT: a decimal address", func(w *world) { w.proxy("CONNECT 2130706433:443 HTTP/1.1\nHost: 2130706433:443\n\n") }, egress.ReasonBadName, false},
	{"CONNECT: an octal address", func(w *world) { w.proxy("CONNECT 0177.0.0.1:443 HTTP/1.1\nHost: 0177.0.0.1:443\n\n") }, egress.ReasonBadName, false},
	{"CONNECT: a hexadecimal address", func(w *world) { w.proxy("CONNECT 0x7f.1:443 HTTP/1.1\nHost: 0x7f.1:443\n\n") }, egress.ReasonBadName, false},
	{"CONNECT: localhost", func(w *world) { w.proxy("CONNECT localhost:22 HTTP/1.1\nHost: localhost:22\n\n") }, egress.ReasonName, false},
	{"CONNECT: another name", func(w *world) { w.proxy("CONNECT evil.example:443 HTTP/1.1\nHost: evil.example:443\n\n") }, egress.ReasonName, false},
	{"CONNECT: another name, Host allowed", func(w *world) {
		w.proxy("CONNECT evil.example:443 HTTP/1.1\nHost: good.example:443\n\n")
	}, egress.ReasonName, false},
	{"CONNECT: another port", func(w *world) { w.proxy("CONNECT good.example:25 HTTP/1.1\nHost: good.example:25\n\n") }, egress.ReasonPort, false},
	{"CONNECT: no port", func(w *world) { w.proxy("CONNECT good.example HTTP/1.1\nHost: good.example\n\n") }, egress.ReasonProtocol, false},
	{"CONNECT: a NUL in the name", func(w *world) {
		c := w.connect(AddrHTTP.Addr(), 3128)
		_, _ = io.WriteString(c, "CONNECT good.example\x00.evil.example:443 HTTP/1.1\r\nHost: x\r\n\r\n")
		if text := w.ended(c); !strings.HasPrefix(text, "HTTP/1.1 4") {
			w.t.Errorf(`ended: got text %q; want text begins with "HTTP/1.1 4"`, text)
		}
	}, egress.ReasonProtocol, false},
	{"proxy: another name", func(w *world) { w.proxy("GET http://evil.example/ HTTP/1.1\nHost: good.example\n\n") }, egress.ReasonName, false},
	{"proxy: another name in the second request", func(w *world) {
		w.web(w.connect(AddrHTTP.Addr(), 3128), "GET http://good.example/ HTTP/1.1\nHost: good.example\n\n", "GET http://evil.example/ HTTP/1.1\nHost: good.example\n\n")
	}, egress.ReasonName, true},
	{"proxy: userinfo", func(w *world) {
		w.proxy("GET http://good.example:80@evil.example/ HTTP/1.1\nHost: good.example\n\n")
	}, egress.ReasonName, false},
	{"proxy: metadata", func(w *world) { w.proxy("GET http://169.254.169.254/latest HTTP/1.1\nHost: good.example\n\n") }, egress.ReasonAddress, false},
	{"proxy: TLS by the proxy", func(w *world) { w.proxy("GET https://good.example/ HTTP/1.1\nHost: good.example\n\n") }, egress.ReasonProtocol, false},
	{"proxy: HTTP to port 443", func(w *world) {
		w.proxy("GET http://good.example:443/ HTTP/1.1\nHost: good.example:443\n\n")
	}, egress.ReasonNotTLS, false},
	{"proxy: no absolute URI", func(w *world) { w.proxy("GET / HTTP/1.1\nHost: good.example\n\n") }, egress.ReasonProtocol, false},
	{"proxy: silence", func(w *world) { w.send(w.connect(AddrHTTP.Addr(), 3128), nil) }, egress.ReasonSlow, false},
	{"SOCKS: loopback", func(w *world) { w.refusedSOCKS(socksConnect, socksIPv4, []byte{127, 0, 0, 1}, 22, socksDenied) }, egress.ReasonAddress, false},
	{"SOCKS: a mapped address", func(w *world) {
		w.refusedSOCKS(socksConnect, socksIPv6, append(make([]byte, 10), 255, 255, 127, 0, 0, 1), 22, socksDenied)
	}, egress.ReasonAddress, false},
	{"SOCKS: an address as name", func(w *world) {
		w.refusedSOCKS(socksConnect, socksName, []byte("127.0.0.1"), 22, socksDenied)
	}, egress.ReasonAddress, false},
	{"SOCKS: an octal address as name", func(w *world) {
		w.refusedSOCKS(socksConnect, socksName, []byte("0177.1"), 22, socksAddress)
	}, egress.ReasonBadName, false},
	{"SOCKS: another name", func(w *world) {
		w.refusedSOCKS(socksConnect, socksName, []byte("evil.example"), 443, socksDenied)
	}, egress.ReasonName, false},
	{"SOCKS: an empty name", func(w *world) { w.refusedSOCKS(socksConnect, socksName, nil, 443, socksAddress) }, egress.ReasonBadName, false},
	{"SOCKS: bind", func(w *world) { w.refusedSOCKS(2, socksName, []byte("good.example"), 443, socksCommand) }, egress.ReasonProtocol, false},
	{"SOCKS: UDP", func(w *world) { w.refusedSOCKS(3, socksName, []byte("good.example"), 443, socksCommand) }, egress.ReasonProtocol, false},
	{"SOCKS: version 4", func(w *world) {
		w.send(w.connect(AddrSOCKS.Addr(), 1080), []byte{4, 1, 0, 80, 127, 0, 0, 1, 0})
	}, egress.ReasonProtocol, false},
	{"SOCKS: silence", func(w *world) { w.send(w.connect(AddrSOCKS.Addr(), 1080), nil) }, egress.ReasonSlow, false},

	// An allowed name that leads elsewhere.
	{"rebinding: loopback", leadsTo("127.0.0.1"), fmt.Sprintf(egress.ReasonForbidden, "loopback"), false},
	{"rebinding: loopback of IPv6", leadsTo("::1"), fmt.Sprintf(egress.ReasonForbidden, "loopback"), false},
	{"rebinding: metadata", leadsTo("169.254.169.254"), fmt.Sprintf(egress.ReasonForbidden, "metadata"), false},
	{"rebinding: metadata of IPv6", leadsTo("fd00:ec2::254"), fmt.Sprintf(egress.ReasonForbidden, "metadata"), false},
	{"rebinding: private", leadsTo("192.168.1.1"), fmt.Sprintf(egress.ReasonForbidden, "private"), false},
	{"rebinding: carrier", leadsTo("100.64.0.1"), fmt.Sprintf(egress.ReasonForbidden, "carrier-private"), false},
	{"rebinding: unspecified", leadsTo("0.0.0.0"), fmt.Sprintf(egress.ReasonForbidden, "unspecified"), false},
	{"rebinding: mapped", leadsTo("::ffff:10.0.0.1"), fmt.Sprintf(egress.ReasonForbidden, "private"), false},
	{"rebinding: NAT64", leadsTo("64:ff9b::7f00:1"), fmt.Sprintf(egress.ReasonForbidden, "loopback"), false},
	{"rebinding: 6to4", leadsTo("2002:7f00:1::"), fmt.Sprintf(egress.ReasonForbidden, "loopback"), false},
	{"rebinding: the names inside", leadsTo("127.64.1.0"), fmt.Sprintf(egress.ReasonForbidden, "loopback"), false},
	{"rebinding: the host itself", leadsTo("9.9.9.1"), egress.ReasonOwn, false},
	{"rebinding: the host itself, mapped", leadsTo("::ffff:9.9.9.1"), egress.ReasonOwn, false},
	{"rebinding: nothing", leadsTo(), egress.ReasonResolve, false},
	{"rebinding: through CONNECT", func(w *world) {
		w.host("good.example", 22, "", "10.0.0.1")
		w.proxy("CONNECT good.example:22 HTTP/1.1\nHost: good.example:22\n\n")
	}, fmt.Sprintf(egress.ReasonForbidden, "private"), false},
	{"rebinding: through SOCKS", func(w *world) {
		w.host("good.example", 22, "", "10.0.0.1")
		w.refusedSOCKS(socksConnect, socksName, []byte("good.example"), 22, socksDenied)
	}, fmt.Sprintf(egress.ReasonForbidden, "private"), false},
	{"rebinding: through HTTP", func(w *world) {
		w.host("good.example", 80, "", "10.0.0.1")
		w.web(w.name("good.example", 80), "GET / HTTP/1.1\nHost: good.example\n\n")
	}, fmt.Sprintf(egress.ReasonForbidden, "private"), false},
	{"rebinding: between two connections", func(w *world) {
		c := w.name("good.example", 22)
		_, _ = io.WriteString(c, "one\n")
		if line, err := bufio.NewReader(c).ReadString('\n'); line != "one\n" {
			w.t.Fatal(line, err)
		}
		w.host("good.example", 22, "", "10.0.0.1")
		w.ended(w.name("good.example", 22))
	}, fmt.Sprintf(egress.ReasonForbidden, "private"), true},
}

// leadsTo is an attack by the owner of the name, whose address changes.
func leadsTo(addrs ...string) func(*world) {
	return func(w *world) {
		w.mu.Lock()
		w.hosts["good.example"] = nil
		for _, a := range addrs {
			w.hosts["good.example"] = append(w.hosts["good.example"], netip.MustParseAddr(a))
		}
		w.mu.Unlock()
		w.send(w.name("good.example", 22), nil)
	}
}

// again has the server of good.example ask for a second ClientHello, and sends bytes instead, which
// must not reach the server.
func (w *world) again(second []byte) {
	w.t.Helper()
	c := w.asking(hello(w.t, &tls.Config{ServerName: "good.example"}))
	if _, err := io.ReadFull(c, make([]byte, 45)); err != nil {
		w.t.Fatal(err)
	}
	w.send(c, second)
}

// ahead is again for bytes that are sent with the first ClientHello.
func (w *world) ahead(second []byte) {
	w.t.Helper()
	c := w.asking(append(hello(w.t, &tls.Config{ServerName: "good.example"}), second...))
	if text := w.ended(c); !strings.HasSuffix(text, string(alertDenied)) {
		w.t.Errorf("ended: got text %q; want text ends with alertDenied", text)
	}
}

// asking sends bytes to the server of good.example, which asks for a second ClientHello, and must
// not get one.
func (w *world) asking(first []byte) net.Conn {
	w.t.Helper()
	w.plain("good.example", 443, "93.184.216.34", func(c *net.TCPConn) {
		b := make([]byte, 4096)
		n, err := c.Read(b)
		if n < recordHeader || b[0] != recordHandshake || n != recordHeader+recordLength(b) {
			w.t.Errorf("the server received %q, %v", b[:n], err)
		}
		_, _ = c.Write(append([]byte{22, 3, 3, 0, 40, 2, 0, 0, 36, 3, 3}, append(helloRetry, 0, 0x13)...))
		if n, _ := c.Read(b); n > 0 {
			w.t.Errorf("the server received a second ClientHello %q", b[:n])
		}
	})
	c := w.name("good.example", 443)
	if _, err := c.Write(first); err != nil {
		w.t.Fatal(err)
	}
	return c
}

func (w *world) refusedName(name string) {
	w.t.Helper()
	if code, addr := w.ask(name, dnsmessage.TypeA); code != dnsmessage.RCodeNameError || addr.IsValid() {
		w.t.Errorf("ask: got code %v, addr %v; want code == dnsmessage.RCodeNameError and not addr.IsValid()", code, addr)
	}
}

func (w *world) refusedSOCKS(command, kind byte, host []byte, port uint16, want byte) {
	w.t.Helper()
	c, code := w.socks(command, kind, host, port)
	if code != want {
		w.t.Errorf("code %d, want %d", code, want)
	}
	w.ended(c)
}

// withName returns a ClientHello with a server name that package tls does not send.
func withName(t testing.TB, name string) []byte {
	placeholder := strings.Repeat("p", len(name)-2) + ".p"
	b := hello(t, &tls.Config{ServerName: placeholder})
	if bytes.Count(b, []byte(placeholder)) != 1 {
		t.Fatal("the ClientHello does not have its name once")
	}
	return bytes.Replace(b, []byte(placeholder), []byte(name), 1)
}

// withECH returns a ClientHello for good.example with the extension of an encrypted one, as GREASE
// has it.
func withECH(t testing.TB) []byte {
	b := hello(t, &tls.Config{ServerName: "good.example"})
	extension := []byte{0xfe, 0x0d, 0, 10, 0, 0, 1, 0, 1, 7, 0, 0, 0, 0}
	b = append(b, extension...)
	grow := func(at, size int) { // of a length field
		n := 0
		for i := range size {
			n = n<<8 | int(b[at+i])
		}
		n += len(extension)
		for i := range size {
			b[at+size-1-i] = byte(n >> (8 * i))
		}
	}
	grow(3, 2) // record
	grow(6, 3) // handshake message
	at := 9 + 2 + 32
	at += 1 + int(b[at])                           // session
	at += 2 + int(binary.BigEndian.Uint16(b[at:])) // cipher suites
	at += 1 + int(b[at])                           // compression
	grow(at, 2)                                    // extensions
	return b
}

// TestStatus: clients try again what may be better then, and nothing else.
func TestStatus(t *testing.T) {
	for reason, want := range map[string]int{
		egress.ReasonUnreached: 502, egress.ReasonResolve: 502, egress.ReasonSystem: 502, egress.ReasonUpstream: 502,
		egress.ReasonOwn: 403, fmt.Sprintf(egress.ReasonForbidden, "private"): 403, egress.ReasonName: 403, egress.ReasonUpstreamRefuses: 403,
	} {
		if got := statusOf(reason); got != want {
			t.Errorf("%s: status %d, want %d", reason, got, want)
		}
	}
}

// TestAttacks: each is refused, and reported; nothing but the name's own address is connected to.
func TestAttacks(t *testing.T) {
	checkLeaks(t)
	for _, attack := range attacks {
		t.Run(attack.name, func(t *testing.T) {
			w := newWorld(t, allow("good.example", "good.example:22", "*.wild.example"), func(o *Options) {
				if attack.reason == egress.ReasonSlow {
					o.patience = time.Second
				}
			})
			good := netip.MustParseAddr("93.184.216.34")
			w.site("good.example", good.String())
			w.page("good.example", good.String(), nil)
			w.plain("good.example", 22, good.String(), func(c *net.TCPConn) {
				b := make([]byte, 4096)
				n, _ := c.Read(b)
				if n > 0 && string(b[:n]) != "one\n" {
					t.Errorf("the server received %q", b[:n])
				}
				_, _ = c.Write(b[:n])
			})
			attack.try(w)
			if e := w.expect(attack.reason); e.Time.IsZero() || !strings.Contains("lookup connect proxy", e.Op) {
				t.Errorf("event %+v", e)
			} else if e.Reason == egress.ReasonSlow && e.Remedy != "" {
				t.Errorf("a slow client is advised to weaken a check: %s", e.Remedy)
			}
			w.mu.Lock()
			defer w.mu.Unlock()
			for _, to := range w.dialled {
				if !attack.touches || to.Addr() != good {
					t.Errorf("the gateway connected to %s", to)
				}
			}
			for _, e := range w.events {
				if e.Reason != attack.reason {
					t.Errorf("another event: %+v", e)
				}
			}
		})
	}
}

// What the event of an address through a proxy says.
func TestAddressRemedy(t *testing.T) {
	for addr, want := range map[string]egress.Event{
		"0.0.0.0":            {Address: "0.0.0.0"},
		"[::]":               {Address: "::"},
		"239.1.2.3":          {Address: "239.1.2.3"},
		"93.184.216.34":      {Address: "93.184.216.34", Remedy: "--add-host NAME:93.184.216.34"},
		"[2606:2800::1]":     {Address: "2606:2800::1", Remedy: "--add-host NAME:2606:2800::1"},
		"127.0.0.1":          {Address: "127.0.0.1", Remedy: "--expose 443"},
		"[::ffff:127.0.0.1]": {Address: "127.0.0.1", Remedy: "--expose 443"},
	} {
		w := newWorld(t, allow("good.example"))
		w.proxy("CONNECT " + addr + ":443 HTTP/1.1\nHost: x\n\n")
		if e := w.expect(egress.ReasonAddress); e.Op != egress.OpProxy || e.Address != want.Address || e.Remedy != want.Remedy || e.Name != "" || e.Port != 443 {
			t.Errorf("%s: event %+v", addr, e)
		}
	}
}

// Without the check of names, the same bytes pass.
func TestNoNameCheck(t *testing.T) {
	checkLeaks(t)
	p := allow("good.example:443,80")
	p.NoNameCheck = []string{"good.example"}
	w := newWorld(t, p)
	echo := func(c *net.TCPConn) { _, _ = io.Copy(c, c) }
	w.plain("good.example", 443, "93.184.216.34", echo)
	w.plain("good.example", 80, "93.184.216.34", echo)
	for _, port := range []uint16{80, 443} {
		c := w.name("good.example", port)
		_, _ = io.WriteString(c, "SSH-2.0-x\r\n")
		_ = c.CloseWrite()
		if text := w.ended(c); text != "SSH-2.0-x\r\n" {
			t.Errorf("port %d: %q", port, text)
		}
	}
	w.quiet()
	// A policy with the check closes what was not checked.
	c := w.name("good.example", 443)
	_, _ = io.WriteString(c, "x")
	if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	w.set(allow("good.example:443,80"))
	w.ended(c)
}

// New names below a wildcard are resolved at a bounded rate: the residual channel of the package's
// comment.
func TestNamesBelowWildcard(t *testing.T) {
	checkLeaks(t)
	w := newWorld(t, allow("*.wild.example:22", "named.wild.example:22"), func(o *Options) { o.patience = time.Millisecond })
	if w.g.lookups.Limit() != 4 || w.g.lookups.Burst() != 128 {
		t.Error("the limit is not the documented one")
	}
	w.g.lookups.SetLimit(0) // no time passes, as far as the limit goes
	const tries = 200
	for i := range tries {
		w.ended(w.name(fmt.Sprintf("data%d.wild.example", i), 22))
	}
	w.expect(egress.ReasonRate)
	w.ended(w.name("named.wild.example", 22)) // names of the policy are not limited, nor is one that was looked up
	w.ended(w.name("data0.wild.example", 22))
	w.mu.Lock()
	defer w.mu.Unlock()
	if n := len(w.looked); n != 129 || w.looked["data0.wild.example"] != 2 || w.looked["named.wild.example"] != 1 {
		t.Errorf("%d names were looked up", n)
	}
}

// DNS queries alone never reach the host's resolver, and fill no more than the address pool.
func TestBookFull(t *testing.T) {
	var b addrPool
	for i := range maxNames {
		p := b.assign(fmt.Sprint(i), false)
		if p == nil || b.find(p.addr) != p {
			t.Fatal(i)
		}
	}
	if b.assign("one more", false) != nil || b.assign("7", false) == nil {
		t.Error("the address pool's limit")
	}
	last := netip.MustParseAddr("127.65.0.255")
	if b.find(last) == nil || b.find(last.Next()) != nil || b.find(netip.MustParseAddr("127.64.0.255")) != nil {
		t.Error("the range of addresses")
	}
	if b.find(netip.MustParseAddr("::1")) != nil || b.find(netip.MustParseAddr("::ffff:127.64.1.0")) == nil || b.find(netip.Addr{}) != nil {
		t.Error("addresses of IPv6")
	}
	if p := b.assign("of the policy", true); p == nil || b.find(p.addr) != p {
		t.Error("a name of the policy has no address, since the program inside made up others")
	}
	last = last.Next()
	if b.find(last) == nil || b.find(last.Next()) != nil {
		t.Error("the range of addresses, with one of the policy")
	}
	w := newWorld(t, network.Policy{Learn: true})
	for i := range maxNames {
		w.g.names.assign(fmt.Sprint(i), false)
	}
	if code, _ := w.ask("a.example.", dnsmessage.TypeA); code != dnsmessage.RCodeServerFailure {
		t.Error(code)
	}
	w.expect(egress.ReasonFull)
}

// A connection that is being made when its name is to be checked again ends.
func TestNameCheckReturns(t *testing.T) {
	checkLeaks(t)
	began, hold := make(chan struct{}, 1), make(chan struct{})
	end := sync.OnceFunc(func() { close(hold) })
	p := network.Policy{Allow: []string{"good.example:443"}, NoNameCheck: []string{"good.example"}}
	var w *world
	w = newWorld(t, p, func(o *Options) {
		o.Dial = func(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
			began <- struct{}{}
			<-hold
			return w.dial(ctx, to)
		}
	})
	t.Cleanup(end)
	w.plain("good.example", 443, "93.184.216.34", func(c *net.TCPConn) { _, _ = io.Copy(c, c) })
	c := w.name("good.example", 443)
	wait.Receive(t, "the gateway connects", began)
	p.NoNameCheck = nil
	checked, err := p.Compile()
	if err != nil {
		t.Fatal(err)
	}
	if err := w.g.SetPolicy(checked); err != nil {
		t.Fatal(err)
	}
	_, _ = io.WriteString(c, "not TLS")
	_ = c.CloseWrite()
	end()
	if text := w.ended(c); text != "" {
		t.Errorf("the server answered %q", text)
	}
}

// A client of SOCKS5 is answered when an attempt to connect fails later than a request may take.
func TestSOCKSLate(t *testing.T) {
	checkLeaks(t)
	var w *world
	w = newWorld(t, allow("slow.example:8000"), func(o *Options) {
		o.Dial = func(context.Context, netip.AddrPort) (net.Conn, error) {
			w.g.mu.Lock()
			defer w.g.mu.Unlock()
			for v := range w.g.inbound {
				_ = v.SetDeadline(time.Unix(1, 0)) // as if that time had passed
			}
			return nil, errors.New("no answer")
		}
	})
	w.host("slow.example", 8000, "", "93.184.216.34")
	if _, code := w.socks(socksConnect, socksName, []byte("slow.example"), 8000); code != socksRefused {
		t.Error(code)
	}
	w.expect(egress.ReasonUnreached)
}

// Each refusal is an event, however many were equal or different before.
func TestEvents(t *testing.T) {
	w := newWorld(t, allow("good.example"))
	const equal, different = 40, 2000
	for range equal {
		w.ask("same.example.", dnsmessage.TypeA)
	}
	for i := range different {
		w.ask(fmt.Sprintf("%d.example.", i), dnsmessage.TypeA)
	}
	got := map[string]int{}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range w.events {
		got[e.Name]++
	}
	if got["same.example"] != equal || len(got) != 1+different || len(w.events) != equal+different {
		t.Errorf("%d events of %d names, %d of the same", len(w.events), len(got), got["same.example"])
	}
}
