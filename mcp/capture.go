package mcp

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
	"unicode/utf8"

	"wolffia/internal/excerpt"
	"wolffia/internal/jsontext"
)

const (
	// DefaultOutput is how many bytes of a command's output a result has, unless the call
	// says otherwise, and MaxOutput how many it can have.
	DefaultOutput = 30_000
	MaxOutput     = 1_000_000

	keptHead = 2 << 20 // bytes of a stream's beginning that are kept
	keptTail = 2 << 20 // and of its end
)

// A capture is what a stream has brought, as far as it is kept. It is safe for concurrent use.
type capture struct {
	news func() // is called after each Write; nil: nothing is. Set before the first Write.

	mu   sync.Mutex
	head []byte
	tail *excerpt.Ring // what follows head
	last []byte        // the end of the stream
}

func newCapture() *capture { return &capture{tail: excerpt.NewRing(keptTail)} }

// Write implements io.Writer. It never fails.
func (c *capture) Write(b []byte) (int, error) {
	c.mu.Lock()
	n := min(len(b), keptHead-len(c.head))
	c.head = append(c.head, b[:n]...)
	c.tail.Write(b[n:])
	c.last = append(c.last, b[max(0, len(b)-lastSize):]...)
	c.last = c.last[max(0, len(c.last)-lastSize):]
	c.mu.Unlock()
	if c.news != nil {
		c.news()
	}
	return len(b), nil
}

// lastSize is how many bytes of the stream's end are kept for the last line.
const lastSize = 256

// lastLine returns the last line that is not empty.
func (c *capture) lastLine() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	b := bytes.TrimSpace(c.last)
	return valid(bytes.TrimSpace(b[bytes.LastIndexAny(b, "\r\n")+1:]))
}

// size returns how many bytes the stream has brought.
func (c *capture) size() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.end()
}

func (c *capture) end() int64 { return int64(len(c.head)) + int64(c.tail.End()) }

// held returns about how many bytes of memory the capture has. A Ring has up to twice of what
// it keeps.
func (c *capture) held() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.head) + 2*int(c.tail.End()-c.tail.Start())
}

// read returns up to most bytes from offset on, or from the first one that is kept after
// offset, and the offset of the first byte.
func (c *capture) read(offset int64, most int) (from int64, b []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	offset = max(0, min(offset, c.end()))
	head := int64(len(c.head))
	if offset < head {
		b = append(b, c.head[offset:min(head, offset+int64(most))]...)
		if c.tail.Start() > 0 || len(b) == most {
			return offset, b
		}
		rest := make([]byte, min(uint64(most-len(b)), c.tail.End()))
		_, n := c.tail.Read(rest, 0)
		return offset, append(b, rest[:n]...)
	}
	b = make([]byte, min(uint64(most), c.tail.End()-min(c.tail.End(), uint64(offset-head))))
	start, n := c.tail.Read(b, uint64(offset-head))
	return head + int64(start), b[:n]
}

// An extract is what a result has of a stream: its beginning and its end, or all of it.
type extract struct {
	head, tail string
	from, to   int64 // what is left out between them
	total      int64
}

// extract returns at most so many bytes of the stream, in whole lines where that is possible.
func (c *capture) extract(most int) extract {
	total := c.size()
	if total <= int64(most) {
		_, b := c.read(0, most)
		return extract{head: valid(b), total: total}
	}
	_, head := c.read(0, most/2)
	head = head[:wholeEnd(head)]
	at, tail := c.read(total-int64(most-most/2), most)
	cut := wholeStart(tail)
	return extract{head: valid(head), tail: valid(tail[cut:]), from: int64(len(head)), to: at + int64(cut), total: total}
}

// text returns the extract with a line about what is left out.
func (x *extract) text(note string) string {
	if x.to == 0 {
		return x.head
	}
	head := x.head
	if head != "" && !strings.HasSuffix(head, "\n") {
		head += "\n"
	}
	return head + fmt.Sprintf("[... %d bytes are left out here%s ...]\n", x.to-x.from, note) + x.tail
}

// wholeEnd returns where to cut b at its end: after the last line, if that is near, else
// after the last whole rune.
func wholeEnd(b []byte) int {
	if i := bytes.LastIndexByte(b, '\n'); i >= len(b)*3/4 {
		return i + 1
	}
	return jsontext.WholeRunes(b)
}

// wholeStart returns where to cut b at its beginning, as wholeEnd.
func wholeStart(b []byte) int {
	if i := bytes.IndexByte(b, '\n'); i >= 0 && i < len(b)/4 {
		return i + 1
	}
	for i := range min(len(b), utf8.UTFMax) {
		if utf8.RuneStart(b[i]) {
			return i
		}
	}
	return 0
}

// valid returns b as valid UTF-8.
func valid(b []byte) string { return strings.ToValidUTF8(string(b), string(utf8.RuneError)) }

// outputs are the outputs of commands that were too long for their results, of one server, or
// of all sessions over HTTP together. A server finds its own only.
type outputs struct {
	mu   sync.Mutex
	next int
	list []*output // oldest first
}

// An output is what a command has written.
type output struct {
	id             string
	of             *Server
	stdout, stderr *capture
}

const (
	maxOutputs     = 64       // that are kept
	maxOutputBytes = 32 << 20 // of memory, of all together, but for the last one
)

func newOutputs() *outputs { return &outputs{} }

// add keeps an output, and returns its id. The oldest ones are dropped.
func (o *outputs) add(of *Server, stdout, stderr *capture) string {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.next++
	x := &output{fmt.Sprintf("o%d", o.next), of, stdout, stderr}
	o.list = append(o.list, x)
	size := 0
	for i := len(o.list) - 1; i >= 0; i-- {
		size += o.list[i].stdout.held() + o.list[i].stderr.held()
		if i < len(o.list)-1 && (size > maxOutputBytes || len(o.list)-i > maxOutputs) {
			o.list = append([]*output(nil), o.list[i+1:]...)
			break
		}
	}
	return x.id
}

// get returns an output of a server, or nil.
func (o *outputs) get(of *Server, id string) *output {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, x := range o.list {
		if x.id == id && x.of == of {
			return x
		}
	}
	return nil
}
