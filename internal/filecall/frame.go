package filecall

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// A frame is its length as four bytes, the most significant first, and so many bytes. A Request and a Reply are a frame of
// JSON each; a content is frames, of which the last one is empty.

// maxFrame is how many bytes of a content a Sender puts into a frame.
const maxFrame = 256 << 10

// A Sender writes frames. It is not safe for concurrent use.
type Sender struct {
	w   io.Writer
	buf []byte // of the last frame of a content
}

// NewSender returns a Sender to w.
func NewSender(w io.Writer) *Sender { return &Sender{w: w} }

// JSON writes v, a Reply.
func (s *Sender) JSON(v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return s.Frame(b)
}

// Write implements [io.Writer]: b is the next part of a content.
func (s *Sender) Write(b []byte) (n int, err error) {
	for len(b) > 0 {
		part := b[:min(len(b), maxFrame)]
		if err := s.Frame(part); err != nil {
			return n, err
		}
		n, b = n+len(part), b[len(part):]
	}
	return n, nil
}

// End writes the end of a content.
func (s *Sender) End() error { return s.Frame(nil) }

// Frame writes a frame, such as one with the JSON of a Request.
func (s *Sender) Frame(b []byte) error {
	if cap(s.buf) < 4+len(b) {
		s.buf = make([]byte, 0, 4+len(b))
	}
	frame := append(binary.BigEndian.AppendUint32(s.buf[:0], uint32(len(b))), b...)
	if len(b) > maxFrame {
		s.buf = nil
	}
	_, err := s.w.Write(frame)
	return err
}

// ErrDamaged is wrapped by the error for a frame that is not what is expected.
var ErrDamaged = errors.New("it is damaged")

// A Receiver reads frames. It is not safe for concurrent use.
type Receiver struct {
	r    *bufio.Reader
	left int  // of the present frame of a content
	open bool // a content has not ended
}

// NewReceiver returns a Receiver from r.
func NewReceiver(r io.Reader) *Receiver { return &Receiver{r: bufio.NewReaderSize(r, 64<<10)} }

// JSON reads v, a Request or a Reply of at most most bytes. The error is io.EOF if there is none.
func (r *Receiver) JSON(v any, most int) error {
	n, err := r.length()
	if err != nil {
		return err
	}
	if n > most {
		return fmt.Errorf("%w: more than was asked for", ErrDamaged)
	}
	b, err := io.ReadAll(io.LimitReader(r.r, int64(n))) // memory for what comes, whatever is announced
	if err == nil && len(b) < n {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return err
	}
	if err := json.Unmarshal(b, v); err != nil {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return nil
}

// length reads the length of a frame.
func (r *Receiver) length() (int, error) {
	var head [4]byte
	_, err := io.ReadFull(r.r, head[:])
	return int(binary.BigEndian.Uint32(head[:])), err
}

// Begin begins a content, which Read reads.
func (r *Receiver) Begin() { r.left, r.open = 0, true }

// Ended reports whether all of the content was read.
func (r *Receiver) Ended() bool { return !r.open }

// Read implements [io.Reader] for a content. One that is cut off is io.ErrUnexpectedEOF.
func (r *Receiver) Read(b []byte) (int, error) {
	if r.open && r.left == 0 {
		n, err := r.length()
		if err != nil {
			return 0, cut(err)
		}
		r.left, r.open = n, n > 0
	}
	if !r.open {
		return 0, io.EOF
	}
	n, err := r.r.Read(b[:min(len(b), r.left)])
	r.left -= n
	return n, cut(err)
}

func cut(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
