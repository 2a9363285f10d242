package wire

import (
	"encoding/binary"
	"fmt"
)

// A StartRequest asks for a process. Its strings are bytes as they are, in no
// encoding.
type StartRequest struct {
	// Args is the program and its arguments. A program without a slash is
	// looked up in the PATH of Env.
	Args []string
	// Env is what the host sets of the environment, as KEY=VALUE. Without a terminal PID 1 adds,
	// where they are missing, variables for programs that would wait for a person (EDITOR, PAGER
	// and the like).
	Env []string
	// Dir is the working directory; empty means /.
	Dir string
	// Stdin reports that the host sends input. Without Stdin the process reads /dev/null (unless
	// it has a terminal).
	Stdin bool
	// Merge sends standard error into the same pipe as standard output.
	Merge bool
	// TTY gives the process a terminal of Rows x Cols for all three streams;
	// its output comes as Stdout.
	TTY        bool
	Rows, Cols uint16
	// Umask is that of the process, or of the shell of a session that the request makes.
	Umask Umask
	// TimeoutMS kills the process tree after so many milliseconds; 0 never.
	TimeoutMS uint64
	// Keep, unless empty, has the process outlive its link, but not a Kill: see Kept. It is
	// what the host wants to know of it then, of at most MaxLabel bytes.
	Keep string
	// Kept makes this a request about the processes whose link has ended; nil for a process.
	// Only it is then sent.
	Kept *KeptRequest
	// Session makes this a request to a shell session; nil for a process. The
	// meaning of the other fields is then that of its operation.
	Session *SessionRequest
	// Network makes this a request for a socket; nil for a process. Only it is then sent. It
	// fits into one frame, and must not come in pieces.
	Network *NetRequest
}

// MaxLabel bounds StartRequest.Keep, and MaxLabels those of all processes that a guest keeps, in
// bytes.
const (
	MaxLabel  = 16 << 10
	MaxLabels = 256 << 10
)

// A KeptRequest is about the processes that no link has. PID is the one to which the channel is
// attached: it is then as a channel that has started it, without the output so far. With PID 0 the
// answer is JSON of []KeptProcess on Stdout.
type KeptRequest struct{ PID uint32 }

// A KeptProcess is a process that no link has.
type KeptProcess struct {
	PID   uint32 `json:"pid"`
	Label string `json:"label"`
}

// flags are those of a request's first byte, from its lowest bit on; then come flagSession,
// flagNetwork, flagUmask, flagKeep and flagKept.
func (r *StartRequest) flags() []*bool { return []*bool{&r.Stdin, &r.Merge, &r.TTY} }

const (
	flagSession = 1 << 3
	flagNetwork = 1 << 4
	flagUmask   = 1 << 5
	flagKeep    = 1 << 6
	flagKept    = 1 << 7
)

func pack(flags []*bool) (b byte) {
	for i, f := range flags {
		if *f {
			b |= 1 << i
		}
	}
	return b
}

func unpack(b byte, flags []*bool) {
	for i, f := range flags {
		*f = b>>i&1 == 1
	}
}

// Encode returns the request as bytes: see docs/wire.md.
func (r *StartRequest) Encode() []byte {
	if r.Network != nil {
		return r.Network.appendTo([]byte{flagNetwork})
	}
	if r.Kept != nil {
		return binary.LittleEndian.AppendUint32([]byte{flagKept}, r.Kept.PID)
	}
	flags := pack(r.flags())
	if r.Keep != "" {
		flags |= flagKeep
	}
	if r.Session != nil {
		flags |= flagSession
	}
	if r.Umask != 0 {
		flags |= flagUmask
	}
	b := AppendSize([]byte{flags}, r.Rows, r.Cols)
	if r.Umask != 0 {
		b = append(b, byte(r.Umask.Mask()))
	}
	b = binary.AppendUvarint(b, r.TimeoutMS)
	b = appendString(b, r.Dir)
	b = appendList(appendList(b, r.Args), r.Env)
	if r.Session != nil {
		b = r.Session.appendTo(b)
	}
	if r.Keep != "" {
		b = appendString(b, r.Keep)
	}
	return b
}

