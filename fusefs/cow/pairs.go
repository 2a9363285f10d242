package cow

import (
	"bytes"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"wolffia/internal/sys/beneath"
	"wolffia/perm"
	"wolffia/runtime"
)

// A reader reads the files that changes are about.
type reader struct {
	*plan
	old, new []byte // the room for the content of one pair
}

// pairs calls f for each file that c is about. What f is given is valid until it returns.
func (r *reader) pairs(c *change, f func(*pair) error) error {
	switch {
	case c.Denied != "" || c.Unapplied != "":
		return nil
	case c.Kind == runtime.ChangeDeleted:
		return r.deletedPairs(c, f)
	case c.Kind == runtime.ChangeRenamed:
		if c.host != nil {
			if err := r.deletedPairs(c, f); err != nil {
				return err
			}
		}
		return r.renamedPairs(c, f)
	}
	if c.Kind == runtime.ChangeType {
		if err := r.deletedPairs(c, f); err != nil {
			return err
		}
	}
	if c.Type == runtime.TypeDirectory {
		return nil
	}
	q := &pair{newPath: c.Path, newMode: gitMode(c.upper.object, c.NewMode)}
	if c.host != nil && c.Kind != runtime.ChangeType {
		q.oldPath, q.oldMode = c.lower, gitMode(c.host, c.OldMode)
	}
	if c.Kind == runtime.ChangeMode {
		return f(q)
	}
	if q.oldPath != "" {
		if err := r.readOld(q, c.lower, c.host); err != nil {
			return err
		}
	}
	root, at := r.Upper, c.Path
	if c.upper.lower != "" {
		root, at = r.Root, c.upper.lower
	}
	var err error
	if r.new, err = r.read(q, r.new, root, at, c.upper.object); err != nil {
		return fmt.Errorf("read the new content of %q: %w", c.Path, err)
	}
	q.new = r.new
	return f(q)
}

// gitMode returns the mode that git has for a file with these permissions.
func gitMode(o *object, perms uint32) uint32 {
	switch {
	case o.isLink():
		return 0o120000
	case perms&0o100 != 0:
		return 0o100755
	}
	return 0o100644
}

// readOld reads what the host has at a path, which is o, as the old content of q.
func (r *reader) readOld(q *pair, at string, o *object) (err error) {
	if r.old, err = r.read(q, r.old, r.Root, at, o); err != nil {
		return fmt.Errorf("read %q: %w", at, err)
	}
	q.old = r.old
	return nil
}

// read reads the file or symbolic link o, at a path below root, into buf, which it returns.
// Content that is not text, or too long, is binary. So is content that the host does not allow
// this user to read: it differs, in an unknown way.
func (r *reader) read(q *pair, buf []byte, root int, at string, o *object) ([]byte, error) {
	buf, err := r.content(q, buf[:0], root, at, o)
	if root == r.Root && errors.Is(err, unix.EACCES) {
		q.binary = true
		return buf[:0], nil
	}
	return buf, err
}

// content is read for what can be read.
func (r *reader) content(q *pair, buf []byte, root int, at string, o *object) ([]byte, error) {
	openParent, link, open := openDir, beneath.Readlink, openRegular
	if root == r.Upper {
		openParent, link, open = r.ownDir, r.ownLink, r.openOwn
	}
	if o.isLink() {
		dir, err := openParent(root, parentOf(at))
		if err != nil || dir < 0 {
			return buf, errors.Join(err, unix.ESTALE)
		}
		defer unix.Close(dir)
		target, err := link(dir, path.Base(at))
		return append(buf, target...), err
	}
	if o.Size > maxText {
		q.binary = true
		return buf, nil
	}
	fd, size, err := open(root, at)
	if err != nil {
		return buf, err
	}
	defer unix.Close(fd)
	if buf, err = readText(buf, fd, size); err != nil {
		return buf, err
	}
	const looked = 8000 // bytes, as git looks for a NUL
	if len(buf) > maxText || bytes.IndexByte(buf[:min(len(buf), looked)], 0) >= 0 {
		q.binary = true
	}
	return buf, nil
}

