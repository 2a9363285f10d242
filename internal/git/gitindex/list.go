package gitindex

import (
	"bytes"
	"cmp"
	"slices"

	"golang.org/x/sys/unix"

	"wolffia/internal/sys/beneath"
)

// Tree returns the directories of the working tree at the directory dir that have tracked files,
// and which of them have nothing else.
func (x *Index) Tree(dir int) *Directory {
	fd, err := beneath.Open(dir, ".", unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return new(Directory)
	}
	l := &lister{Index: x, tracked: map[string]struct{}{}, buf: make([]byte, 32<<10)}
	return l.directory(fd, "", 0, 0, len(x.entries))
}

// A lister lists directories, one after the other.
type lister struct {
	*Index
	tracked map[string]struct{} // names in the directory at hand
	buf     []byte
	names   []string
}

// directory returns the directory that is open as fd, which it closes; -1: it cannot be opened.
// It has the entries from lo to before hi, whose names begin with skip bytes for it.
func (l *lister) directory(fd int, name string, skip, lo, hi int) *Directory {
	d := &Directory{Name: name}
	var st unix.Stat_t
	if fd >= 0 && unix.Fstat(fd, &st) == nil {
		d.Stat, d.Clean = StatOf(&st), true
	}
	type part struct {
		name   string
		lo, hi int
	}
	var below []part
	clear(l.tracked)
	for i := lo; i < hi; {
		rest := l.Name(i)[skip:]
		file, _, is := bytes.Cut(rest, []byte("/"))
		l.tracked[string(file)] = struct{}{}
		if !is {
			if string(file) == ".gitignore" && l.Stage(i) == 0 {
				d.Ignore = l.ID(i)
			}
			i++
			continue
		}
		end := i + 1
		for prefix := l.Name(i)[:skip+len(file)+1]; end < hi && bytes.HasPrefix(l.Name(end), prefix); {
			end++
		}
		below = append(below, part{string(file), i, end})
		i = end
	}
	d.Clean = d.Clean && l.only(fd, skip == 0)
	for _, b := range below {
		sub := -1
		if fd >= 0 {
			if open, err := beneath.Open(fd, b.name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0); err == nil {
				sub = open
			}
		}
		d.Dirs = append(d.Dirs, l.directory(sub, b.name, skip+len(b.name)+1, b.lo, b.hi))
	}
	slices.SortFunc(d.Dirs, func(a, b *Directory) int { return cmp.Compare(a.Name, b.Name) }) // in the index a.b is before a
	if fd >= 0 {
		unix.Close(fd)
	}
	return d
}

// only reports whether the directory fd has tracked names only, and at the top .git.
func (l *lister) only(fd int, top bool) bool {
	for {
		n, err := unix.Getdents(fd, l.buf)
		if n <= 0 || err != nil {
			return err == nil
		}
		_, _, l.names = unix.ParseDirent(l.buf[:n], -1, l.names[:0])
		for _, name := range l.names {
			if _, is := l.tracked[name]; !is && (name != ".git" || !top) {
				return false
			}
		}
	}
}

// StatOf returns the attributes st as git keeps them.
func StatOf(st *unix.Stat_t) Stat {
	return Stat{
		CtimeSec: uint32(st.Ctim.Sec), CtimeNsec: uint32(st.Ctim.Nsec), MtimeSec: uint32(st.Mtim.Sec), MtimeNsec: uint32(st.Mtim.Nsec),
		Dev: uint32(st.Dev), Ino: uint32(st.Ino), Mode: st.Mode, UID: st.Uid, GID: st.Gid, Size: uint32(st.Size),
	}
}
