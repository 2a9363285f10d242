// Package wire is the framed protocol that PID 1 speaks with the host. It goes over PID
// 1's standard input and output. A shim relays it to its clients unchanged but for the
// channel numbers. docs/wire.md specifies it: frames, channels, credit.
//
// Nothing here trusts the other side: every length is checked before it is
// used.
package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"
)

// Version is the protocol's version, told in [Hello]. Both ends are built
// together; a guest of another version is refused.
const Version = 10

// HeaderSize and MaxPayload bound a frame, in bytes.
const (
	HeaderSize = 8
	MaxPayload = 64 << 10
)

// Window is the credit that a stream starts with, in bytes.
const Window = 512 << 10

// MaxStart bounds a [StartRequest] in all its pieces, in bytes: see [TooLongError].
// The kernel takes no more than 2 MiB of arguments and environment (execve(2)).
const MaxStart = 4 << 20

// MaxControl bounds a [Control] request in all its pieces, in bytes.
const MaxControl = 8 << 20

// MaxCredit bounds the credit that one stream can hold, in bytes, so that a
// reader cannot make a relay queue without limit.
const MaxCredit = 4 << 20

// A Type is the meaning of a frame.
type Type uint8

// The frames. The zero Type is invalid.
const (
	_ Type = iota

	// From the host.
	StartMore  // a new channel: a piece of a [StartRequest] that Start completes
	Start      // opens a new channel: [StartRequest], or its last piece
	Stdin      // bytes for the process
	StdinClose // empty: the end of input
	Signal     // u8: a signal's number, for the process group; of a socket see NetRequest
	Resize     // rows u16 LE, columns u16 LE
	Kill       // empty: kill the process tree; the channel ends with Exit, or Failed if Start is not complete
	Shutdown   // channel 0; u32 LE: milliseconds between TERM to all processes and the end of PID 1
	Ping       // channel 0; up to 64 bytes that Pong repeats
	Control    // channel 0; JSON request to the shim, or its last piece; a guest never sees it

	// From the guest.
	Hello     // channel 0; the first frame, once: JSON of [Greeting]
	Started   // u32 LE: the process id inside, once; of a session 0, when the time-out begins; of a socket two addresses
	Stdout    // bytes, not empty
	Stderr    // bytes, not empty
	StdoutEOF // empty; at most once; Exit ends both streams too
	StderrEOF // empty; at most once
	Exit      // JSON of [ExitStatus]; the last frame of the channel
	Failed    // JSON of [Failure]; the last frame of the channel
	Pong      // channel 0; the payload of the Ping that it answers
	Reply     // channel 0; JSON answer of the shim to Control; a guest never sends it

	// From both.
	Credit // stream u8 (the number of Stdin, Stdout or Stderr), bytes u32 LE, at most MaxCredit

	// From the host, later.
	ControlMore // channel 0; a piece of a request that Control completes
	WatchBusy   // channel 0; empty: send Busy frames from now on

	// From the guest, later.
	Busy   // channel 0; u32 LE: how many jobs and kept commands run; sent when that leaves 0 or becomes 0
	Queued // empty: a session's command waits for its turn; at most once, before Started

	// From the host, of a pause.
	Quiesce // channel 0; empty: complete the frame that is being written, and answer Quiet; no other frame comes before Resumed
	Resumed // channel 0; empty: the end of that

	// From the guest, of a pause.
	Quiet // channel 0; empty: the answer to Quiesce; no other frame comes before Resumed

	// From the host, in place of a start.
	Restored // channel 0; empty, on a new stream, in place of Resumed: all channels have ended, Hello follows

	// From the host, later still.
	Detach // empty: as Kill; but a process with Keep goes on, and only its channel ends, with Exit

	typeEnd
)

// ErrProtocol is wrapped by every complaint about what the other side sent.
var ErrProtocol = errors.New("protocol error")

// A Frame is one message. Its payload lies in a pooled buffer: call Release
// when it is no longer needed, exactly once, and do not touch it after.
type Frame struct {
	Type    Type
	Channel uint32
	buf     []byte // of a buffer, or shrunk
	n       int
}

// A buffer holds a whole frame, so that it can be read and passed on without a copy. A small one
// is for a frame of at most large bytes in all, as most frames are. A process that waits has many
// buffers, and uses only a few bytes of each.
type (
	buffer [HeaderSize + MaxPayload]byte
	small  [large]byte
)

var (
	buffers = sync.Pool{New: newBuffer}
	smalls  = sync.Pool{New: func() any { return new(small) }}
)

