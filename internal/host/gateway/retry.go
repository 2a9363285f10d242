package gateway

import (
	"bytes"
	"errors"
	"io"
	"time"

	"wolffia/internal/host/egress"
)

// A server of TLS 1.3 may ask for a second ClientHello. Its server name is checked as that of
// the first: not every server compares them.

// helloRetry is the random of a ServerHello that asks for one (RFC 8446, 4.1.3).
var helloRetry = []byte{
	0xcf, 0x21, 0xad, 0x74, 0xe5, 0x9a, 0x61, 0x11, 0xbe, 0x1d, 0x8c, 0x02, 0x1e, 0x65, 0xb8, 0x91,
	0xc2, 0xa2, 0x11, 0x16, 0x7a, 0xbb, 0x8c, 0x5e, 0x07, 0x9e, 0x09, 0xe2, 0xc8, 0xa8, 0x33, 0x9c,
}

const (
	recordChangeCipherSpec = 0x14
	serverHello            = 2
	randomAt               = 5 + 4 + 2 // behind the record's header, the message's, and the version
)

// asksAgain reports whether a server's first bytes are a ServerHello that asks for a second
// ClientHello; more, whether that takes more bytes.
func asksAgain(b []byte) (again, more bool) {
	if len(b) > 0 && b[0] != recordHandshake || len(b) > 5 && b[5] != serverHello {
		return false, false
	}
	if len(b) < randomAt+len(helloRetry) {
		return false, true
	}
	return bytes.HasPrefix(b[randomAt:], helloRetry), false
}

// relayTLS sends what a client began with and relays the connection. Until the server has
// answered, the client's further bytes wait.
func (g *Gateway) relayTLS(v *inboundConn, out *outboundConn, first []byte) {
	again, err := g.answerTLS(v, out, first)
	if err != nil {
		abort(v, out)
		return
	}
	relay(v, out, func() error {
		if again {
			return g.checkSecond(v, out)
		}
		return flush(v, out, nil)
	})
}

// answerTLS sends a ClientHello, and passes on what the server answers first.
func (g *Gateway) answerTLS(v *inboundConn, out *outboundConn, first []byte) (again bool, err error) {
	if _, err := out.Conn.Write(first); err != nil {
		return false, err
	}
	if err := out.Conn.SetReadDeadline(time.Now().Add(dialPatience)); err != nil {
		return false, err
	}
	b := make([]byte, 0, 4096)
	for more := true; more; again, more = asksAgain(b) {
		n, err := out.Conn.Read(b[len(b):cap(b)])
		b = b[:len(b)+n]
		if errors.Is(err, io.EOF) {
			break // relayed as it is
		}
		if err != nil {
			return false, err
		}
	}
	if err := out.Conn.SetReadDeadline(time.Time{}); err != nil {
		return false, err
	}
	if _, err := v.Conn.Write(b); err != nil {
		return false, err
	}
	return again, nil
}

// checkSecond passes on a second ClientHello, if it is for the name.
func (g *Gateway) checkSecond(v *inboundConn, out *outboundConn) error {
	_ = v.SetReadDeadline(g.soon())
	second, reason := peekSecond(v, v.to.name)
	_ = v.SetReadDeadline(time.Time{})
	if reason != "" {
		if len(second) > 0 { // else it ended, which is an answer too
			v.report(egress.Event{Reason: reason})
			v.alert()
		}
		return errRefused
	}
	return flush(v, out, second)
}

// peekSecond reads a second ClientHello as peekTLS reads the first. A ChangeCipherSpec, which
// exists for middleboxes (RFC 8446, D.4), may precede it.
func peekSecond(from io.Reader, name string) (read []byte, reason string) {
	head := make([]byte, 6)
	if n, err := io.ReadFull(from, head); err != nil {
		return head[:n], handshakeReason(head[:n], err)
	}
	if head[0] != recordChangeCipherSpec || head[3] != 0 || head[4] != 1 {
		return peekTLS(io.MultiReader(bytes.NewReader(head), from), name)
	}
	read, reason = peekTLS(from, name)
	return append(head, read...), reason
}
