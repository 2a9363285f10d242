package gateway

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"slices"
	"time"

	"wolffia/internal/host/egress"
	"wolffia/network"
)

// maxPeek is how many bytes are read ahead, to check them, of a connection. The largest
// ClientHellos of clients have some 4 KiB; each byte takes about two and a half of memory.
const maxPeek = 32 << 10

// recordHandshake is the first byte of a TLS connection, and recordHeader the size of what
// precedes the content of a record (RFC 8446, 5.1).
const (
	recordHandshake = 0x16
	recordHeader    = 5
)

// Extensions of a ClientHello that hide the server name: ECH, and the draft before it.
const (
	extensionECH  = 0xfe0d
	extensionESNI = 0xffce
)

// A recorder keeps the bytes that are read from a connection, in bounded memory, and writes
// nothing to it. It reads no byte behind the current record of TLS: the server's answer decides
// whether the bytes after a ClientHello must be checked.
type recorder struct {
	from   io.Reader
	read   []byte
	record int // where the current record begins in read
}

var (
	errPeekLimit = errors.New("the limit of bytes to check is reached")
	errPeeked    = errors.New("the ClientHello is read")
)

func (r *recorder) Read(b []byte) (int, error) {
	if len(r.read) >= maxPeek {
		return 0, errPeekLimit
	}
	end := r.record + recordHeader
	if len(r.read) >= end {
		end += recordLength(r.read[r.record:])
	}
	if len(r.read) == end { // with the content
		r.record, end = end, end+recordHeader
	}
	b = b[:min(len(b), end-len(r.read), maxPeek-len(r.read))]
	n, err := r.from.Read(b)
	r.read = append(r.read, b[:n]...)
	return n, err
}

// recordLength returns the length of the content of a record whose header has arrived.
func recordLength(record []byte) int { return int(binary.BigEndian.Uint16(record[recordHeader-2:])) }

// single reports whether whole records hold one message of a handshake, and nothing else.
func single(records []byte) bool {
	var content []byte
	for len(records) >= recordHeader {
		end := recordHeader + recordLength(records)
		if records[0] != recordHandshake || end > len(records) {
			return false
		}
		content, records = append(content, records[recordHeader:end]...), records[end:]
	}
	const head = 4 // the type, and the length in 24 bits
	return len(records) == 0 && len(content) >= head && head+int(binary.BigEndian.Uint32(content)&0xffffff) == len(content)
}

func (r *recorder) Write(b []byte) (int, error)      { return len(b), nil }
func (r *recorder) Close() error                     { return nil }
func (r *recorder) LocalAddr() net.Addr              { return nil }
func (r *recorder) RemoteAddr() net.Addr             { return nil }
func (r *recorder) SetDeadline(time.Time) error      { return nil }
func (r *recorder) SetReadDeadline(time.Time) error  { return nil }
func (r *recorder) SetWriteDeadline(time.Time) error { return nil }

// peekTLS reads a ClientHello, by the parser of crypto/tls. It returns the bytes that it has read,
// and the reason to refuse the connection: "" if the server name is the name.
func peekTLS(from io.Reader, name string) (read []byte, reason string) {
	record := &recorder{from: from}
	var hello *tls.ClientHelloInfo
	config := &tls.Config{GetConfigForClient: func(h *tls.ClientHelloInfo) (*tls.Config, error) {
		hello = h
		return nil, errPeeked
	}}
	err := tls.Server(record, config).HandshakeContext(context.Background())
	if hello == nil {
		return record.read, handshakeReason(record.read, err)
	}
	reason = helloReason(hello, name)
	if reason == "" && !single(record.read) {
		reason = egress.ReasonBadTLS
	}
	return record.read, reason
}

// handshakeReason returns the reason to refuse a connection that began with the bytes, in which no
// ClientHello could be read.
func handshakeReason(read []byte, err error) string {
	var timeout net.Error
	switch {
	case errors.As(err, &timeout) && timeout.Timeout():
		return egress.ReasonSlow
	case len(read) > 0 && read[0] != recordHandshake:
		return egress.ReasonNotTLS
	}
	return egress.ReasonBadTLS
}

// helloReason returns the reason to refuse a ClientHello, and "" if it is for the name.
func helloReason(hello *tls.ClientHelloInfo, name string) string {
	if slices.Contains(hello.Extensions, extensionECH) || slices.Contains(hello.Extensions, extensionESNI) {
		return egress.ReasonECH
	}
	if hello.ServerName == "" {
		return egress.ReasonNoSNI
	}
	if normal, err := network.NormalName(hello.ServerName); err != nil || normal != name {
		return egress.ReasonSNI
	}
	return ""
}

// peekAny reads the first bytes of a connection on a port without a protocol of its own. If they
// begin TLS, it reads the ClientHello and checks it as peekTLS does. begun is called when the
// first bytes have arrived.
func peekAny(from io.Reader, name string, begun func()) (read []byte, reason string) {
	first := make([]byte, 4096)
	n, err := from.Read(first)
	if n == 0 || first[0] != recordHandshake {
		return first[:n], ""
	}
	begun()
	if err != nil {
		return first[:n], egress.ReasonBadTLS
	}
	ahead := bytes.NewReader(first[:n])
	read, reason = peekTLS(io.MultiReader(ahead, from), name)
	return append(read, first[n-ahead.Len():n]...), reason
}