// newBuffer returns a *buffer that begins with byte 64 of a page, so that its payload begins with
// byte 72. A copy by the kernel from the beginning of one of its pages to one of the bytes 1 to 15
// of ours takes four times as long on processors of AMD (rep movsb: source and destination then
// seem to overlap): 64 KiB from a pipe take 24 microseconds at byte 8, and 6 at 0, 16 or 72.
func newBuffer() any {
	// Go's allocator begins an object of this size with a page.
	return &new(struct {
		_ [64]byte
		b buffer
	}).b
}

// large is the size, in bytes, from which a frame gets the Reader's buffer, instead of a copy of
// its payload.
const large = 4 << 10

// putBuffer returns b to the pool if b is a whole buffer.
func putBuffer(b []byte) {
	if len(b) < cap(b) {
		return // Append has grown it
	}
	switch len(b) {
	case len(buffer{}):
		buffers.Put((*buffer)(b))
	case len(small{}):
		smalls.Put((*small)(b))
	}
}

// NewFrame returns a frame with an empty payload of capacity MaxPayload.
func NewFrame(t Type, channel uint32) Frame {
	return Frame{Type: t, Channel: channel, buf: buffers.Get().(*buffer)[:]}
}

// newFrame returns a frame with a payload of n bytes, which are not set.
func newFrame(t Type, channel uint32, n int) Frame {
	if HeaderSize+n > len(small{}) {
		f := NewFrame(t, channel)
		f.n = n
		return f
	}
	return Frame{Type: t, Channel: channel, buf: smalls.Get().(*small)[:], n: n}
}

// Enqueue appends a frame to those that wait for whom it is for, and takes it over. When
// there are many it is shrunk: who sends them decides how many wait, by the bytes in
// them.
func Enqueue(queue []Frame, f Frame) []Frame {
	const many = 16
	if len(queue) >= many {
		f.Shrink()
	}
	return append(queue, f)
}

// Payload is the frame's content.
func (f *Frame) Payload() []byte { return f.buf[HeaderSize : HeaderSize+f.n] }

// Room is the whole space for the payload; SetLen says how much of it counts.
// Precondition: the frame is from NewFrame, and was not shrunk.
func (f *Frame) Room() []byte { return f.buf[HeaderSize : HeaderSize+MaxPayload] }

// SetLen sets the payload's length.
// Precondition: 0 <= n <= MaxPayload.
func (f *Frame) SetLen(n int) { f.n = n }

// Release returns the frame's buffer to the pool.
func (f *Frame) Release() {
	putBuffer(f.buf)
	f.buf = nil
}

// Shrink releases the room that the payload does not use, which takes a copy. It is for a frame
// that may have to wait for long; see Enqueue.
func (f *Frame) Shrink() {
	if need := HeaderSize + f.n; need <= len(f.buf)/2 {
		shrunk := append(make([]byte, 0, need), f.Bytes()...)
		f.Release()
		f.buf = shrunk
	}
}

// Append adds bytes to the payload. It reports false, and adds nothing, if they do not fit.
func (f *Frame) Append(p []byte) bool {
	n := f.n + len(p)
	if n > MaxPayload {
		return false
	}
	if HeaderSize+n > len(small{}) && len(f.buf) == len(small{}) {
		grown := NewFrame(f.Type, f.Channel)
		copy(grown.Room(), f.Payload())
		f.Release()
		f.buf = grown.buf
	}
	if HeaderSize+n <= len(f.buf) {
		copy(f.buf[HeaderSize+f.n:], p)
	} else {
		f.buf = append(f.buf[:HeaderSize+f.n], p...)
	}
	f.n = n
	return true
}

// Bytes is the whole frame as it goes over the wire.
func (f *Frame) Bytes() []byte {
	b := f.buf[:HeaderSize+f.n]
	binary.LittleEndian.PutUint32(b, uint32(f.n)<<8|uint32(f.Type))
	binary.LittleEndian.PutUint32(b[4:], f.Channel)
	return b
}

// A Reader reads frames. It is not safe for concurrent use. Its owner calls Release after the last
// Next.
type Reader struct {
	r       io.Reader
	buf     []byte // unread input is buf[at:end]; small, until more than it holds has come at once
	at, end int
}

// NewReader returns a Reader that buffers bytes from r.
func NewReader(r io.Reader) *Reader {
	return &Reader{r: r, buf: smalls.Get().(*small)[:]}
}

// Release returns the Reader's buffer to the pool. The Reader cannot be used afterwards; its
// frames can.
func (r *Reader) Release() {
	putBuffer(r.buf)
	r.buf = nil
}

