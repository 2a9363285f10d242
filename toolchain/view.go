package toolchain

import (
	"errors"
	"io"
	"io/fs"
	"path"
	"strings"
)

// An fsView is a snapshot of a file system: it reads absolute paths, follows symbolic links,
// and asks for nothing twice. What is in a directory that was listed comes from the list.
type fsView struct {
	fsys fs.FS
	// What was found out before, by paths without symbolic links but for real and wrong.
	real  map[string]string
	wrong map[string]error
	types map[string]fs.FileMode
	lists map[string]*listing
}

// A listing is what a directory contains.
type listing struct {
	entries []fs.DirEntry
	types   map[string]fs.FileMode // by name; nil until a name is looked up
}

// lookup returns the type of a name, if the directory has it.
func (l *listing) lookup(name string) (typ fs.FileMode, has bool) {
	if l.types == nil {
		l.types = make(map[string]fs.FileMode, len(l.entries))
		for _, e := range l.entries {
			l.types[e.Name()] = e.Type()
		}
	}
	typ, has = l.types[name]
	return typ, has
}

func newView(fsys fs.FS) *fsView {
	return &fsView{
		fsys: fsys, real: map[string]string{}, wrong: map[string]error{},
		types: map[string]fs.FileMode{}, lists: map[string]*listing{},
	}
}

// errLoop is eval's error for too many links.
var errLoop = errors.New("too many symbolic links")

func rel(p string) string {
	if p = strings.TrimPrefix(p, "/"); p == "" {
		return "."
	}
	return p
}

// eval returns p without symbolic links, if it exists.
func (v *fsView) eval(p string) (string, error) { return v.walk(path.Clean(p), 40) }

func (v *fsView) walk(p string, links int) (string, error) {
	if p == "/" {
		return p, nil
	}
	if real, known := v.real[p]; known {
		return real, v.wrong[p]
	}
	real, err := v.step(p, links)
	v.real[p] = real
	if err != nil {
		v.wrong[p] = err
	}
	return real, err
}

// step is walk for a path that was not asked for before.
func (v *fsView) step(p string, links int) (string, error) {
	at := strings.LastIndexByte(p, '/')
	dir, err := v.walk(p[:max(at, 1)], links)
	if err != nil {
		return "", err
	}
	real := p
	if dir != p[:max(at, 1)] {
		real = path.Join(dir, p[at+1:])
	}
	typ, err := v.typeIn(dir, p[at+1:], real)
	if err != nil {
		return "", err
	}
	if typ&fs.ModeSymlink == 0 {
		return real, nil
	}
	if links == 0 {
		return "", errLoop
	}
	target, err := fs.ReadLink(v.fsys, rel(real))
	if err != nil {
		return "", err
	}
	if !path.IsAbs(target) {
		target = path.Join(dir, target)
	}
	return v.walk(path.Clean(target), links-1)
}

// typeIn returns the type of the name in the directory dir, which is at the path real.
func (v *fsView) typeIn(dir, name, real string) (fs.FileMode, error) {
	if typ, known := v.types[real]; known {
		return typ, nil
	}
	if l := v.lists[dir]; l != nil {
		typ, has := l.lookup(name)
		if !has {
			return 0, fs.ErrNotExist
		}
		v.types[real] = typ
		return typ, nil
	}
	st, err := fs.Lstat(v.fsys, rel(real))
	if err != nil {
		return 0, err
	}
	v.types[real] = st.Mode().Type()
	return v.types[real], nil
}

// has reports whether the directory dir has what is at the path below, if only a symbolic
// link to nothing.
func (v *fsView) has(dir, below string) bool {
	at := strings.LastIndexByte(below, '/')
	if at >= 0 {
		dir = dir + "/" + below[:at]
	}
	real, err := v.eval(dir)
	if err != nil {
		return false
	}
	_, err = v.typeIn(real, below[at+1:], path.Join(real, below[at+1:]))
	return err == nil
}

// typ returns the type of what p leads to; irregular if it does not exist.
func (v *fsView) typ(p string) fs.FileMode {
	real, err := v.eval(p)
	if err != nil {
		return fs.ModeIrregular
	}
	if real == "/" {
		return fs.ModeDir
	}
	return v.types[real]
}

func (v *fsView) isDir(p string) bool { return v.typ(p).IsDir() }

// program reports whether real, a path without symbolic links, is an executable file.
func (v *fsView) program(real string) bool {
	if !v.typ(real).IsRegular() {
		return false
	}
	st, err := fs.Lstat(v.fsys, rel(real))
	return err == nil && st.Mode().IsRegular() && st.Mode().Perm()&0o111 != 0
}

func (v *fsView) exists(p string) bool { _, err := v.eval(p); return err == nil }

// list returns the names in a directory, in no order; more than maxNames are an error.
func (v *fsView) list(p string) ([]fs.DirEntry, error) {
	real, err := v.eval(p)
	if err != nil {
		return nil, err
	}
	if l := v.lists[real]; l != nil {
		return l.entries, nil
	}
	d, err := v.fsys.Open(rel(real))
	if err != nil {
		return nil, err
	}
	defer d.Close()
	dir, is := d.(fs.ReadDirFile)
	if !is {
		return nil, fs.ErrInvalid
	}
	names, err := dir.ReadDir(maxNames + 1)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	if err == nil && len(names) > maxNames {
		err = errors.New("too many names")
	}
	if err == nil {
		v.lists[real] = &listing{entries: names}
	}
	return names, err
}