func appendString(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

func appendList(b []byte, list []string) []byte {
	b = binary.AppendUvarint(b, uint64(len(list)))
	for _, s := range list {
		b = appendString(b, s)
	}
	return b
}

// ParseStart reads what Encode has written.
func ParseStart(b []byte) (*StartRequest, error) {
	alone := func(flag byte) bool { return b[0]&flag == 0 || b[0] == flag }
	if len(b) < 5 || !alone(flagNetwork) || !alone(flagKept) {
		return nil, fmt.Errorf("%w: start request", ErrProtocol)
	}
	r := &StartRequest{}
	if b[0] == flagKept {
		if len(b) != 5 {
			return nil, fmt.Errorf("%w: request for a kept process", ErrProtocol)
		}
		r.Kept = &KeptRequest{binary.LittleEndian.Uint32(b[1:])}
		return r, nil
	}
	if b[0] == flagNetwork {
		p := parser{rest: b[1:]}
		if r.Network = p.network(); p.bad || len(p.rest) > 0 {
			return nil, fmt.Errorf("%w: request for a socket", ErrProtocol)
		}
		return r, nil
	}
	unpack(b[0], r.flags())
	r.Rows, r.Cols = binary.LittleEndian.Uint16(b[1:]), binary.LittleEndian.Uint16(b[3:])
	p := parser{rest: b[5:]}
	if b[0]&flagUmask != 0 {
		r.Umask = p.umask()
	}
	r.TimeoutMS = p.number()
	r.Dir = p.text()
	r.Args = p.list()
	r.Env = p.list()
	if b[0]&flagSession != 0 {
		r.Session = p.session()
	}
	if b[0]&flagKeep != 0 {
		if r.Keep = p.text(); r.Keep == "" || len(r.Keep) > MaxLabel { // each request has one form
			p.bad = true
		}
	}
	if p.bad || len(p.rest) > 0 {
		return nil, fmt.Errorf("%w: start request", ErrProtocol)
	}
	return r, nil
}

// A parser takes values off the front of the remaining bytes. bad says that a value was missing.
type parser struct {
	rest []byte
	bad  bool
}

func (p *parser) number() uint64 {
	n, size := binary.Uvarint(p.rest)
	if size <= 0 {
		p.bad, p.rest = true, nil
		return 0
	}
	p.rest = p.rest[size:]
	return n
}

func (p *parser) umask() Umask {
	if len(p.rest) == 0 || p.rest[0] > 0o077 || UmaskOf(uint32(p.rest[0])) == 0 {
		p.bad, p.rest = true, nil
		return 0
	}
	u := UmaskOf(uint32(p.rest[0]))
	p.rest = p.rest[1:]
	return u
}

func (p *parser) text() string {
	n := p.number()
	if n > uint64(len(p.rest)) {
		p.bad, p.rest = true, nil
		return ""
	}
	s := string(p.rest[:n])
	p.rest = p.rest[n:]
	return s
}

func (p *parser) list() []string {
	n := p.number()
	if n > uint64(len(p.rest)) { // every string takes a byte at least
		p.bad, p.rest = true, nil
		return nil
	}
	all := make([]string, 0, min(n, 1024))
	for range n {
		all = append(all, p.text())
	}
	return all
}

// A TooLongError is the error of a request with more than [MaxStart] bytes.
type TooLongError struct {
	Size int // of the request, in bytes
}

func (e *TooLongError) Error() string {
	return fmt.Sprintf("the command with its variables and directory has %d bytes, at most %d can be sent", e.Size, MaxStart)
}

// WriteStart sends req on channel, in as many frames as it takes. It sends nothing of
// a request that is too long: the error is a [*TooLongError], and the Writer can be
// used as before.
func (w *Writer) WriteStart(channel uint32, req *StartRequest) error {
	b := req.Encode()
	if len(b) > MaxStart {
		return &TooLongError{len(b)}
	}
	return w.sendPieces(StartMore, Start, channel, b)
}

// WriteControl sends a request to a shim, in as many frames as it takes.
func (w *Writer) WriteControl(request []byte) error {
	if len(request) > MaxControl {
		return fmt.Errorf("request of %d bytes, at most %d are possible", len(request), MaxControl)
	}
	return w.sendPieces(ControlMore, Control, 0, request)
}

// sendPieces sends b in frames of type more and a last one of type end.
func (w *Writer) sendPieces(more, end Type, channel uint32, b []byte) error {
	for len(b) > MaxPayload {
		if err := w.Send(more, channel, b[:MaxPayload]); err != nil {
			return err
		}
		b = b[MaxPayload:]
	}
	return w.Send(end, channel, b)
}
