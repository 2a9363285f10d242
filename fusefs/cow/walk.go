package cow

import (
	"cmp"
	"errors"
	"fmt"
	"path"

	"golang.org/x/sys/unix"
)

// maxEntries bounds the names in an upper layer that are looked at, and the names of the host's
// that are compared with the log in a deleted directory.
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
	o, err := statAt(l.Upper, "")
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
		if err := l.stopped(); err != nil {
			return nil, err
		}
		fd, err := l.ownDir(l.Upper, d.path)
		if errors.Is(err, unix.ENAMETOOLONG) {
			d.long = true
			continue
		}
		if err != nil || fd < 0 {
			return nil, fmt.Errorf("open %q in the upper layer: %w", d.path, cmp.Or(err, error(unix.ESTALE)))
		}
		if d.path != "" {
			if d.half, d.lower, err = l.lowerOf(fd); err != nil {
				unix.Close(fd)
				return nil, fmt.Errorf("%q in the upper layer: %w", d.path, err)
			}
		}
		d.children, err = l.list(fd, maxEntries-n)
		for _, e := range d.children {
			if err == nil && e.object.isFile() && e.object.Size >= MinData {
				e.lower, err = l.dataOf(fd, e.name)
			}
			if e.object.isDir() {
				todo = append(todo, dir{e, path.Join(d.path, e.name)})
			}
		}
		n += len(d.children)
		unix.Close(fd)
		if err != nil {
			return nil, fmt.Errorf("list %q in the upper layer: %w", d.path, err)
		}
	}
	return root, nil
}

// list returns the entries of the upper layer's directory fd, without the entries below them. It
// returns an error if they are more than most.
func (l *Layers) list(fd, most int) (all []*entry, err error) {
	err = l.asOwner(fd, func() error {
		all = nil
		return names(fd, func(name string) error {
			if len(all) >= most {
				return errTooMany
			}
			o, err := statAt(fd, name)
			if o != nil {
				all = append(all, &entry{name: name, object: o})
			}
			return err
		})
	})
	return all, err
}

// lowerOf is Lower for a directory of the upper layer.
func (l *Layers) lowerOf(fd int) (half Half, lower string, err error) {
	err = l.asOwner(fd, func() (err error) { half, lower, err = Lower(fd); return err })
	return half, lower, err
}

// dataOf returns the path of the lower file that has the content of the file called name in dir.
// It returns "" if the file has its content itself.
func (l *Layers) dataOf(dir int, name string) (lower string, err error) {
	p := procPath(dir) + "/" + name // the directory is the upper layer's, in which only this process makes links
	if lower, err = dataAt(p); !errors.Is(err, unix.EACCES) {
		return lower, err
	}
	err = l.onOwn(dir, name, func(fd int) (err error) { lower, err = dataAt(procPath(fd)); return err })
	return lower, err
}

// dataAt is dataOf for a file that /proc shows at p.
func dataAt(p string) (string, error) {
	var buf [unix.PathMax]byte
	n, err := unix.Getxattr(p, AttrData, buf[:])
	if errors.Is(err, unix.ENODATA) || errors.Is(err, unix.EOPNOTSUPP) {
		return "", nil
	}
	if err == nil && string(buf[:n]) != DataLower {
		err = fmt.Errorf("attribute %s: %q is not known", AttrData, buf[:n])
	}
	if err == nil {
		n, err = unix.Getxattr(p, AttrLower, buf[:])
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
