package filecall

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"

	"wolffia/internal/archive"
)

// explain returns an error for a file as exit codes need it.
func explain(path string, err error) error {
	if errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
		err = fs.ErrNotExist
	}
	if err == nil {
		return nil
	}
	return fmt.Errorf("read %q: %w", path, err)
}

// Read writes a Head and the content of the file from the offset on, of at most most bytes;
// most < 0 means all. A negative offset counts from the end of the file.
func Read(w io.Writer, path string, from, most int64) error {
	f, size, err := archive.OpenRegular(path)
	if err != nil {
		return explain(path, err)
	}
	defer f.Close()
	var content io.ReadSeeker = f
	if size == 0 { // files of /proc have size 0, whatever they contain
		all, err := io.ReadAll(io.LimitReader(f, MaxText+1))
		if err != nil {
			return explain(path, err)
		}
		if len(all) > MaxText {
			return explain(path, archive.ErrTooLarge)
		}
		content, size = bytes.NewReader(all), int64(len(all))
	}
	h := Head{Size: size, Start: from}
	if from < 0 {
		h.Start = max(0, size+max(from, -size))
	}
	h.Start = min(h.Start, size)
	h.Bytes = size - h.Start
	if most >= 0 {
		h.Bytes = min(h.Bytes, most)
	}
	if _, err := content.Seek(h.Start, io.SeekStart); err != nil {
		return explain(path, err)
	}
	if err := json.NewEncoder(w).Encode(h); err != nil {
		return err
	}
	_, err = io.CopyN(struct{ io.Writer }{w}, struct{ io.Reader }{content}, h.Bytes)
	return err
}

// Lines writes a Head and lines of a file, of at most most lines from the line number first
// on; the first line of a file has the number 1. most < 0 means all.
func Lines(w io.Writer, path string, first, most int64) error {
	f, size, err := archive.OpenRegular(path)
	if err != nil {
		return explain(path, err)
	}
	defer f.Close()
	if err := json.NewEncoder(w).Encode(Head{Size: size, Bytes: -1}); err != nil {
		return err
	}
	in, out := bufio.NewReaderSize(f, 64<<10), bufio.NewWriterSize(w, 64<<10)
	for line := int64(1); most < 0 || line-first < most; {
		part, err := in.ReadSlice('\n')
		if line >= first {
			if _, err := out.Write(part); err != nil {
				return err
			}
		}
		switch {
		case err == nil:
			line++
		case errors.Is(err, io.EOF):
			return out.Flush()
		case !errors.Is(err, bufio.ErrBufferFull):
			return err
		}
	}
	return out.Flush()
}

// Write does what the host asks for by a [Sender]: it makes the content of a file that of r
// and sets its mode. A content that ends early changes nothing.
func Write(r io.Reader) error {
	in := bufio.NewReaderSize(r, 64<<10)
	line, err := in.ReadBytes('\n')
	if err != nil {
		return archive.ErrShort
	}
	var t Target
	if err := json.Unmarshal(line, &t); err != nil {
		return err
	}
	err = archive.PutFrom(func(w io.Writer) error {
		total := int64(0)
		for {
			var head [4]byte
			if _, err := io.ReadFull(in, head[:]); err != nil {
				return archive.ErrShort
			}
			n := int64(binary.BigEndian.Uint32(head[:]))
			if n == 0 {
				return nil
			}
			if total += n; total > MaxFile {
				return archive.ErrTooLarge
			}
			if got, err := io.CopyN(struct{ io.Writer }{w}, struct{ io.Reader }{in}, n); got < n {
				if errors.Is(err, io.EOF) || errors.Is(err, os.ErrDeadlineExceeded) {
					return archive.ErrShort
				}
				return err
			}
		}
	}, t.Path)
	if err != nil {
		return err
	}
	return t.apply(t.Path)
}

// A Sender sends a file to Write. Close without End makes Write change nothing.
type Sender struct{ w io.WriteCloser }

// NewSender begins to send a file.
func NewSender(w io.WriteCloser, t *Target) (*Sender, error) {
	text, err := json.Marshal(t)
	if err != nil {
		return nil, err
	}
	_, err = w.Write(append(text, '\n'))
	return &Sender{w}, err
}

// Write implements [io.Writer].
func (s *Sender) Write(b []byte) (n int, err error) {
	for len(b) > 0 {
		part := b[:min(len(b), 1<<20)]
		frame := binary.BigEndian.AppendUint32(make([]byte, 0, 4+len(part)), uint32(len(part))) // at most 1 MiB
		if _, err := s.w.Write(append(frame, part...)); err != nil {
			return n, err
		}
		n, b = n+len(part), b[len(part):]
	}
	return n, nil
}

// End says that the content is complete.
func (s *Sender) End() error {
	_, err := s.w.Write(make([]byte, 4))
	return errors.Join(err, s.w.Close())
}

// Close gives up.
func (s *Sender) Close() error { return s.w.Close() }
