package toolchain

import (
	"errors"
	"io"
	"io/fs"
	"path"
	"strings"
)

// An fsView reads a file system by absolute paths, and follows symbolic links.
type fsView struct {
	fsys fs.FS
	// What was found out before. A directory of names is that without symbolic links.
	real  map[string]string
	wrong map[string]error
	modes map[string]fs.FileMode
	names map[string][]fs.DirEntry
}

func newView(fsys fs.FS) *fsView {
	return &fsView{
		fsys: fsys, real: map[string]string{}, wrong: map[string]error{},
		modes: map[string]fs.FileMode{}, names: map[string][]fs.DirEntry{},
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
	st, err := fs.Lstat(v.fsys, rel(real))
	if err != nil {
		return "", err
	}
	if st.Mode()&fs.ModeSymlink == 0 {
		v.modes[real] = st.Mode()
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

// mode returns the mode of what p leads to; irregular if it does not exist.
func (v *fsView) mode(p string) fs.FileMode {
	real, err := v.eval(p)
	if err != nil {
		return fs.ModeIrregular
	}
	if real == "/" {
		return fs.ModeDir
	}
	return v.modes[real]
}

func (v *fsView) isDir(p string) bool { return v.mode(p).IsDir() }

func (v *fsView) exists(p string) bool { _, err := v.eval(p); return err == nil }

// list returns the names in a directory, in no order; more than maxNames are an error.
func (v *fsView) list(p string) ([]fs.DirEntry, error) {
	real, err := v.eval(p)
	if err != nil {
		return nil, err
	}
	if names, known := v.names[real]; known {
		return names, nil
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
		v.names[real] = names
	}
	return names, err
}
