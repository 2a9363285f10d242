package image

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash"
	"io"

	"github.com/klauspost/compress/zstd"

	"wolffia/runtime"
)

// A verified reader returns io.EOF only if the bytes that it has read have the expected
// size and digest; "" means any digest. Otherwise it returns an error.
type verified struct {
	what   string // the subject of errors
	r      io.Reader
	digest string
	size   int64

	read int64
	sum  hash.Hash
	err  error // of Read, for later calls
}

func newVerified(what, digest string, size int64, r io.Reader) *verified {
	return &verified{what: what, r: r, digest: digest, size: size, sum: sha256.New()}
}

func (v *verified) Read(b []byte) (int, error) {
	if v.err != nil {
		return 0, v.err
	}
	n, err := v.r.Read(b)
	v.read += int64(n)
	v.sum.Write(b[:n])
	switch {
	case v.read > v.size:
		v.err = runtime.Errorf(runtime.ErrInvalid, "%s has more than the expected %d bytes", v.what, v.size)
		return 0, v.err
	case err == nil:
	case !errors.Is(err, io.EOF):
		v.err = unavailable(err)
		if v.read < v.size && errors.Is(err, io.ErrUnexpectedEOF) {
			v.err = v.cut()
		}
	case v.read < v.size:
		v.err = v.cut()
	case v.digest != "" && v.digest != v.got():
		v.err = runtime.Errorf(runtime.ErrInvalid, "%s is damaged: its digest is %s, want %s", v.what, v.got(), v.digest)
	default:
		v.err = io.EOF
	}
	return n, v.err
}

func (v *verified) got() string { return "sha256:" + hex.EncodeToString(v.sum.Sum(nil)) }

func (v *verified) cut() error {
	return runtime.Errorf(runtime.ErrInvalid, "%s is cut off after %d of %d bytes", v.what, v.read, v.size)
}

// unavailable gives an error that has no class the class ErrUnavailable.
func unavailable(err error) error {
	if runtime.Class(err) != nil {
		return err
	}
	return runtime.WithClass(runtime.ErrUnavailable, err)
}

// A layer reads the uncompressed form of raw.
type layer struct {
	plain io.Reader
	raw   *verified
	stop  func()
}

// maxWindow bounds the memory for decompressing zstd, in bytes. zstd(1) compresses with up
// to 128 MiB (--ultra).
const maxWindow = 128 << 20

// newLayer detects the compression of raw by its first bytes: media types are not always
// right, and archives have none. Close calls stop.
func newLayer(raw *verified, stop func()) (*layer, error) {
	l := &layer{raw: raw, stop: stop}
	in := bufio.NewReaderSize(raw, 64<<10)
	start, _ := in.Peek(4) // the next read returns its error
	var err error
	switch {
	case bytes.HasPrefix(start, []byte{0x1f, 0x8b}): // RFC 1952
		l.plain, err = gzip.NewReader(in)
	case bytes.Equal(start, []byte{0x28, 0xb5, 0x2f, 0xfd}): // RFC 8878
		var z *zstd.Decoder
		z, err = zstd.NewReader(in, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindow))
		if err == nil {
			l.plain, l.stop = z, func() { z.Close(); stop() }
		}
	default:
		l.plain = in
	}
	if err != nil {
		err = l.why(err)
		stop()
		return nil, err
	}
	return l, nil
}

func (l *layer) Read(b []byte) (int, error) {
	n, err := l.plain.Read(b)
	if err != nil {
		err = l.why(err)
	}
	return n, err
}

// why returns the error for an error, or the end, of the uncompressed form. An error of raw
// itself comes first.
func (l *layer) why(err error) error {
	_, rest := io.Copy(io.Discard, l.raw)
	switch {
	case rest != nil:
		return rest
	case errors.Is(err, io.EOF):
		return io.EOF
	}
	return runtime.Errorf(runtime.ErrInvalid, "%s cannot be decompressed: %w", l.raw.what, err)
}

func (l *layer) Close() error {
	l.stop()
	return nil
}
