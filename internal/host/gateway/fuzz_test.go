package gateway

import (
	"bytes"
	"crypto/tls"
	"net/netip"
	"strings"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
)

// FuzzDNS: no query makes the handler panic; an answer is small, is one to the query, and has
// no other address than the decision's.
func FuzzDNS(f *testing.F) {
	f.Add(query("a.example.", dnsmessage.TypeA))
	f.Add(query("a.example.", dnsmessage.TypeAAAA))
	f.Add(query(strings.Repeat("a.", 120)+"example.", dnsmessage.TypeA))
	f.Add([]byte{0, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0xc0, 12, 0, 1, 0, 1}) // a name that points to itself
	f.Add([]byte{0, 7, 1, 0, 0, 1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0, 1, 0, 1})
	addr := netip.MustParseAddr("127.64.1.0")
	f.Fuzz(func(t *testing.T, b []byte) {
		decided := false
		message := answer(b, func(name string, kind dnsmessage.Type) reply {
			decided = true
			if !strings.HasSuffix(name, ".") || len(name) > 255 {
				t.Errorf("name %q", name)
			}
			return endpoint(kind, addr)
		})
		if message == nil {
			return
		}
		var m dnsmessage.Message
		if err := m.Unpack(message); err != nil || len(message) > 512 || !m.Response || !bytes.Equal(message[:2], b[:2]) {
			t.Fatalf("answer %x: %v", message, err)
		}
		if len(m.Answers) > 0 && (!decided || m.Answers[0].Body.(*dnsmessage.AResource).A != addr.As4()) {
			t.Errorf("answer %+v", m)
		}
	})
}

// FuzzPeek: what a connection begins with passes only with the server name, and as it was.
func FuzzPeek(f *testing.F) {
	f.Add(hello(f, &tls.Config{ServerName: "good.example"}))
	f.Add(hello(f, &tls.Config{ServerName: "evil.example"}))
	f.Add(hello(f, &tls.Config{ServerName: "good.example", MaxVersion: tls.VersionTLS12}))
	f.Add(withECH(f))
	f.Add([]byte("SSH-2.0-x\r\n"))
	f.Add(bytes.Repeat([]byte{22, 3, 1, 0, 0}, 100))
	f.Fuzz(func(t *testing.T, b []byte) {
		read, reason := peekTLS(bytes.NewReader(b), "good.example")
		if !bytes.HasPrefix(b, read) || len(read) > maxPeek {
			t.Fatalf("read %x of %x", read, b)
		}
		if reason == "" && !bytes.Contains(bytes.ToLower(read), []byte("good")) { // the name may be split by a record
			t.Errorf("%x passes", b)
		}
		begun := false
		read, reason = peekAny(bytes.NewReader(b), "good.example", func() { begun = true })
		if !bytes.HasPrefix(b, read) || begun != (len(b) > 0 && b[0] == recordHandshake) || !begun && reason != "" {
			t.Fatalf("begun %t, reason %q, read %x of %x", begun, reason, read, b)
		}
	})
}
