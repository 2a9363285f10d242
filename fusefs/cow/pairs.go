package cow

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"wolffia/perm"
	"wolffia/runtime"
)

// pairs calls f for each file that c is about.
func (p *plan) pairs(c *change, f func(*pair) error) error {
	switch {
	case c.Denied != "" || c.Unapplied != "":
		return nil
	case c.Kind == runtime.ChangeDeleted:
		return p.deletedPairs(c, f)
	case c.Kind == runtime.ChangeRenamed:
		if c.host != nil {
			if err := p.deletedPairs(c, f); err != nil {
				return err
			}
		}
		return p.renamedPairs(c, f)
	}
	if c.Kind == runtime.ChangeType {
		if err := p.deletedPairs(c, f); err != nil {
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
	var err error
	if q.oldPath != "" {
		if err = p.read(q, &q.old, p.Root, c.lower, c.host); err != nil {
			return fmt.Errorf("read %q: %w", c.lower, err)
		}
	}
	if c.upper.lower != "" {
		err = p.read(q, &q.new, p.Root, c.upper.lower, c.upper.object)
	} else {
		err = p.read(q, &q.new, p.Upper, c.Path, c.upper.object)
	}
	if err != nil {
		return fmt.Errorf("read %q in the upper layer: %w", c.Path, err)
	}
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

// read reads the content of a file or symbolic link of a layer. What is not text, or too long, is binary.
func (p *plan) read(q *pair, content *[]byte, root int, at string, o *object) error {
	if o.isLink() {
		dir, err := openDir(root, parentOf(at))
		if err != nil || dir < 0 {
			return errors.Join(err, unix.ESTALE)
		}
		defer unix.Close(dir)
		target, err := readLink(dir, path.Base(at))
		*content = []byte(target)
		return err
	}
	if o.Size > maxText {
		q.binary = true
		return nil
	}
	open := func() (*os.File, error) { return openFileAt(root, at) }
	if root == p.Upper {
		open = func() (*os.File, error) { return p.openUpperAt(at) }
	}
	file, err := open()
	if err != nil {
		return err
	}
	defer file.Close()
	if *content, err = readAll(file, int(o.Size)); err != nil {
		return err
	}
	const looked = 8000 // bytes, as git looks for a NUL
	if len(*content) > maxText || bytes.IndexByte((*content)[:min(len(*content), looked)], 0) >= 0 {
		q.binary = true
	}
	return nil
}

// readAll reads a file of about size bytes, of which it reads maxText bytes and one.
func readAll(f *os.File, size int) ([]byte, error) {
	b := bytes.NewBuffer(make([]byte, 0, min(size, maxText)+bytes.MinRead))
	_, err := b.ReadFrom(io.LimitReader(f, maxText+1))
	return b.Bytes(), err
}

// visible calls f for each file and symbolic link of the host's at and below a path that the rules show there and, as the
// sandbox sees it, at the path inside, in order.
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
	if dir < 0 {
		return err
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
	if err != nil {
		return err
	}
	slices.Sort(all)
	for _, name := range all {
		o, err := look(dir, name)
		if err != nil {
			return err
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
func (p *plan) deletedPairs(c *change, f func(*pair) error) error {
	return p.visible(c.lower, c.Path, c.host, func(at string, o *object) error {
		q := &pair{oldPath: at, oldMode: gitMode(o, o.perms())}
		if err := p.read(q, &q.old, p.Root, at, o); err != nil {
			return fmt.Errorf("read %q: %w", at, err)
		}
		return f(q)
	})
}

// renamedPairs calls f for each file of the host's that is renamed with its directory and has no change of its own.
func (p *plan) renamedPairs(c *change, f func(*pair) error) error {
	o, err := lookAt(p.Root, c.src)
	if o == nil || err != nil {
		return err
	}
	return p.visible(c.src, c.Path, o, func(at string, o *object) error {
		to := c.Path + at[len(c.src):]
		if p.inUpper(to) && !(p.entry(to) != nil && p.entry(to).object.isKnownKind() && !p.isChanged(to)) {
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

// inUpper reports whether the upper layer decides about a path itself: it has the name or a directory above it that is
// not merged, or has no directory there.
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
