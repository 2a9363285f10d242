package wire_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net/netip"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"
	"unsafe"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"wolffia/wire"
)

func TestRoundTrip(t *testing.T) {
	var stream bytes.Buffer
	w := wire.NewWriter(&stream)
	payloads := []string{"", "x", strings.Repeat("y", wire.MaxPayload)}
	for i, p := range payloads {
		if err := w.Send(wire.Stdout, uint32(i), []byte(p)); err != nil {
			t.Fatal(err)
		}
	}
	// However the bytes are cut, the frames are the same.
	for name, r := range map[string]io.Reader{
		"whole":        bytes.NewReader(stream.Bytes()),
		"byte by byte": iotest.OneByteReader(bytes.NewReader(stream.Bytes())),
		"halves":       iotest.HalfReader(bytes.NewReader(stream.Bytes())),
	} {
		frames := wire.NewReader(r)
		for i, want := range payloads {
			f, err := frames.Next()
			if err != nil {
				t.Fatalf("%s: frame %d: %v", name, i, err)
			}
			if f.Type != wire.Stdout || f.Channel != uint32(i) || string(f.Payload()) != want {
				t.Errorf("%s: frame %d is of type %d on channel %d with %d bytes", name, i, f.Type, f.Channel, len(f.Payload()))
			}
			f.Release()
		}
		if _, err := frames.Next(); !errors.Is(err, io.EOF) {
			t.Errorf("%s: after the last frame: %v", name, err)
		}
	}
}

// What a Reader has read too much of a large frame is the begin of the next one.
func TestLargeFrames(t *testing.T) {
	var stream bytes.Buffer
	w := wire.NewWriter(&stream)
	sizes := []int{0, 1, 4095, 4096, 4097, 30_000, 65_528, 65_535, wire.MaxPayload, wire.MaxPayload, 3, 40_000, 40_000, 2}
	for i, n := range sizes {
		if err := w.Send(wire.Stdout, uint32(i), bytes.Repeat([]byte{byte('a' + i)}, n)); err != nil {
			t.Fatal(err)
		}
	}
	for name, r := range map[string]io.Reader{
		"whole":        bytes.NewReader(stream.Bytes()),
		"byte by byte": iotest.OneByteReader(bytes.NewReader(stream.Bytes())),
		"halves":       iotest.HalfReader(bytes.NewReader(stream.Bytes())),
		"its end":      iotest.DataErrReader(bytes.NewReader(stream.Bytes())),
	} {
		var all []wire.Frame // held meanwhile: no frame is another one's buffer
		frames := wire.NewReader(r)
		for range sizes {
			f, err := frames.Next()
			if err != nil {
				t.Fatalf("%s: frame %d: %v", name, len(all), err)
			}
			all = append(all, f)
		}
		for i, f := range all {
			if want := bytes.Repeat([]byte{byte('a' + i)}, sizes[i]); f.Channel != uint32(i) || !bytes.Equal(f.Payload(), want) {
				t.Errorf("%s: frame %d is of channel %d with %d bytes", name, i, f.Channel, len(f.Payload()))
			}
			f.Release()
		}
	}
	cut := wire.NewReader(bytes.NewReader(append(header(byte(wire.Stdout), 60_000, 1), make([]byte, 59_999)...)))
	if _, err := cut.Next(); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a large frame that is cut short: %v", err)
	}
}

// A counter counts the reads of a stream that has no end.
type counter struct {
	frame []byte
	reads int
}

func (c *counter) Read(b []byte) (int, error) {
	c.reads++
	return copy(b, c.frame), nil
}