// readText reads a file of about size bytes into buf, at most maxText bytes and one.
func readText(buf []byte, fd int, size int64) ([]byte, error) {
	for len(buf) <= maxText {
		buf = slices.Grow(buf, max(int(min(size, maxText))-len(buf), 0)+1)
		n, err := unix.Read(fd, buf[len(buf):min(cap(buf), maxText+1)])
		switch {
		case errors.Is(err, unix.EINTR):
		case n <= 0 || err != nil:
			return buf, err
		default:
			buf = buf[:len(buf)+n]
		}
	}
	return buf, nil
}

// visible calls f for each file and symbolic link of the host's at and below a path that the rules
// show there and, as the sandbox sees it, at the path inside, in order. It skips the entries of a
// directory that this user may not list.
func (p *plan) visible(at, inside string, o *object, f func(at string, o *object) error) error {
	l := p.Rules.Child(p.state(parentOf(at)), path.Base(at), o.isDir())
	if inside != at {
		l = min(l, p.Rules.Child(p.state(parentOf(inside)), path.Base(inside), o.isDir()))
	}
	switch {
	case !o.isDir() && l >= perm.Read && o.isKnownKind():
		return f(at, o)
	case !o.isDir(), l == perm.None, o.isMount(), IsGit(path.Base(at)):
		return nil
	}
	dir, err := openDir(p.Root, at)
	if errors.Is(err, unix.EACCES) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("open %q: %w", at, err)
	}
	if dir < 0 {
		return nil
	}
	defer unix.Close(dir)
	var all []string
	err = names(dir, func(name string) error {
		if len(all) >= maxEntries {
			return errTooMany
		}
		all = append(all, name)
		return nil
	})
	if errors.Is(err, unix.EACCES) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("list %q: %w", at, err)
	}
	slices.Sort(all)
	for _, name := range all {
		o, err := statAt(dir, name)
		if errors.Is(err, unix.EACCES) {
			return nil // nothing in it can be looked at
		}
		if err != nil {
			return fmt.Errorf("look at %q: %w", join(at, name), err)
		}
		if o == nil || p.moved[join(at, name)] != "" {
			continue
		}
		if err := p.visible(join(at, name), join(inside, name), o, f); err != nil {
			return err
		}
	}
	return nil
}

// deletedPairs calls f for each file of the host's that goes with c.host.
func (r *reader) deletedPairs(c *change, f func(*pair) error) error {
	return r.visible(c.lower, c.Path, c.host, func(at string, o *object) error {
		q := &pair{oldPath: at, oldMode: gitMode(o, o.perms())}
		if err := r.readOld(q, at, o); err != nil {
			return err
		}
		return f(q)
	})
}

// renamedPairs calls f for each file of the host's that is renamed with its directory and has no
// change of its own.
func (r *reader) renamedPairs(c *change, f func(*pair) error) error {
	o, err := statPath(r.Root, c.src)
	switch {
	case errors.Is(err, unix.EACCES):
		return nil
	case err != nil:
		return fmt.Errorf("look at %q: %w", c.src, err)
	case o == nil:
		return nil
	}
	return r.visible(c.src, c.Path, o, func(at string, o *object) error {
		to := c.Path + at[len(c.src):]
		if r.inUpper(to) && !(r.entry(to) != nil && r.entry(to).object.isKnownKind() && !r.isChanged(to)) {
			return nil // it is deleted, or has a change of its own
		}
		mode := gitMode(o, o.perms())
		return f(&pair{oldPath: at, newPath: to, oldMode: mode, newMode: mode})
	})
}

// isChanged reports whether there is a change at a path.
func (p *plan) isChanged(at string) bool {
	i, found := slices.BinarySearchFunc(p.changes, at, func(c *change, at string) int { return strings.Compare(c.Path, at) })
	for ; found && i < len(p.changes) && p.changes[i].Path == at; i++ {
		if p.changes[i].Kind != "" {
			return true
		}
	}
	return false
}

// inUpper reports whether the upper layer decides about a path itself: it has the name or a
// directory above it that is not merged, or has no directory there.
func (p *plan) inUpper(at string) bool {
	e := p.root
	for name := range strings.SplitSeq(at, "/") {
		i := slices.IndexFunc(e.children, func(c *entry) bool { return c.name == name })
		if i < 0 {
			return e.half == Own && e != p.root || !e.object.isDir()
		}
		e = e.children[i]
	}
	return true
}