// Next returns the next frame. The error is io.EOF only between frames; a
// frame that is cut short is io.ErrUnexpectedEOF, one that is malformed
// wraps [ErrProtocol]. After an error the Reader is of no further use.
func (r *Reader) Next() (Frame, error) {
	if err := r.fill(HeaderSize); err != nil {
		return Frame{}, err
	}
	head := binary.LittleEndian.Uint32(r.buf[r.at:])
	channel := binary.LittleEndian.Uint32(r.buf[r.at+4:])
	t, n := Type(head), int(head>>8)
	if t == 0 || t >= typeEnd {
		return Frame{}, fmt.Errorf("%w: frame of unknown type %d", ErrProtocol, t)
	}
	if n > MaxPayload {
		return Frame{}, fmt.Errorf("%w: frame of %d bytes, at most %d are allowed", ErrProtocol, n, MaxPayload)
	}
	if r.at == 0 && n >= large && len(r.buf) == len(buffer{}) {
		return r.passBuffer(t, channel, n)
	}
	r.at += HeaderSize
	f := newFrame(t, channel, n)
	rest := f.Payload()
	got := copy(rest, r.buf[r.at:r.end])
	r.at += got
	return r.complete(f, got)
}

// passBuffer returns the frame at the start of the buffer, in that buffer. The Reader gets another
// buffer.
func (r *Reader) passBuffer(t Type, channel uint32, n int) (Frame, error) {
	f := Frame{Type: t, Channel: channel, buf: r.buf, n: n}
	got := min(r.end-HeaderSize, n)
	r.buf = buffers.Get().(*buffer)[:]
	r.at, r.end = 0, copy(r.buf, f.buf[HeaderSize+got:r.end])
	return r.complete(f, got)
}

// complete reads the rest of a frame's payload; got bytes of it are read already.
func (r *Reader) complete(f Frame, got int) (Frame, error) {
	if got == f.n {
		return f, nil
	}
	if _, err := io.ReadFull(r.r, f.Payload()[got:]); err != nil {
		f.Release()
		return Frame{}, cutShort(err)
	}
	return f, nil
}

// fill makes at least n bytes available at r.at.
func (r *Reader) fill(n int) error {
	if r.end-r.at >= n {
		return nil
	}
	r.makeRoom()
	got, err := io.ReadAtLeast(r.r, r.buf[r.end:], n-r.end)
	begun := r.end > 0
	r.end += got
	if err != nil && begun {
		return cutShort(err)
	}
	return err
}

// makeRoom moves the unread bytes to the front, of a larger buffer if this one was full.
func (r *Reader) makeRoom() {
	old := r.buf
	if r.end == len(small{}) && len(old) == len(small{}) { // there may have been more
		r.buf = buffers.Get().(*buffer)[:]
		defer putBuffer(old)
	}
	r.end = copy(r.buf, old[r.at:r.end])
	r.at = 0
}

func cutShort(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// A Writer writes frames, each in one call. It is safe for concurrent use.
// After an error the Writer is of no further use.
type Writer struct {
	mu  sync.Mutex
	w   io.Writer // guarded by mu
	out *Outbox   // in place of w; or nil
}

// NewWriter returns a Writer to w, unbuffered.
func NewWriter(w io.Writer) *Writer { return &Writer{w: w} }

// NewOutboxWriter returns a Writer that never waits: its frames go to an Outbox.
func NewOutboxWriter(o *Outbox) *Writer { return &Writer{out: o} }

// Write sends f. The frame stays the caller's to release, and has no payload any more.
func (w *Writer) Write(f *Frame) error {
	if w.out != nil {
		w.out.send(f)
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	_, err := w.w.Write(f.Bytes())
	return err
}

// Send writes a frame with the given payload.
// Precondition: len(payload) <= MaxPayload.
func (w *Writer) Send(t Type, channel uint32, payload []byte) error {
	f := newFrame(t, channel, len(payload))
	defer f.Release()
	copy(f.Payload(), payload)
	return w.Write(&f)
}

// Hold writes a frame of channel 0 without a payload, after which all writers wait until Free. It writes to no
// Outbox.
func (w *Writer) Hold(t Type) error {
	w.mu.Lock() // Free unlocks it
	return w.bare(t)
}

// Free writes frames without a payload, and ends a Hold, also after an error of that.
func (w *Writer) Free(last ...Type) error {
	defer w.mu.Unlock()
	for _, t := range last {
		if err := w.bare(t); err != nil {
			return err
		}
	}
	return nil
}

// bare writes a frame of channel 0 without a payload. w.mu is held.
func (w *Writer) bare(t Type) error {
	f := newFrame(t, 0, 0)
	defer f.Release()
	_, err := w.w.Write(f.Bytes())
	return err
}

// Discard ends a Hold, and has all that is written from now on go nowhere.
func (w *Writer) Discard() {
	w.w = io.Discard
	w.mu.Unlock()
}