// A large frame costs one read, and no memory of its own; the first costs two.
func TestLargeFramesCost(t *testing.T) {
	c := &counter{frame: append(header(byte(wire.Stdout), wire.MaxPayload, 1), make([]byte, wire.MaxPayload)...)}
	r := wire.NewReader(c)
	const rounds = 200
	allocs := testing.AllocsPerRun(rounds, func() {
		f, err := r.Next()
		if err != nil {
			t.Fatal(err)
		}
		f.Release()
	})
	if c.reads > 1+rounds+1 {
		t.Errorf("%d reads for %d frames", c.reads, rounds+1)
	}
	if allocs >= 1 {
		t.Errorf("%.1f allocations for a frame", allocs)
	}
}

func header(kind byte, length uint32, channel uint32) []byte {
	b := binary.LittleEndian.AppendUint32(nil, length<<8|uint32(kind))
	return binary.LittleEndian.AppendUint32(b, channel)
}

func TestMalformedFrames(t *testing.T) {
	for name, tt := range map[string]struct {
		in   []byte
		want error
	}{
		"type 0":          {header(0, 0, 1), wire.ErrProtocol},
		"unknown type":    {header(200, 0, 1), wire.ErrProtocol},
		"too long":        {header(byte(wire.Stdout), wire.MaxPayload+1, 1), wire.ErrProtocol},
		"largest length":  {header(byte(wire.Stdout), 1<<24-1, 1), wire.ErrProtocol},
		"half a header":   {header(byte(wire.Stdout), 0, 1)[:5], io.ErrUnexpectedEOF},
		"half a payload":  {append(header(byte(wire.Stdout), 10, 1), "12345"...), io.ErrUnexpectedEOF},
		"missing payload": {header(byte(wire.Stdout), 10, 1), io.ErrUnexpectedEOF},
	} {
		if _, err := wire.NewReader(bytes.NewReader(tt.in)).Next(); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v, want %v", name, err, tt.want)
		}
	}
}

func TestCredit(t *testing.T) {
	stream, n, err := wire.ParseCredit(wire.AppendCredit(nil, wire.Stderr, 12345))
	if stream != wire.Stderr || n != 12345 || err != nil {
		t.Errorf("wire.ParseCredit: got %v, %v, %v; want wire.Stderr, 12345, nil", stream, n, err)
	}
	for name, p := range map[string][]byte{
		"empty":         nil,
		"short":         {byte(wire.Stdout), 1, 0, 0},
		"long":          {byte(wire.Stdout), 1, 0, 0, 0, 0},
		"other stream":  wire.AppendCredit(nil, wire.Exit, 1),
		"beyond limits": wire.AppendCredit(nil, wire.Stdout, wire.MaxCredit+1),
		"negative":      {byte(wire.Stdout), 255, 255, 255, 255},
	} {
		if _, _, err := wire.ParseCredit(p); !errors.Is(err, wire.ErrProtocol) {
			t.Errorf("%s: got %v, want wire.ErrProtocol", name, err)
		}
	}
}

func TestLongStart(t *testing.T) {
	var stream bytes.Buffer
	w := wire.NewWriter(&stream)
	long := strings.Repeat("z", 3*wire.MaxPayload)
	if err := w.WriteStart(7, &wire.StartRequest{Args: []string{long}}); err != nil {
		t.Fatal(err)
	}
	var kinds []wire.Type
	for r := wire.NewReader(&stream); ; {
		f, err := r.Next()
		if err != nil {
			break
		}
		kinds = append(kinds, f.Type)
		f.Release()
	}
	if len(kinds) != 4 || kinds[0] != wire.StartMore || kinds[3] != wire.Start {
		t.Errorf("frames of types %v", kinds)
	}
	if err := w.WriteStart(7, &wire.StartRequest{Args: []string{strings.Repeat("z", wire.MaxStart)}}); err == nil {
		t.Error("a request beyond MaxStart was sent")
	}
}

// A frame costs no memory of its own once the pool is warm.
func TestAllocations(t *testing.T) {
	payload := make([]byte, 1000)
	var stream bytes.Buffer
	w := wire.NewWriter(&stream)
	for range 200 {
		_ = w.Send(wire.Stdout, 1, payload)
	}
	r := wire.NewReader(&stream)
	if n := testing.AllocsPerRun(100, func() {
		f, err := r.Next()
		if err != nil {
			t.Fatal(err)
		}
		f.Release()
	}); n > 0.5 {
		t.Errorf("%v allocations for each frame", n)
	}
}

