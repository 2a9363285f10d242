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

// A verified reader ends only if what it has read has the size and digest that
// it should have; an empty digest is not looked at.
type verified struct {
	what   string // for errors
	r      io.Reader
	digest string
	size   int64

	read int64
	sum  hash.Hash
	err  error // the one that Read gave
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
		v.err = runtime.Errorf(runtime.ErrInvalid, "%s is longer than the %d bytes that it should have", v.what, v.size)
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
		v.err = runtime.Errorf(runtime.ErrInvalid, "%s is damaged or not what it claims to be: its digest is %s, not %s", v.what, v.got(), v.digest)
	default:
		v.err = io.EOF
	}
	return n, v.err
}

func (v *verified) got() string { return "sha256:" + hex.EncodeToString(v.sum.Sum(nil)) }

func (v *verified) cut() error {
	return runtime.Errorf(runtime.ErrInvalid, "%s is cut off: there are %d of %d bytes", v.what, v.read, v.size)
}

// unavailable classes an error that has no class.
func unavailable(err error) error {
	if runtime.Class(err) != nil {
		return err
	}
	return runtime.WithClass(runtime.ErrUnavailable, err)
}

// A layer is the plain form of what is read from raw.
type layer struct {
	plain io.Reader
	raw   *verified
	stop  func()
}

// maxWindow bounds the memory for a layer that zstd has compressed, in bytes:
// its tool makes up to 128 MiB if it is asked for it (zstd(1), --ultra).
const maxWindow = 128 << 20

// newLayer looks at the first bytes to tell how raw is compressed: what media
// types say is not always true, and archives say nothing. stop is called by
// Close.
func newLayer(raw *verified, stop func()) (*layer, error) {
	l := &layer{raw: raw, stop: stop}
	in := bufio.NewReaderSize(raw, 64<<10)
	start, _ := in.Peek(4) // its error comes back with the next read
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

// why finds out what an error, or the end, of the plain form means: when raw
// itself is not what it should be, that comes first.
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
