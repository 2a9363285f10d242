package layers

import (
	"archive/tar"
	"io"
	"os"
	"path"
	"time"

	"golang.org/x/sys/unix"

	"wolffia/image/store"
)

// Whiteouts of a layer (OCI image specification, layer.md).
const (
	whiteout = ".wh."
	opaque   = ".wh..wh..opq"
)

// Write writes the layer at dir as an uncompressed tar archive, whose bytes depend on nothing but
// the files' names, kinds, owners, modes, contents, file capabilities, and times of change in
// seconds. Names are sorted within each directory; device nodes and sockets are left out. owners
// has what the tree lacks, as Store.Owners returns it; nil for nothing.
func Write(w io.Writer, dir string, owners []store.Owned) error {
	p := &packer{w: tar.NewWriter(w), links: map[inode]string{}, owners: map[string]*store.Owned{}}
	for i := range owners {
		p.owners[owners[i].Name()] = &owners[i]
	}
	if err := walk(dir, nil, p.add); err != nil {
		return err
	}
	return p.w.Close()
}

type inode struct{ dev, ino uint64 }

// A packer writes a layer.
type packer struct {
	w      *tar.Writer
	links  map[inode]string // the first name of a file that has several
	owners map[string]*store.Owned
}

// add writes one file.
func (p *packer) add(f *file) error {
	h := &tar.Header{
		Name: f.name, Mode: int64(f.st.Mode & 0o7777), Uid: int(f.st.Uid), Gid: int(f.st.Gid),
		ModTime: time.Unix(f.st.Mtim.Sec, 0),
	}
	caps := f.capabilities()
	if o := p.owners[f.name]; o != nil {
		h.Uid, h.Gid, caps = int(o.UID), int(o.GID), o.Caps
		if f.kind() != unix.S_IFLNK {
			h.Mode = int64(o.Mode)
		}
	}
	if caps != nil {
		h.PAXRecords = map[string]string{"SCHILY.xattr." + capsXattr: string(caps)}
	}
	if f.st.Nlink > 1 && f.kind() != unix.S_IFDIR {
		is := inode{f.st.Dev, f.st.Ino}
		if first, ok := p.links[is]; ok {
			h.Typeflag, h.Linkname, h.PAXRecords = tar.TypeLink, first, nil
			return p.w.WriteHeader(h)
		}
		if !f.isWhiteout() { // overlayfs links all whiteouts to one
			p.links[is] = f.name
		}
	}
	switch f.kind() {
	case unix.S_IFDIR:
		h.Name, h.Typeflag = f.name+"/", tar.TypeDir
		if err := p.w.WriteHeader(h); err != nil || !f.isOpaque() {
			return err
		}
		return p.mark(h, path.Join(f.name, opaque))
	case unix.S_IFLNK:
		target, err := os.Readlink(f.path)
		if err != nil {
			return err
		}
		h.Typeflag, h.Linkname, h.Mode = tar.TypeSymlink, target, 0o777
		return p.w.WriteHeader(h)
	case unix.S_IFIFO:
		h.Typeflag = tar.TypeFifo
		return p.w.WriteHeader(h)
	case unix.S_IFREG:
		return p.content(h, f)
	}
	if f.isWhiteout() {
		return p.mark(h, path.Join(path.Dir(f.name), whiteout+path.Base(f.name)))
	}
	return nil
}

// mark writes an empty file with a meaning.
func (p *packer) mark(of *tar.Header, name string) error {
	return p.w.WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o600, ModTime: of.ModTime})
}

// content writes a regular file.
func (p *packer) content(h *tar.Header, f *file) error {
	in, err := f.open()
	if err != nil {
		return err
	}
	defer in.Close()
	h.Typeflag, h.Size = tar.TypeReg, f.st.Size
	if err := p.w.WriteHeader(h); err != nil {
		return err
	}
	_, err = io.CopyN(p.w, in, h.Size)
	return err
}
