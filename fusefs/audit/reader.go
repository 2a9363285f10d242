package audit

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
)

// A Reader reads a log from its beginning. The caller of Open closes it. It is not safe for
// concurrent use.
type Reader struct {
	path    string
	files   []*os.File // the first is being read, the last may still grow
	buf     []byte     // buf[at:end] was read and not returned yet
	at, end int
	long    bool // the present line is too long and is skipped
	skipped int64
}

// Open opens the log at path. A missing log is empty.
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

// Skipped returns the number of invalid lines so far.
func (r *Reader) Skipped() int64 { return r.skipped }

// Next returns the next record, or io.EOF if the log has no further record yet.
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

// line returns the next whole line without its end, valid until the next call. It is io.EOF as
// long as the last line of the newer file has no end.
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
				r.skipped++ // a line without an end
			}
			r.long, r.end = false, 0
			_ = r.files[0].Close()
			r.files = r.files[1:]
		}
	}
}

// more opens the files that the log has got since, and reports whether there are any. A file is
// complete before it is renamed, so the caller reads on in the last open file first.
func (r *Reader) more() (bool, error) {
	files, err := openBoth(r.path)
	if err != nil {
		return false, err
	}
	newer := 0
	for i, f := range files {
		if st, err := f.Stat(); err == nil && len(r.files) > 0 && same(st, r.files[len(r.files)-1]) {
			newer = i + 1
		}
	}
	err = closeAll(files[:newer])
	r.files = append(r.files, files[newer:]...)
	return newer < len(files), err
}

// openBoth opens the existing files of a log, the older one first.
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
		// Try again if a file was renamed in between, and missed by both opens.
		st, err := os.Lstat(old(path))
		if errors.Is(err, fs.ErrNotExist) || err == nil && len(files) > 0 && same(st, files[0]) || try == tries {
			return files, nil
		}
		_ = closeAll(files)
	}
}

// same reports whether f is the file of st.
func same(st os.FileInfo, f *os.File) bool {
	now, err := f.Stat()
	return err == nil && os.SameFile(st, now)
}

func closeAll(files []*os.File) error {
	var errs []error
	for _, f := range files {
		errs = append(errs, f.Close())
	}
	return errors.Join(errs...)
}
