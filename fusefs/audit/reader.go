package audit

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
)

// A Reader reads a log from its beginning. Whoever opened it closes it. It is
// not safe for concurrent use.
type Reader struct {
	path    string
	files   []*os.File // the first is being read, the last may still grow
	buf     []byte     // what was read and not handed out is buf[at:end]
	at, end int
	long    bool // a line that is too long is being thrown away
	skipped int64
}

// Open opens the log at path. One that is not there is empty.
func Open(path string) (*Reader, error) {
	files, err := openBoth(path)
	if err != nil {
		return nil, err
	}
	return &Reader{path: path, files: files, buf: make([]byte, maxLine)}, nil
}

// Close releases the reader.
func (r *Reader) Close() error {
	err := closeAll(r.files)
	r.files = nil
	return err
}

// Skipped is how many lines were none.
func (r *Reader) Skipped() int64 { return r.skipped }

// Next returns the next record; io.EOF: there is none, yet.
func (r *Reader) Next() (Record, error) {
	for {
		text, err := r.line()
		if err != nil {
			return Record{}, err
		}
		rec, err := Parse(text)
		switch {
		case err == nil:
			return rec, nil
		case len(text) > 0:
			r.skipped++
		}
	}
}

// line returns the next whole line, without its end; it is valid until the next
// call. Of a file that goes on nobody waits for the end of its last line.
func (r *Reader) line() ([]byte, error) {
	for {
		if i := bytes.IndexByte(r.buf[r.at:r.end], '\n'); i >= 0 {
			text := r.buf[r.at : r.at+i]
			r.at += i + 1
			if !r.long {
				return text, nil
			}
			r.long = false
			r.skipped++
			continue
		}
		r.end = copy(r.buf, r.buf[r.at:r.end])
		r.at = 0
		if r.end == len(r.buf) {
			r.long, r.end = true, 0
		}
		if len(r.files) == 0 {
			return nil, io.EOF
		}
		n, err := r.files[0].Read(r.buf[r.end:])
		r.end += n
		switch {
		case n > 0:
		case err != nil && !errors.Is(err, io.EOF):
			return nil, err
		case len(r.files) == 1:
			return nil, io.EOF
		default:
			if r.long || r.end > 0 {
				r.skipped++ // it has no end
			}
			r.long, r.end = false, 0
			_ = r.files[0].Close()
			r.files = r.files[1:]
		}
	}
}

// more looks whether the log goes on in another file than those that are open,
// and opens it. What is written to a file is written before it gets its other
// name: so the last one that is open, which is read once more first, is whole.
func (r *Reader) more() (bool, error) {
	files, err := openBoth(r.path)
	if err != nil {
		return false, err
	}
	newer := 0
	for i, f := range files {
		if len(r.files) > 0 && same(f, r.files[len(r.files)-1]) {
			newer = i + 1
		}
	}
	err = closeAll(files[:newer])
	r.files = append(r.files, files[newer:]...)
	return newer < len(files), err
}

// openBoth opens the files of a log that are there, the older one first.
func openBoth(path string) ([]*os.File, error) {
	const tries = 8
	for try := 1; ; try++ {
		var files []*os.File
		for _, name := range []string{old(path), path} {
			f, _, err := openLog(name, os.O_RDONLY)
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err != nil {
				return nil, errors.Join(err, closeAll(files))
			}
			files = append(files, f)
		}
		// A file that became the older one between the two was seen by neither.
		st, err := os.Lstat(old(path))
		whole := errors.Is(err, fs.ErrNotExist)
		if err == nil && len(files) > 0 {
			first, err := files[0].Stat()
			whole = err == nil && os.SameFile(st, first)
		}
		if whole || try == tries {
			return files, nil
		}
		_ = closeAll(files)
	}
}

// same reports whether two descriptors are of one file.
func same(a, b *os.File) bool {
	sa, erra := a.Stat()
	sb, errb := b.Stat()
	return erra == nil && errb == nil && os.SameFile(sa, sb)
}

func closeAll(files []*os.File) error {
	var errs []error
	for _, f := range files {
		errs = append(errs, f.Close())
	}
	return errors.Join(errs...)
}
