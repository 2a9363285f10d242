package fusefs

import (
	"slices"
	"sort"
	"strings"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"wolffia/fusefs/backing"
	"wolffia/perm"
)

// A mergedList is the listing of a directory of a copied tree. A name keeps its number for as long
// as it exists, so that an offset means the same in every listing. This holds also after the
// directory got an upper half, whose file system has other offsets. A removed name leaves a gap:
// its number is not used again. Guarded by layers.mu of the directory.
type mergedList struct {
	names []listedName // by number
	last  uint64       // the last number used
}

// A listedName is a name in a mergedList.
type listedName struct {
	name   string
	number uint64
	ino    uint64
	typ    uint32
	upper  bool
}

// listMerged is list for a copied tree.
func (u *upperLayer) list(dir *node, d openDir, offset uint64, add func(*entry, openDir, fuse.DirEntry) bool) syscall.Errno {
	l := dir.layers
	l.mu.Lock()
	if l.listing == nil || offset == 0 {
		if errno := u.refresh(dir, d); errno != 0 {
			l.mu.Unlock()
			return errno
		}
	}
	names := l.listing.names // they never change
	l.mu.Unlock()
	first := sort.Search(len(names), func(i int) bool { return names[i].number > offset })
	var e entry // allocated once for all calls of add
	for i := range names[first:] {
		x := &names[first+i]
		e = newEntry(dir, x.name)
		v := fuse.DirEntry{Name: x.name, Mode: x.typ, Ino: u.number(x.ino, x.upper), Off: x.number}
		if known := u.table.child(dir, x.name); known != nil {
			v.Ino = known.layers.ino.Load()
		}
		if !add(&e, d, v) {
			break
		}
	}
	return 0
}

// refresh reads both halves of dir, which is open as d, into its list. The caller holds
// dir.layers.mu.
func (u *upperLayer) refresh(dir *node, d openDir) syscall.Errno {
	old := dir.layers.listing
	if old == nil {
		old = &mergedList{}
	}
	place := make(map[string]int, len(old.names))
	for i, x := range old.names {
		place[x.name] = i
	}
	list := &mergedList{last: old.last}
	kept, made := make([]listedName, len(old.names)), []listedName(nil) // of kept, the elements with a name
	put := func(x listedName) {
		i, ok := place[x.name]
		switch {
		case !ok:
			list.last++
			x.number = list.last
			place[x.name] = len(kept) + len(made)
			made = append(made, x)
		case i < len(kept):
			x.number = old.names[i].number
			kept[i] = x
		}
	}
	put(listedName{name: ".", ino: dir.layers.ino.Load(), typ: unix.S_IFDIR})
	up := dir.layers.ino.Load()
	if parent, _ := u.table.place(dir); parent != nil {
		up = parent.layers.ino.Load()
	}
	put(listedName{name: "..", ino: up, typ: unix.S_IFDIR})

	hidden := map[string]struct{}{}
	read := func(fd int, upper bool) syscall.Errno {
		return u.EachEntry(fd, func(v *fuse.DirEntry) syscall.Errno {
			if inUpper, inLower := u.git.sides(dir, v.Name); upper && !inUpper || !upper && !inLower {
				return 0
			}
			if _, ok := hidden[v.Name]; ok {
				return 0
			}
			if upper {
				hidden[v.Name] = struct{}{}
			}
			if x := (listedName{name: v.Name, ino: v.Ino, typ: v.Mode & unix.S_IFMT, upper: upper}); u.shows(dir, fd, &x) {
				put(x)
			}
			return 0
		})
	}
	if d.upper {
		if errno := read(d.fd, true); errno != 0 {
			return errno
		}
	}
	if fd := d.lowerFD(); fd >= 0 {
		if o, errno := u.Stat(backing.At{FD: fd}); errno == 0 {
			dir.layers.lowerTime.Store(o.Mtime.Sec*1e9 + int64(o.Mtime.Nsec))
		}
		errno := read(fd, false)
		if errno == syscall.ENOENT && d.upper {
			errno = 0 // the host has removed it: getdents(2)
		}
		if errno != 0 {
			return errno
		}
	}
	kept = slices.DeleteFunc(kept, func(x listedName) bool { return x.name == "" })
	list.names = slices.Concat(kept, made) // of its size: it stays
	dir.layers.listing = list
	return 0
}

// shows reports whether x, in the half fd of dir, must be listed, and completes it.
func (u *upperLayer) shows(dir *node, fd int, x *listedName) bool {
	if strings.HasPrefix(x.name, backing.OwnPrefix) {
		return false
	}
	if x.typ == 0 || x.upper && x.typ == unix.S_IFCHR {
		o, errno := u.Stat(backing.At{FD: fd, Name: x.name})
		if errno != 0 || x.upper && backing.IsWhiteout(o) {
			return false
		}
		x.typ = o.Type()
	}
	return u.levels.child(dir.getState(), x.name, x.typ == unix.S_IFDIR) != perm.None
}
