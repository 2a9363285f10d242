package filecall

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"wolffia/internal/archive"
)

const (
	sniffed  = 8 << 10  // bytes at the beginning of a file by which a binary one is known
	maxCount = 64 << 20 // bytes up to which the lines of a file are counted
)

// isBinary reports whether a file that begins with b is not text.
func isBinary(b []byte) bool { return bytes.IndexByte(b, 0) >= 0 }

// read reads a part of a file for an agent's tool.
func read(req *Request, res *Reply) error {
	f, size, err := archive.OpenRegular(req.Path)
	if err != nil {
		return err
	}
	defer f.Close()
	real, err := filepath.EvalSymlinks(req.Path)
	if err != nil {
		real = req.Path // it was replaced
	}
	res.Path, res.Size = real, size
	if req.Bytes || req.Raw {
		return readBytes(req, res, f)
	}
	r := bufio.NewReaderSize(f, 64<<10)
	if head, err := r.Peek(sniffed); isBinary(head) {
		res.Binary = true
		return nil
	} else if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	return readLines(req, res, r)
}

// readBytes reads bytes from an offset on.
func readBytes(req *Request, res *Reply, f io.ReadSeeker) error {
	if req.Offset < 0 {
		return errorf(KindInvalid, "the offset is negative")
	}
	if _, err := f.Seek(req.Offset, io.SeekStart); err != nil {
		return err
	}
	b, err := io.ReadAll(io.LimitReader(f, int64(req.MaxBytes)+1))
	if err != nil {
		return err
	}
	res.Truncated = len(b) > req.MaxBytes
	b = b[:min(len(b), req.MaxBytes)]
	switch {
	case req.Raw:
		res.Data, res.Binary = b, isBinary(b)
	case isBinary(b):
		res.Binary = true
		return nil
	default:
		if res.Truncated {
			b = b[:wholeRunes(b)]
		}
		res.setText(b)
	}
	res.Next = req.Offset + int64(len(b))
	return nil
}

// wholeRunes returns the length of b without an incomplete rune at its end.
func wholeRunes(b []byte) int {
	for i := len(b) - 1; i >= 0 && i >= len(b)-utf8.UTFMax; i-- {
		if utf8.RuneStart(b[i]) {
			if !utf8.FullRune(b[i:]) && i > 0 {
				return i
			}
			break
		}
	}
	return len(b)
}

func (res *Reply) setText(b []byte) {
	res.Text = strings.ToValidUTF8(string(b), string(utf8.RuneError))
	res.Lossy = !utf8.Valid(b)
}

// readLines reads lines, and counts all of them unless there are too many.
func readLines(req *Request, res *Reply, r *bufio.Reader) error {
	first := max(req.Line, 1)
	var text []byte
	var at int64 // bytes read
	line := 1    // that the next byte is in
	open := false
	full := false // no more of the file is wanted
	for {
		piece, err := r.ReadSlice('\n')
		whole := err == nil
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) && !errors.Is(err, io.EOF) {
			return err
		}
		wanted := len(piece) > 0 && line >= first && !full
		if wanted && req.Lines > 0 && line >= first+req.Lines {
			full, wanted, res.Truncated = true, false, true
		}
		if wanted {
			if n := req.MaxBytes - len(text); n < len(piece) {
				// A line is only cut if it is the first one.
				full, res.Truncated = true, true
				if len(text) == 0 || res.Last == line {
					piece := piece[:n]
					text = append(text, piece[:wholeRunes(piece)]...)
					res.Last, res.Cut = line, true
					res.Next = at + int64(wholeRunes(piece))
				}
			} else {
				text = append(text, piece...)
				res.Last = line
				res.Next = at + int64(len(piece))
			}
		}
		at += int64(len(piece))
		open = len(piece) > 0 && !whole
		if whole {
			line++
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if full && at > maxCount {
			line, open = 0, false
			break
		}
	}
	if line > 0 {
		res.Total = line - 1
		if open {
			res.Total++
		}
	}
	if res.Last > 0 {
		res.First = first
	} else if first > 1 && res.Total > 0 && first > res.Total {
		return errorf(KindInvalid, "line %d: the file has %d lines", first, res.Total)
	}
	res.setText(text)
	return nil
}
