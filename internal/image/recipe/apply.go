package recipe

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"wolffia/image/maker"
)

// Sources are the opened sources of a recipe. The caller closes them.
type Sources struct {
	of  *maker.Recipe
	all []*source
	out facts // of what Apply has copied

	skipped int    // files of archives that were left out
	first   string // of them
}

// Open opens the sources of a recipe. dirOf returns the host's directory of a source; "" for a text.
// ErrNotFound: a source does not exist.
func Open(r *maker.Recipe, dirOf func(*maker.Source) (string, error)) (_ *Sources, err error) {
	s := &Sources{of: r}
	defer func() {
		if err != nil {
			_ = s.Close()
		}
	}()
	for i := range r.Sources {
		dir, err := dirOf(&r.Sources[i])
		if err != nil {
			return nil, err
		}
		src, err := openSource(r.Sources[i], dir)
		if err != nil {
			return nil, err
		}
		s.all = append(s.all, src)
	}
	return s, nil
}

// Close closes them.
func (s *Sources) Close() error {
	var errs []error
	for _, src := range s.all {
		if src.root != nil {
			errs = append(errs, src.root.Close())
		}
	}
	return errors.Join(errs...)
}

// Digest returns a hexadecimal digest of what the recipe copies, and where to: names, modes and
// contents. Of an image it is the image's id and the names.
func (s *Sources) Digest() (string, error) {
	f, err := s.begin()
	if err != nil {
		return "", err
	}
	for _, src := range s.all {
		if err := src.digest(f); err != nil {
			return "", err
		}
	}
	return f.sum(), nil
}

// Copied returns what Digest does, of what Apply has read: files may have changed between.
func (s *Sources) Copied() string { return s.out.sum() }

// Skipped says what of archives was left out; empty: nothing.
func (s *Sources) Skipped() string {
	if s.skipped == 0 {
		return ""
	}
	return fmt.Sprintf("device nodes of the archive are left out: %d, the first is %.300q", s.skipped, s.first)
}

// begin begins a digest with what the recipe says beside its sources.
func (s *Sources) begin() (facts, error) {
	r := *s.of
	r.Sources, r.Fresh = nil, false
	f := facts{sha256.New()}
	return f, f.add(&r)
}

// Apply does what the recipe says in the root directory at root.
func (s *Sources) Apply(root string) (err error) {
	if s.out, err = s.begin(); err != nil {
		return err
	}
	f, err := os.OpenFile(root, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	t := &target{root: f, mode: -1}
	if s.of.Chmod != "" {
		mode, err := strconv.ParseUint(s.of.Chmod, 8, 12)
		if err != nil {
			return invalid("--chmod=%s: it must be an octal mode, such as 0755", s.of.Chmod)
		}
		t.mode = int(mode)
	}
	if t.uid, t.gid, err = t.owner(s.of.Chown); err != nil {
		return err
	}
	if len(s.all) == 0 {
		dir, err := t.dir(s.of.Dest)
		if err == nil {
			err = dir.Close()
		}
		return err
	}
	return s.copy(t)
}

// copy copies the sources.
func (s *Sources) copy(t *target) error {
	var many int
	for _, src := range s.all {
		many += len(src.found)
	}
	into := s.of.IntoDir || many > 1 || strings.HasSuffix(s.of.Dest, "/") || t.isDir(s.of.Dest)
	for _, src := range s.all {
		for _, name := range src.found {
			if err := s.copyOne(t, src, name, into); err != nil {
				return err
			}
		}
		if err := src.end(s.out); err != nil {
			return err
		}
	}
	return nil
}

// isDir reports whether a path is a directory in the target.
func (t *target) isDir(name string) bool {
	fd, err := t.inRoot(name, unix.O_PATH|unix.O_DIRECTORY)
	if err == nil {
		_ = unix.Close(fd)
	}
	return err == nil
}

// copyOne copies one name of a source: a directory's content into the destination, an archive's, or
// a file.
func (s *Sources) copyOne(t *target, src *source, name string, into bool) error {
	if src.root == nil {
		return s.copyText(t, src, into)
	}
	st, err := src.stat(name)
	if err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		dir, err := t.dir(s.of.Dest)
		if err != nil {
			return err
		}
		defer dir.Close()
		if err := src.fact(s.out, name, &st, ""); err != nil {
			return err
		}
		names, err := src.list(name)
		if err != nil {
			return err
		}
		for _, n := range names {
			from := path.Join(name, n)
			if src.excluded(from) {
				continue
			}
			if err := t.put(src, from, dir, n, s.out); err != nil {
				return err
			}
		}
		return nil
	}
	if s.of.Unpacks && st.Mode&unix.S_IFMT == unix.S_IFREG {
		if done, err := s.unpack(t, src, name, &st); done || err != nil {
			return err
		}
	}
	dir, base, err := t.place(s.of.Dest, path.Base(src.baseOf(name)), into)
	if err != nil {
		return err
	}
	defer dir.Close()
	return t.put(src, name, dir, base, s.out)
}

