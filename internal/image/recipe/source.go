// Package recipe does what the instructions COPY, ADD, WORKDIR of a Dockerfile do in the root
// directory of an image. Sources and root directory are hostile: no name leads out of either.
package recipe

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"hash"
	"io"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/moby/patternmatcher"
	"golang.org/x/sys/unix"

	"wolffia/image/maker"
	"wolffia/internal/sys/beneath"
	"wolffia/runtime"
)

// A source is an opened maker.Source.
type source struct {
	maker.Source
	root   *os.File // nil for a text
	ignore *patternmatcher.PatternMatcher
	except *patternmatcher.PatternMatcher
	found  []string // what Name means, without links
}

// openSource opens a source at dir, the host's directory or the image's root directory.
func openSource(s maker.Source, dir string) (_ *source, err error) {
	src := &source{Source: s}
	if dir == "" {
		src.found = []string{s.Name}
		return src, nil
	}
	if src.ignore, err = patternmatcher.New(s.Ignore); err == nil {
		src.except, err = patternmatcher.New(s.Exclude)
	}
	if err != nil {
		return nil, invalid("pattern: %w", err)
	}
	if src.root, err = os.OpenFile(dir, os.O_RDONLY|unix.O_DIRECTORY, 0); err != nil {
		return nil, err
	}
	if err = src.find(); err != nil {
		_ = src.root.Close()
		return nil, err
	}
	return src, nil
}

func invalid(format string, args ...any) error {
	return runtime.Errorf(runtime.ErrInvalid, format, args...)
}

// find resolves Name.
func (s *source) find() error {
	name := path.Clean("/" + s.Name)[1:]
	names := []string{name}
	if !s.Exact && strings.ContainsAny(name, "*?[\\") {
		var err error
		if names, err = s.match("", strings.Split(name, "/")); err != nil {
			return err
		}
	}
	for _, n := range names {
		real, err := s.resolve(n)
		switch {
		case err == unix.ENOENT || err == unix.ENOTDIR:
			continue
		case err != nil:
			return fmt.Errorf("%.300q: %w", n, err)
		}
		if n != "" && s.ignored(n) {
			continue
		}
		s.found = append(s.found, real)
	}
	if len(s.found) == 0 {
		hint := ""
		if len(names) == 1 && name != "" && s.ignored(name) {
			hint = ", since .dockerignore leaves it out"
		}
		return runtime.Errorf(runtime.ErrNotFound, "%.300q does not exist%s", s.Name, hint)
	}
	return nil
}

// ignored reports whether .dockerignore leaves out a name, or the directory that it is in.
func (s *source) ignored(name string) bool {
	return matches(s.ignore, name)
}

// excluded reports whether a name that is copied is left out.
func (s *source) excluded(name string) bool {
	return matches(s.except, name)
}

// matches reports whether a name, or a directory that it is in, matches; true after an error.
func matches(patterns *patternmatcher.PatternMatcher, name string) bool {
	is, err := patterns.MatchesOrParentMatches(name)
	return is || err != nil
}

// match returns the names that a pattern's parts match below dir, sorted.
func (s *source) match(dir string, parts []string) (all []string, err error) {
	names, err := s.list(dir)
	if err != nil {
		return nil, nil // not a directory
	}
	for _, n := range names {
		ok, err := path.Match(parts[0], n)
		if err != nil {
			return nil, invalid("pattern %.100q: %w", s.Name, err)
		}
		if !ok {
			continue
		}
		n = path.Join(dir, n)
		if len(parts) == 1 {
			if !s.ignored(n) {
				all = append(all, n)
			}
			continue
		}
		below, err := s.match(n, parts[1:])
		if err != nil {
			return nil, err
		}
		all = append(all, below...)
	}
	return all, nil
}

// list returns the names in a directory, sorted.
func (s *source) list(dir string) ([]string, error) {
	fd, err := beneath.Open(int(s.root.Fd()), under(dir), unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), dir)
	defer f.Close()
	names, err := f.Readdirnames(-1)
	slices.Sort(names)
	return names, err
}

// under returns a name for beneath.Open.
func under(name string) string { return cmp.Or(name, ".") }

// resolve returns the name without links that a name means, as if the source were the root
// directory.
func (s *source) resolve(name string) (string, error) {
	fd, err := beneath.OpenIn(int(s.root.Fd()), under(name), unix.O_PATH)
	if err != nil {
		return "", err
	}
	defer unix.Close(fd)
	return beneath.NameIn(int(s.root.Fd()), fd)
}

