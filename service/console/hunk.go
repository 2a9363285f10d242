package console

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"

	"wolffia/internal/jsontext"
	"wolffia/runtime"
)

// A hunk is a part of a diff. Lines count from 1.
type hunk struct {
	OldStart int    `json:"oldStart"`
	OldLines int    `json:"oldLines"`
	NewStart int    `json:"newStart"`
	NewLines int    `json:"newLines"`
	Lines    []line `json:"lines"`
}

// A line is one of a hunk: ' ' of both texts, '-' of the old or '+' of the new one.
type line struct {
	op    byte
	text  []byte // without its end
	noEnd bool   // the text ends without a line end
}

// MarshalJSON returns the line as JSON.
func (l line) MarshalJSON() ([]byte, error) {
	text := string(l.text)
	return json.Marshal(struct {
		Op    string `json:"op"`
		Text  string `json:"text"`
		Bytes []byte `json:"bytes,omitempty"`
		NoEnd bool   `json:"noEnd,omitempty"`
	}{string(l.op), text, jsontext.Exact(text), l.noEnd})
}

// hunksOf reads the hunks of a unified diff of one file. It counts the lines of each hunk, so that a
// line that looks like a header is not one. It returns those before something that it cannot read.
func hunksOf(diff []byte) (all []hunk) {
	for len(diff) > 0 {
		head, rest, _ := bytes.Cut(diff, []byte{'\n'})
		diff = rest
		h, is := headOf(head)
		if !is {
			continue
		}
		old, now := h.OldLines, h.NewLines
		for old > 0 || now > 0 {
			text, rest, ended := bytes.Cut(diff, []byte{'\n'})
			if !ended || len(text) == 0 {
				return all
			}
			diff = rest
			l := line{op: text[0], text: text[1:]}
			switch l.op {
			case ' ':
				old, now = old-1, now-1
			case '-':
				old--
			case '+':
				now--
			default:
				return all
			}
			if len(diff) > 0 && diff[0] == '\\' {
				_, diff, _ = bytes.Cut(diff, []byte{'\n'})
				l.noEnd = true
			}
			h.Lines = append(h.Lines, l)
		}
		all = append(all, h)
	}
	return all
}

// headOf reads the header of a hunk: @@ -START[,LINES] +START[,LINES] @@.
func headOf(text []byte) (h hunk, is bool) {
	words := bytes.Fields(text)
	if len(words) < 4 || string(words[0]) != "@@" || string(words[3]) != "@@" || words[1][0] != '-' || words[2][0] != '+' {
		return hunk{}, false
	}
	span := func(word []byte, start, lines *int) bool {
		*lines = 1
		if n, _ := fmt.Sscanf(string(word[1:]), "%d,%d", start, lines); n == 2 {
			return true
		}
		n, _ := fmt.Sscanf(string(word[1:]), "%d", start)
		return n == 1
	}
	is = span(words[1], &h.OldStart, &h.OldLines) && span(words[2], &h.NewStart, &h.NewLines) && h.OldLines >= 0 && h.NewLines >= 0
	return h, is
}

// revert returns the new text of a diff without some of its hunks. A text that is not the diff's is
// [runtime.ErrConflict].
func revert(text []byte, all []hunk, some []int) ([]byte, error) {
	var out []byte
	rest, at := text, 1 // the line that rest begins with
	take := func() []byte {
		n := bytes.IndexByte(rest, '\n') + 1
		if n == 0 {
			n = len(rest)
		}
		l := rest[:n]
		rest = rest[n:]
		at++
		return l
	}
	for _, i := range some {
		if i < 0 || i >= len(all) {
			return nil, runtime.Errorf(runtime.ErrInvalid, "hunk %d: the diff has %d", i, len(all))
		}
	}
	for i, h := range all {
		start := h.NewStart
		if h.NewLines == 0 {
			start++ // an empty range is named by the line before it
		}
		for at < start && len(rest) > 0 {
			out = append(out, take()...)
		}
		back := slices.Contains(some, i)
		for _, l := range h.Lines {
			if l.op == '-' {
				if back {
					out = l.append(out)
				}
				continue
			}
			now := take()
			if !bytes.Equal(now, l.append(nil)) {
				return nil, runtime.Errorf(runtime.ErrConflict, "the file has changed since its diff was shown: look at it again")
			}
			if l.op == ' ' || !back {
				out = append(out, now...)
			}
		}
	}
	return append(out, rest...), nil
}

// append appends the line with its end.
func (l *line) append(b []byte) []byte {
	b = append(b, l.text...)
	if l.noEnd {
		return b
	}
	return append(b, '\n')
}
