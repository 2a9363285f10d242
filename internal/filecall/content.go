package filecall

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"wolffia/internal/archive"
)

// Serve does the requests on r one after the other until r ends, and writes the replies to w. Each begins in the directory
// in which the process has started. The error says that r or w failed, or that a content was not read to its end.
func Serve(w io.Writer, r io.Reader) error {
	dir, err := os.Getwd()
	if err != nil {
		dir = "."
	}
	in, out := NewReceiver(r), bufio.NewWriterSize(w, 64<<10)
	for {
		var q Request
		err := in.JSON(&q, MaxRequest)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			_ = os.Chdir(dir) // another directory may have the name now; one that is gone has no files
			err = answer(NewSender(out), in, &q, out.Flush)
		}
		if err = errors.Join(err, out.Flush()); err == nil && !in.Ended() { // it has failed before: the host stops
			_, err = io.Copy(io.Discard, struct{ io.Reader }{in})
		}
		if err != nil {
			return err
		}
	}
}

// answer does a request with its content, and sends the reply with its content.
func answer(out *Sender, in *Receiver, q *Request, flush func() error) error {
	switch q.Op {
	case OpPut, OpWrite, OpStore:
		in.Begin()
		r, write := new(Reply), put
		if q.Op == OpStore {
			write = store
		}
		if err := write(q, in, r); err != nil {
			r.Err = errorOf(err)
		}
		return out.JSON(r)
	case OpGet, OpLines:
		return get(out, q)
	case OpWatch:
		return watch(out, q, flush)
	}
	return out.JSON(Do(q))
}

// put makes a content that of a file, and sets its mode. A content that ends early changes nothing.
func put(q *Request, content io.Reader, r *Reply) (err error) {
	r.Path = q.Path
	if q.Op == OpWrite {
		var exists bool
		switch r.Path, exists, err = target(q.Path); {
		case q.Path == "":
			return wrong("the path is empty")
		case strings.HasSuffix(q.Path, "/"):
			return wrong("the path ends with a slash: name a file")
		case err != nil:
			return err
		}
		r.Created = !exists
	}
	err = archive.PutFrom(func(w io.Writer) (err error) {
		r.Size, err = io.CopyBuffer(struct{ io.Writer }{w}, io.LimitReader(content, MaxFile+1), make([]byte, maxFrame))
		switch {
		case r.Size > MaxFile:
			return archive.ErrTooLarge
		case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, os.ErrDeadlineExceeded):
			return archive.ErrShort
		}
		return err
	}, r.Path)
	if err != nil {
		return err
	}
	return q.Mode.apply(r.Path)
}

// get sends a part of a file.
func get(out *Sender, q *Request) error {
	f, size, err := archive.OpenRegular(q.Path)
	if err != nil {
		return out.JSON(&Reply{Err: errorOf(fmt.Errorf("read %q: %w", q.Path, err))})
	}
	defer f.Close()
	head, content := &Head{Size: size, Bytes: -1}, io.Reader(nil)
	if st, err := f.Stat(); err == nil {
		head.Modified = st.ModTime().UTC()
	}
	if q.Op == OpLines {
		content = &lines{in: bufio.NewReaderSize(f, 64<<10), at: 1, first: q.From, most: q.Most}
	} else if content, err = head.part(f, q); err != nil {
		return out.JSON(&Reply{Err: errorOf(fmt.Errorf("read %q: %w", q.Path, err))})
	}
	if err := out.JSON(&Reply{Head: head}); err != nil {
		return err
	}
	if _, err := io.CopyBuffer(struct{ io.Writer }{out}, content, make([]byte, maxFrame)); err != nil {
		return err
	}
	return out.End()
}

// part returns the content that OpGet asks for, and sets h.
func (h *Head) part(f *os.File, q *Request) (io.Reader, error) {
	content := io.ReadSeeker(f)
	if h.Size == 0 { // files of /proc have size 0, whatever they contain
		all, err := io.ReadAll(io.LimitReader(f, MaxText+1))
		if err != nil {
			return nil, err
		}
		if len(all) > MaxText {
			return nil, archive.ErrTooLarge
		}
		content, h.Size = bytes.NewReader(all), int64(len(all))
	}
	h.Start = q.From
	if q.From < 0 {
		h.Start = max(0, h.Size+max(q.From, -h.Size))
	}
	h.Start = min(h.Start, h.Size)
	h.Bytes = h.Size - h.Start
	if q.Most >= 0 {
		h.Bytes = min(h.Bytes, q.Most)
	}
	_, err := content.Seek(h.Start, io.SeekStart)
	return io.LimitReader(content, h.Bytes), err
}

// lines reads most lines of a text from the first on; most < 0 means all.
type lines struct {
	in              *bufio.Reader
	at, first, most int64 // at is the number of the next line, from 1
	rest            []byte
}

func (l *lines) Read(b []byte) (int, error) {
	for len(l.rest) == 0 {
		if l.most >= 0 && l.at-l.first >= l.most {
			return 0, io.EOF
		}
		part, err := l.in.ReadSlice('\n')
		if l.at >= l.first {
			l.rest = part
		}
		switch {
		case err == nil:
			l.at++
		case errors.Is(err, bufio.ErrBufferFull):
		case len(l.rest) == 0:
			return 0, err
		}
	}
	n := copy(b, l.rest)
	l.rest = l.rest[n:]
	return n, nil
}
