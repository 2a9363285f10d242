package filecall

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"wolffia/internal/archive"
)

// complete completes the descriptions in a reply, if a request asks for that.
func (r *Reply) complete(q *Request) error {
	if !q.Full {
		return nil
	}
	for n := range r.Infos {
		r.Infos[n].complete(q.Prefix)
	}
	return nil
}

// describe is add of a complete description.
func (r *Reply) describe(q *Request) error {
	if err := r.add(q.Path); err != nil {
		return err
	}
	r.Infos[len(r.Infos)-1].complete(q.Prefix)
	return nil
}

// complete completes a description. A file that has gone leaves it as it is.
func (i *Info) complete(prefix string) {
	if st, err := os.Lstat(i.Path); err == nil {
		i.Text = st.Mode().String()
	}
	if i.Type == "symlink" {
		i.Target = i.Path
		if to, err := filepath.EvalSymlinks(i.Path); err == nil {
			var st unix.Stat_t
			if again(func() error { return unix.Stat(to, &st) }) == nil {
				i.Target, i.TargetType, i.TargetMode = to, kind(uint16(st.Mode)), st.Mode&0o7777
			}
		}
	}
	if prefix != "" {
		i.Attrs = attributes(i.Path, prefix)
	}
}

// The most that is read of a file's attributes, in bytes: of names, which is XATTR_LIST_MAX, and of
// values.
const (
	maxNames  = 64 << 10
	maxValues = 4 << 10
)

// attributes returns the extended attributes of a file whose names begin with prefix, without it.
func attributes(path, prefix string) map[string]string {
	size, err := unix.Listxattr(path, nil)
	if err != nil || size == 0 {
		return nil // or the file system has none
	}
	names := make([]byte, min(size, maxNames))
	if size, err = unix.Listxattr(path, names); err != nil {
		return nil
	}
	var all map[string]string
	value := make([]byte, maxValues)
	for name := range strings.SplitSeq(string(names[:size]), "\x00") {
		key, is := strings.CutPrefix(name, prefix)
		if !is {
			continue
		}
		if len(value) == 0 {
			break
		}
		if n, err := unix.Getxattr(path, name, value); err == nil {
			if all == nil {
				all = map[string]string{}
			}
			all[key], value = string(value[:n]), value[n:]
		}
	}
	return all
}

// newDir makes a directory that does not exist.
func newDir(q *Request, r *Reply) error {
	switch st, err := os.Stat(q.Path); {
	case err == nil && st.IsDir():
		return errorf(KindExists, "%q: the directory exists", q.Path)
	case err == nil:
		return wrong("%q: a file has this name", q.Path)
	}
	if err := os.MkdirAll(q.Path, 0o755); err != nil {
		if errors.Is(err, unix.ENOTDIR) {
			return wrong("%q: a directory above it is a file", q.Path)
		}
		return err
	}
	return errors.Join(q.Mode.apply(q.Path), r.describe(q))
}

// deleteAll deletes what has a name.
func deleteAll(p string) error {
	st, err := os.Lstat(p)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ENOTDIR):
		return nil
	case err != nil:
		return err
	case st.IsDir():
		return rmdir(p)
	}
	return os.Remove(p)
}

// joinFiles makes one file of several.
func joinFiles(q *Request, r *Reply) error {
	for _, p := range q.Paths {
		f, _, err := archive.OpenRegular(p)
		if err != nil {
			return err
		}
		if err := f.Close(); err != nil {
			return err
		}
	}
	err := archive.PutFrom(func(w io.Writer) error {
		return each(q.Paths, func(p string) error { return archive.Get(w, p, MaxFile) })
	}, q.Path)
	if err != nil {
		return err
	}
	if err := q.Mode.apply(q.Path); err != nil {
		return err
	}
	return errors.Join(each(q.Paths, os.Remove), r.describe(q))
}

// store writes a content to a file, whether it exists or not.
func store(q *Request, content io.Reader, r *Reply) (err error) {
	if err := os.MkdirAll(filepath.Dir(q.Path), 0o755); err != nil {
		return err
	}
	_, missing := os.Lstat(q.Path)
	const flags = os.O_WRONLY | os.O_CREATE | os.O_TRUNC | unix.O_NONBLOCK | unix.O_NOCTTY
	f, err := os.OpenFile(q.Path, flags, 0o666)
	if errors.Is(err, unix.ENXIO) { // a FIFO, or a socket
		err = archive.ErrNotRegular
	}
	if err != nil {
		return err
	}
	defer func() {
		if err = errors.Join(err, f.Close()); err == nil {
			err = r.describe(q)
		}
	}()
	st, err := f.Stat()
	if err != nil || !st.Mode().IsRegular() {
		return errors.Join(err, archive.ErrNotRegular)
	}
	if missing != nil { // E2B gives it an owner: its clients count this event
		err = f.Chmod(st.Mode().Perm())
	}
	if err != nil {
		return err
	}
	r.Size, err = io.CopyBuffer(struct{ io.Writer }{f}, io.LimitReader(content, MaxFile+1), make([]byte, maxFrame))
	switch {
	case r.Size > MaxFile:
		return archive.ErrTooLarge
	case err != nil:
		return err
	}
	if err := q.Mode.apply(q.Path); err != nil {
		return err
	}
	return attribute(f, q)
}

// attribute replaces the attributes of a file.
func attribute(f *os.File, q *Request) error {
	for old := range attributes(q.Path, q.Prefix) {
		if _, stays := q.Attrs[old]; !stays {
			_ = unix.Fremovexattr(int(f.Fd()), q.Prefix+old) // or it has gone
		}
	}
	for _, key := range sorted(q.Attrs) {
		if err := unix.Fsetxattr(int(f.Fd()), q.Prefix+key, []byte(q.Attrs[key]), 0); err != nil {
			return &fs.PathError{Op: "set attribute " + key + " of", Path: q.Path, Err: err}
		}
	}
	return nil
}
