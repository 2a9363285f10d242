package opensandbox

import (
	"bytes"
	"io"
	"sync"
	"unicode/utf8"

	"wolffia/ops/stream"
)

// maxLine is the largest part of a line in one event, in bytes.
const maxLine = 64 << 10

// lines are output that is cut into events: one for each line, and several for one that is
// longer than maxLine.
type lines struct {
	kind string // stdout or stderr
	rest []byte // of a line whose end has not come
}

// add returns the events of more output.
func (l *lines) add(b []byte) []event {
	var events []event
	for {
		i := bytes.IndexByte(b, '\n')
		if i < 0 {
			break
		}
		l.rest = append(l.rest, b[:i]...)
		events = append(events, l.event(l.rest, true))
		l.rest, b = l.rest[:0], b[i+1:]
		events = l.cut(events)
	}
	l.rest = append(l.rest, b...)
	return l.cut(events)
}

// cut adds the events of a rest that is too long.
func (l *lines) cut(events []event) []event {
	for len(l.rest) > maxLine {
		n := maxLine
		for n > maxLine-utf8.UTFMax && !utf8.RuneStart(l.rest[n]) {
			n--
		}
		events = append(events, l.event(l.rest[:n], false))
		l.rest = append(l.rest[:0], l.rest[n:]...)
	}
	return events
}

// end returns the events of what has no newline behind it.
func (l *lines) end() []event {
	if len(l.rest) == 0 {
		return nil
	}
	e := l.event(l.rest, false)
	l.rest = nil
	return []event{e}
}

// event returns the event of a line, or a part of one. The text of an empty line is a
// newline: clients drop an empty text.
func (l *lines) event(line []byte, eol bool) event {
	e := event{Type: l.kind, Text: string(line)}
	if len(line) == 0 {
		e.Text = "\n"
	}
	if !utf8.Valid(line) { // encoding/json replaces the rest by U+FFFD
		e.Bytes = bytes.Clone(line)
	}
	if !eol {
		e.EOL = new(bool)
	}
	e.Data = e.Text
	return e
}

// buffers are what copyLines reads into. Most commands print little, and a new buffer for each
// would be most of what a request leaves to the garbage collector.
var buffers = sync.Pool{New: func() any { return new([64 << 10]byte) }}

// copyLines sends output as events until it ends.
func copyLines(s stream.Sender[event], kind string, r io.Reader) error {
	buf := buffers.Get().(*[64 << 10]byte)
	defer buffers.Put(buf)
	l := &lines{kind: kind}
	for {
		n, err := r.Read(buf[:])
		events := l.add(buf[:n])
		if err != nil {
			events = append(events, l.end()...)
		}
		if len(events) > 0 {
			if serr := s.Send(events...); serr != nil {
				return serr
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