// FuzzReader: whatever comes in, a Reader returns frames within their bounds
// or an error, and what it took for a frame is one when written again.
func FuzzReader(f *testing.F) {
	f.Add(header(byte(wire.Stdout), 0, 1))
	f.Add(append(header(byte(wire.Stdin), 3, 9), "abc"...))
	f.Add(header(byte(wire.Stdout), wire.MaxPayload+1, 1))
	f.Fuzz(func(t *testing.T, in []byte) {
		var again bytes.Buffer
		w := wire.NewWriter(&again)
		r := wire.NewReader(iotest.HalfReader(bytes.NewReader(in)))
		for {
			fr, err := r.Next()
			if err != nil {
				break
			}
			if len(fr.Payload()) > wire.MaxPayload {
				t.Fatalf("payload of %d bytes", len(fr.Payload()))
			}
			if err := w.Write(&fr); err != nil {
				t.Fatal(err)
			}
			fr.Release()
		}
		if !bytes.HasPrefix(in, again.Bytes()) {
			t.Error("what was read is not what came in")
		}
	})
}

func TestStartRequest(t *testing.T) {
	for _, want := range []*wire.StartRequest{
		{Args: []string{}, Env: []string{}},
		{
			Args: []string{"echo", "", "\xff\x00\n"}, Env: []string{"A=\xfe"}, Dir: "/d\xff",
			Stdin: true, Merge: true, TTY: true, Rows: 24, Cols: 65535, TimeoutMS: 1 << 40,
		},
		{Args: []string{"x"}, Env: []string{}, Umask: wire.UmaskOf(0)},
		{Args: []string{"x"}, Env: []string{}, Umask: wire.UmaskOf(0o077), Session: &wire.SessionRequest{Op: wire.SessionAttach, Name: "a"}},
		{Args: []string{"x"}, Env: []string{}, Session: &wire.SessionRequest{Op: wire.SessionExec, Name: "a", NoWait: true}},
		{Args: []string{"x"}, Env: []string{}, Session: &wire.SessionRequest{Op: wire.SessionExec, Name: "a", Job: "b", Keep: true}},
		{Args: []string{"x"}, Env: []string{"B=2"}, Session: &wire.SessionRequest{
			Op: wire.SessionExec, Name: "a", User: "web:7", SameUser: true, Create: &wire.SessionStart{Dir: "/work", Env: []string{"A=1", ""}},
		}},
		{
			Args: []string{}, Env: []string{}, Session: &wire.SessionRequest{
				Op: wire.SessionAttach, Name: "a", Shell: "/bin/\xff", Job: "j", Offset: wire.FromEnd, ErrOffset: 7, Signal: 9,
				RC: true, Follow: true, Takeover: true,
			},
		},
	} {
		got, err := wire.ParseStart(want.Encode())
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		for cut := range want.Encode() {
			if _, err := wire.ParseStart(want.Encode()[:cut]); !errors.Is(err, wire.ErrProtocol) {
				t.Errorf("cut to %d bytes: %v", cut, err)
			}
		}
	}
}

// FuzzParseStart: what is taken for a request is one when written again, and
// memory is bounded by what came in.
func FuzzParseStart(f *testing.F) {
	f.Add((&wire.StartRequest{Args: []string{"a", "b"}, Env: []string{"K=V"}, Dir: "/x"}).Encode())
	f.Add((&wire.StartRequest{Args: []string{"a"}, Session: &wire.SessionRequest{Op: wire.SessionExec, Name: "n"}}).Encode())
	f.Add([]byte{0, 0, 0, 0, 0, 0, 0, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1})
	f.Fuzz(func(t *testing.T, in []byte) {
		r, err := wire.ParseStart(in)
		if err != nil {
			return
		}
		again, err := wire.ParseStart(r.Encode())
		if err != nil || !cmp.Equal(r, again, cmpopts.EquateComparable(netip.AddrPort{})) {
			t.Errorf("%+v becomes %+v (%v)", r, again, err)
		}
	})
}