// stat returns a name's status, over no link.
func (s *source) stat(name string) (st unix.Stat_t, err error) {
	dir, base := path.Split(name)
	if base == "" {
		return st, unix.Fstat(int(s.root.Fd()), &st)
	}
	fd, err := beneath.Open(int(s.root.Fd()), under(path.Clean(dir)), unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return st, err
	}
	defer unix.Close(fd)
	return st, unix.Fstatat(fd, base, &st, unix.AT_SYMLINK_NOFOLLOW)
}

// readlink returns where a link leads.
func (s *source) readlink(name string) (string, error) {
	fd, err := beneath.Open(int(s.root.Fd()), name, unix.O_PATH|unix.O_NOFOLLOW, 0)
	if err != nil {
		return "", err
	}
	defer unix.Close(fd)
	return beneath.Readlink(fd, "")
}

// open opens a regular file.
func (s *source) open(name string) (io.ReadCloser, error) {
	return beneath.OpenFile(int(s.root.Fd()), name)
}

// walk calls do with a name and all below it that is copied: a directory before its content. A
// directory that .dockerignore leaves out is there for the names below it that it does not: pending
// are those on the way to name of which do does not know yet.
func (s *source) walk(name string, pending []string, do func(name string, st *unix.Stat_t) error) error {
	st, err := s.stat(name)
	if err != nil {
		return fmt.Errorf("%.300q: %w", name, err)
	}
	isDir := st.Mode&unix.S_IFMT == unix.S_IFDIR
	if name != "" && s.ignored(name) {
		if !isDir || !s.ignore.Exclusions() {
			return nil
		}
		pending = append(slices.Clip(pending), name)
	} else {
		for _, dir := range append(pending, name) {
			if st, err = s.stat(dir); err == nil {
				err = do(dir, &st)
			}
			if err != nil {
				return fmt.Errorf("%.300q: %w", dir, err)
			}
		}
		pending = nil
	}
	if !isDir {
		return nil
	}
	names, err := s.list(name)
	if err != nil {
		return fmt.Errorf("%.300q: %w", name, err)
	}
	for _, n := range names {
		if n = path.Join(name, n); s.excluded(n) {
			continue
		}
		if err := s.walk(n, pending, do); err != nil {
			return err
		}
	}
	return nil
}

// facts are a digest of facts, in order.
type facts struct{ hash hash.Hash }

func (f facts) add(v any) error { return json.NewEncoder(f.hash).Encode(v) }

func (f facts) sum() string { return fmt.Sprintf("%x", f.hash.Sum(nil)) }

// digest adds what is copied to a digest.
func (s *source) digest(out facts) error {
	if s.root != nil && s.Image == "" {
		for _, top := range s.found {
			err := s.walk(top, nil, func(name string, st *unix.Stat_t) (err error) {
				text := ""
				switch st.Mode & unix.S_IFMT {
				case unix.S_IFLNK:
					text, err = s.readlink(name)
				case unix.S_IFREG:
					text, err = s.sum(name)
				}
				if err != nil {
					return err
				}
				return s.fact(out, name, st, text)
			})
			if err != nil {
				return err
			}
		}
	}
	return s.end(out)
}

// fact adds a file to a digest: text is where a link leads, or the digest of a content. An image has
// an id instead.
func (s *source) fact(out facts, name string, st *unix.Stat_t, text string) error {
	if s.Image != "" {
		return nil
	}
	return out.add([]any{name, st.Mode, text})
}

// end adds to a digest what is not of one file.
func (s *source) end(out facts) error {
	switch {
	case s.root == nil:
		return out.add(s.Source)
	case s.Image != "":
		return out.add([]any{s.Source, s.found})
	}
	return out.add([]any{s.Name, s.Exclude})
}

// sum returns the digest of a file's content.
func (s *source) sum(name string) (string, error) {
	f, err := s.open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	return newContent(f).sum()
}

// A content is a file that is read, and its digest.
type content struct {
	io.Reader
	hash hash.Hash
}

func newContent(r io.Reader) *content {
	h := sha256.New()
	return &content{io.TeeReader(r, h), h}
}

// sum reads what is left, and returns the digest of all.
func (c *content) sum() (string, error) {
	_, err := io.Copy(io.Discard, c)
	return fmt.Sprintf("%x", c.hash.Sum(nil)), err
}
