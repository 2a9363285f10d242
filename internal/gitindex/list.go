package gitindex

import (
	"bytes"
	"cmp"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"wolffia/internal/beneath"
)

// Tree returns the directories of the working tree at the directory dir that have tracked files,
// and which of them have nothing else.
func (x *Index) Tree(dir int) *Directory {
	fd, err := beneath.Open(dir, ".", unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return new(Directory)
	}
	return x.directory(fd, "", 0, 0, len(x.entries))
}

// directory returns the directory that is open as fd, which it closes; -1: it cannot be opened.
// It has the entries from lo to before hi, whose names begin with skip bytes for it.
func (x *Index) directory(fd int, name string, skip, lo, hi int) *Directory {
	d := &Directory{Name: name}
	var st unix.Stat_t
	if fd >= 0 && unix.Fstat(fd, &st) == nil {
		d.Stat, d.Clean = StatOf(&st), true
	}
	tracked := map[string]struct{}{}
	for i := lo; i < hi; {
		rest := x.Name(i)[skip:]
		file, _, below := bytes.Cut(rest, []byte("/"))
		tracked[string(file)] = struct{}{}
		if !below {
			if string(file) == ".gitignore" && x.Stage(i) == 0 {
				d.Ignore = x.ID(i)
			}
			i++
			continue
		}
		end := i + 1
		for prefix := x.Name(i)[:skip+len(file)+1]; end < hi && bytes.HasPrefix(x.Name(end), prefix); {
			end++
		}
		sub := -1
		if fd >= 0 {
			if open, err := beneath.Open(fd, string(file), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0); err == nil {
				sub = open
			}
		}
		d.Dirs = append(d.Dirs, x.directory(sub, string(file), skip+len(file)+1, i, end))
		i = end
	}
	slices.SortFunc(d.Dirs, func(a, b *Directory) int { return cmp.Compare(a.Name, b.Name) }) // in the index a.b is before a
	if fd < 0 {
		return d
	}
	f := os.NewFile(uintptr(fd), "directory")
	defer f.Close()
	names, err := f.Readdirnames(-1)
	d.Clean = d.Clean && err == nil
	for _, n := range names {
		if _, is := tracked[n]; !is && (n != ".git" || skip > 0) {
			d.Clean = false
			break
		}
	}
	return d
}

// StatOf returns the attributes st as git keeps them.
func StatOf(st *unix.Stat_t) Stat {
	return Stat{
		CtimeSec: uint32(st.Ctim.Sec), CtimeNsec: uint32(st.Ctim.Nsec), MtimeSec: uint32(st.Mtim.Sec), MtimeNsec: uint32(st.Mtim.Nsec),
		Dev: uint32(st.Dev), Ino: uint32(st.Ino), Mode: st.Mode, UID: st.Uid, GID: st.Gid, Size: uint32(st.Size),
	}
}
