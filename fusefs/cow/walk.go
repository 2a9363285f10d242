package cow

import (
	"errors"
	"fmt"
	"path"

	"golang.org/x/sys/unix"

	"wolffia/internal/beneath"
)

// maxEntries bounds the names in an upper layer that are looked at, and the names of the host's that are
// compared with the log in a deleted directory.
const maxEntries = 1 << 20

// errTooMany is the error for an upper layer of more than maxEntries names.
var errTooMany = fmt.Errorf("more than %d names were changed", maxEntries)

// An entry is one object of the upper layer.
type entry struct {
	name   string
	object *object
	half   Half   // of a directory
	lower  string // of a directory that is Moved, and of a file without data
	long   bool   // the path is too long to be used

	children []*entry // of a directory
}

// readUpper returns the root of the upper layer with all below it.
func (l *Layers) readUpper() (*entry, error) {
	o, err := look(l.Upper, "")
	if err != nil {
		return nil, err
	}
	root := &entry{object: o}
	n := 0
	type dir struct {
		*entry
		path string
	}
	for todo := []dir{{root, ""}}; len(todo) > 0; {
		d := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		fd, err := beneath.Open(l.Upper, path.Join(".", d.path), unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
		if errors.Is(err, unix.ENAMETOOLONG) {
			d.long = true
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("open %q in the upper layer: %w", d.path, err)
		}
		if d.path != "" {
			if d.half, d.lower, err = Lower(fd); err != nil {
				unix.Close(fd)
				return nil, fmt.Errorf("%q in the upper layer: %w", d.path, err)
			}
		}
		err = names(fd, func(name string) error {
			if n++; n > maxEntries {
				return errTooMany
			}
			o, err := look(fd, name)
			if o == nil {
				return err
			}
			e := &entry{name: name, object: o}
			d.children = append(d.children, e)
			if o.isDir() {
				todo = append(todo, dir{e, path.Join(d.path, name)})
			} else if o.isFile() && o.Size >= MinData {
				e.lower, err = dataOf(fd, name)
			}
			return err
		})
		unix.Close(fd)
		if err != nil {
			return nil, fmt.Errorf("list %q in the upper layer: %w", d.path, err)
		}
	}
	return root, nil
}

// dataOf returns the path of the lower file that has the content of the file called name in dir; empty if that has
// it itself.
func dataOf(dir int, name string) (string, error) {
	var buf [unix.PathMax]byte
	p := procPath(dir) + "/" + name // the directory is the upper layer's, in which only this process makes links
	n, err := unix.Lgetxattr(p, AttrData, buf[:])
	if errors.Is(err, unix.ENODATA) || errors.Is(err, unix.EOPNOTSUPP) {
		return "", nil
	}
	if err == nil && string(buf[:n]) != DataLower {
		err = fmt.Errorf("attribute %s: %q is not known", AttrData, buf[:n])
	}
	if err == nil {
		n, err = unix.Lgetxattr(p, AttrLower, buf[:])
	}
	if err == nil && !ValidPath(string(buf[:n])) {
		err = fmt.Errorf("attribute %s: %q is not a path in the codebase", AttrLower, buf[:n])
	}
	if err != nil {
		return "", err
	}
	return string(buf[:n]), nil
}

// each calls f for e and all below it, with their paths, parents before children.
func (e *entry) each(at string, f func(p string, e *entry)) {
	for _, c := range e.children {
		p := path.Join(at, c.name)
		f(p, c)
		c.each(p, f)
	}
}