// Bytes can be added to a frame while they fit, also to one that was shrunk.
func TestAppend(t *testing.T) {
	for _, shrink := range []string{"no", "yes", "as read"} {
		f := wire.NewFrame(wire.Stdout, 7)
		f.SetLen(copy(f.Room(), "begin "))
		switch shrink {
		case "yes":
			f.Shrink()
		case "as read": // it has a small buffer
			read, err := wire.NewReader(bytes.NewReader(f.Bytes())).Next()
			if err != nil {
				t.Fatal(err)
			}
			f.Release()
			f = read
		}
		rest := strings.Repeat("x", wire.MaxPayload-len("begin "))
		if !f.Append([]byte(rest[:10])) || !f.Append([]byte(rest[10:])) || f.Append([]byte("y")) {
			t.Errorf("shrunk: %s: what fits and what does not", shrink)
		}
		if string(f.Payload()) != "begin "+rest {
			t.Errorf("shrunk: %s: the payload is not what was added", shrink)
		}
		g, err := wire.NewReader(bytes.NewReader(f.Bytes())).Next()
		if err != nil || !bytes.Equal(g.Payload(), f.Payload()) {
			t.Errorf("shrunk: %s: on the wire it is another: %v", shrink, err)
		}
		g.Release()
		f.Release()
	}
}

// Connections that wait, and small frames that are kept, take little memory.
func TestSmallBuffers(t *testing.T) {
	var in bytes.Buffer
	if err := wire.NewWriter(&in).Send(wire.Stdout, 1, []byte("content")); err != nil {
		t.Fatal(err)
	}
	frame := bytes.Clone(in.Bytes())
	const many = 100
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	var readers []*wire.Reader
	var frames []wire.Frame
	for range many {
		r := wire.NewReader(bytes.NewReader(frame))
		f, err := r.Next()
		if err != nil {
			t.Fatal(err)
		}
		readers, frames = append(readers, r), append(frames, f)
	}
	runtime.ReadMemStats(&after)
	if n := (after.TotalAlloc - before.TotalAlloc) / many; n > 16<<10 {
		t.Errorf("%d bytes for a connection and a frame", n)
	}
	for i := range readers {
		readers[i].Release()
		frames[i].Release()
	}
}

// A connection that ends leaves its buffer to the next one. Frames that were read stay.
func TestReadersShareBuffers(t *testing.T) {
	var in bytes.Buffer
	if err := wire.NewWriter(&in).Send(wire.Stdout, 1, []byte("content")); err != nil {
		t.Fatal(err)
	}
	frame := bytes.Clone(in.Bytes())
	if n := testing.AllocsPerRun(100, func() {
		r := wire.NewReader(bytes.NewReader(frame))
		f, err := r.Next()
		if err != nil {
			t.Fatal(err)
		}
		r.Release()
		if string(f.Payload()) != "content" {
			t.Errorf("a frame has %q after the Release of its Reader", f.Payload())
		}
		f.Release()
	}); n > 2 { // the two readers
		t.Errorf("%v allocations", n)
	}
}

// No payload begins with one of the bytes of a page to which the kernel's copy is slow.
func TestPayloadsPlace(t *testing.T) {
	const page, slow = 4096, 16
	for range 100 {
		f := wire.NewFrame(wire.Stdout, 1) // never released: each is from the allocator, or was a Reader's
		if at := uintptr(unsafe.Pointer(&f.Room()[0])) % page; at > 0 && at < slow {
			t.Fatalf("the payload begins with byte %d of a page", at)
		}
	}
}