// baseOf returns the name that a file is copied by: that of the link, if Name is one.
func (s *source) baseOf(name string) string {
	if len(s.found) == 1 && !strings.ContainsAny(s.Name, "*?[\\") {
		return s.Name
	}
	return name
}

// place returns the directory and the name of a file at dest, or of the name base in it.
func (t *target) place(dest, base string, into bool) (*os.File, string, error) {
	if !into {
		dest, base = path.Split(dest)
	}
	dir, err := t.dir(dest)
	return dir, base, err
}

// copyText makes a file of a text.
func (s *Sources) copyText(t *target, src *source, into bool) error {
	dir, base, err := t.place(s.of.Dest, path.Base(src.Name), into)
	if err != nil {
		return err
	}
	defer dir.Close()
	mode := uint32(0o644)
	if t.mode >= 0 {
		mode = uint32(t.mode)
	}
	if err := writeFile(dir, base, bytes.NewReader(src.Text), t.uid, t.gid, mode); err != nil {
		return err
	}
	return setTime(int(dir.Fd()), base, unix.Timespec{}) // the same text is the same layer
}

// owner returns the ids of USER[:GROUP], which are numbers, or names of the target's /etc/passwd and
// /etc/group. Without a group it is the user's; of a number that is not in passwd it is the number.
func (t *target) owner(text string) (uid, gid int, err error) {
	if text == "" {
		return 0, 0, nil
	}
	user, group, both := strings.Cut(text, ":")
	uid, err = strconv.Atoi(user)
	if err == nil {
		gid = uid
	}
	if line := t.entry("etc/passwd", user, err == nil); line != nil {
		uid, err = strconv.Atoi(line[2])
		gid, _ = strconv.Atoi(line[3])
	}
	if err != nil {
		return 0, 0, invalid("--chown=%s: the image's /etc/passwd has no user %q", text, user)
	}
	if !both {
		return uid, gid, nil
	}
	gid, err = strconv.Atoi(group)
	if err != nil {
		line := t.entry("etc/group", group, false)
		if line == nil {
			return 0, 0, invalid("--chown=%s: the image's /etc/group has no group %q", text, group)
		}
		gid, err = strconv.Atoi(line[2])
	}
	return uid, gid, err
}

// maxEtc bounds the bytes of passwd(5) and group(5) that are read.
const maxEtc = 1 << 20

// entry returns the fields, at least four, of a name's line; nil if there is none.
func (t *target) entry(file, name string, number bool) []string {
	fd, err := t.inRoot(file, unix.O_RDONLY|unix.O_NONBLOCK)
	if err != nil {
		return nil
	}
	f := os.NewFile(uintptr(fd), file)
	defer f.Close()
	if st, err := f.Stat(); err != nil || !st.Mode().IsRegular() {
		return nil
	}
	text, _ := io.ReadAll(io.LimitReader(f, maxEtc))
	for line := range strings.Lines(string(text)) {
		fields := strings.Split(strings.TrimSpace(line), ":")
		if len(fields) >= 4 && (fields[0] == name || number && fields[2] == name) {
			return fields
		}
	}
	return nil
}
