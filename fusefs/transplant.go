package fusefs

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"wolffia/fusefs/backing"
	"wolffia/fusefs/gate"
	"wolffia/internal/git/gitguard"
)

// A directory keeps its rules when it moves, in each tree server that has it open: see
// renamehost.go. So one that moves to other rules is made anew there, with all directories below,
// and gets other names of the same files, if each name below has the same level in both places.
// The directories that others have open lose these names and are removed. What comes to be in them
// meanwhile stays, in the former place, by the former rules. The new directory is in place before
// the former one leaves its own. So a server that is killed meanwhile leaves both, or one that has
// a name of the server's own at the top (Options.MoveTemps) and whose files have other names.

// Limits of a transplant, during which all other requests wait. A program copies the rest.
const (
	maxTransplant   = 1 << 14 // names
	transplantLimit = time.Second
	transplantDepth = 100 // each takes two descriptors
)

// A transplant is the move of a directory to a place with other rules.
type transplant struct {
	*tree
	count int
	until time.Time
	files map[backing.Identity]struct{}         // that have got their new names
	dirs  map[backing.Identity]backing.Identity // the new directories, by those that they were made for
	why   Denial                                // what refuses it, if a name does: Path is below both places
}

// transplant does r, of a directory of the host. The directories of r are open as from and to. The
// caller holds t.changeMu, t.levels.rulesMu and t.renameMu for writing: what other requests have
// found out about a name in the directory would not hold afterwards.
func (t *tree) transplant(r *renaming, from, to openDir) syscall.Errno {
	p := &transplant{
		tree: t, until: time.Now().Add(transplantLimit),
		files: map[backing.Identity]struct{}{}, dirs: map[backing.Identity]backing.Identity{},
	}
	errno := p.do(r, from.fd, to.fd)
	switch errno {
	case 0:
		r.dirs = p.dirs
		return 0
	case syscall.EEXIST, syscall.ESTALE, syscall.ENOSPC, syscall.EDQUOT:
		return errno
	}
	if p.why.Reason == "" {
		return t.refuseMove(r)
	}
	p.why.Path = t.table.path(r.to.dir, r.to.name) + p.why.Path
	p.why.Reason = t.table.path(r.from.dir, r.from.name) + p.why.Reason
	t.gate.reportFor(r.in, p.why)
	return syscall.EXDEV
}

func (p *transplant) do(r *renaming, from, to int) syscall.Errno {
	src, errno := backing.OpenBeneath(from, r.from.name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if errno != 0 {
		return errno
	}
	defer unix.Close(src)
	a, b := p.insideBoth(r)
	top, temps := p.root.fd, p.moveTemps
	if temps[0] == "" {
		temps = [2]string{backing.TempName(), backing.TempName()}
	}
	made, old := backing.At{FD: top, Name: temps[0]}, backing.At{FD: top, Name: temps[1]}
	errno = p.dir(src, r.src.ID, -1, "", a, b, "") // before anything changes
	if errno != 0 {
		return errno
	}
	if unix.Faccessat(top, temps[0], unix.F_OK, unix.AT_SYMLINK_NOFOLLOW) == nil {
		return syscall.EXDEV // a killed server has left it
	}
	p.count = 0
	if errno = p.dir(src, r.src.ID, top, temps[0], a, b, ""); errno == 0 {
		errno = backing.Errno(unix.Renameat2(top, temps[0], to, r.to.name, unix.RENAME_NOREPLACE))
	}
	if errno != 0 {
		p.clear(made)
		return errno
	}
	if errno = p.take(from, &r.from, old, r.src.ID); errno != 0 {
		if p.take(to, &r.to, made, p.dirs[r.src.ID]) == 0 && !p.clear(made) {
			p.giveBack(made, to, &r.to)
		}
		return errno
	}
	if !p.clear(old) {
		p.giveBack(old, from, &r.from)
	}
	return 0
}

// take moves e, of the directory fd, to temp if it is the object called ident.
func (p *transplant) take(fd int, e *entry, temp backing.At, ident backing.Identity) syscall.Errno {
	if err := unix.Renameat2(fd, e.name, temp.FD, temp.Name, unix.RENAME_NOREPLACE); err != nil {
		return backing.Errno(err)
	}
	if o, errno := p.Stat(temp); errno != 0 || o.ID != ident {
		p.giveBack(temp, fd, e)
		return syscall.ESTALE
	}
	return 0
}

// insideBoth returns what holds inside the two places of r.
func (ns *names) insideBoth(r *renaming) (from, to states) {
	inside := func(e *entry) states { return ns.levels.inside(e.dir.getState(), e.name, true) }
	return inside(&r.from), inside(&r.to)
}

// dir judges the directory src, which must be the one called ident and moves from a place with the
// states from to one with the states to; at is its path below the two places. Unless dst is -1 it
// also makes it in the directory dst, as name.
func (p *transplant) dir(
	src int, ident backing.Identity, dst int, name string, from, to states, at string,
) syscall.Errno {
	o, errno := p.Stat(backing.At{FD: src})
	switch {
	case errno != 0:
		return errno
	case o.ID != ident:
		return syscall.ESTALE
	case o.Uid != p.EUID || o.Mode&0o700 != 0o700 || o.IsMount() || strings.Count(at, "/") > transplantDepth:
		return syscall.EXDEV
	}
	if dst < 0 {
		return p.fill(src, -1, from, to, at)
	}
	if err := unix.Mkdirat(dst, name, 0o700); err != nil {
		return backing.Errno(err)
	}
	return backing.InDir(dst, name, func(made int) syscall.Errno {
		errno := p.fill(src, made, from, to, at)
		if errno == 0 {
			errno = p.dress(made, o)
		}
		if errno == 0 && !(p.plain(src) && p.plain(made)) {
			errno = syscall.EXDEV
		}
		if errno != 0 {
			return errno
		}
		now, errno := p.Stat(backing.At{FD: made})
		if errno == 0 {
			p.dirs[o.ID] = now.ID
		}
		return errno
	})
}

// fill is dir for what is in the directory.
func (p *transplant) fill(src, dst int, from, to states, at string) syscall.Errno {
	var all []string
	errno := p.EachName(src, func(name string, _ uint32) syscall.Errno {
		all = append(all, name)
		if len(all) > maxTransplant {
			return syscall.EXDEV
		}
		return 0
	})
	if errno != 0 {
		return errno
	}
	for _, name := range all {
		if p.count++; p.count > maxTransplant || time.Now().After(p.until) {
			return syscall.EXDEV
		}
		if errno := p.entry(src, dst, name, from, to, at+"/"+name); errno != 0 {
			return errno
		}
	}
	// Another sandbox may have given a name to the directory, and then taken another.
	if gitguard.Complete(func(name string) bool { return slices.Contains(all, name) }) {
		return syscall.EXDEV
	}
	return 0
}

// entry is dir for the entry called name of src.
func (p *transplant) entry(src, dst int, name string, from, to states, at string) syscall.Errno {
	fd, errno := backing.OpenBeneath(src, name, unix.O_PATH|unix.O_NOFOLLOW, 0)
	if errno != 0 {
		return errno
	}
	defer unix.Close(fd)
	o, errno := p.Stat(backing.At{FD: fd})
	if errno != 0 {
		return errno
	}
	lv := &p.levels
	was, is := lv.child(from, name, o.IsDir()), lv.child(to, name, o.IsDir())
	switch {
	case was != is:
		p.why = Denial{
			Op: gate.Name(gate.OpRename), Path: at, Level: is, Need: was, Errno: syscall.EXDEV,
			Reason: fmt.Sprintf(" cannot move there, where the level of this name is %v instead of %v", is, was),
		}
		return syscall.EXDEV
	case name == gitName, strings.HasPrefix(name, backing.OwnPrefix), lv.leads(to, name, o.Type()):
		return syscall.EXDEV
	case o.IsDir():
		return p.dir(fd, o.ID, dst, name, lv.inside(from, name, true), lv.inside(to, name, true), at)
	case dst < 0:
		return 0
	}
	p.files[o.ID] = struct{}{}
	return p.LinkFD(fd, dst, name)
}

// dress gives the directory fd what o has beside its entries.
func (p *transplant) dress(fd int, o *backing.Object) syscall.Errno {
	now, errno := p.Stat(backing.At{FD: fd})
	if errno == 0 && now.Gid != o.Gid {
		errno = backing.Errno(unix.Fchownat(fd, "", -1, int(o.Gid), unix.AT_EMPTY_PATH))
	}
	if errno == 0 {
		errno = backing.Errno(unix.Chmod(backing.ProcPath(fd), uint32(o.Mode)&0o7777))
	}
	if errno == 0 {
		errno = backing.Errno(unix.UtimesNanoAt(unix.AT_FDCWD, backing.ProcPath(fd), []unix.Timespec{
			{Sec: o.Atime.Sec, Nsec: int64(o.Atime.Nsec)}, {Sec: o.Mtime.Sec, Nsec: int64(o.Mtime.Nsec)},
		}, 0))
	}
	return errno
}

// plain reports whether the directory fd has no access list and no other extended attribute but
// the system's own.
func (p *transplant) plain(fd int) bool {
	buf := make([]byte, 4096)
	n, err := unix.Listxattr(backing.ProcPath(fd), buf)
	if err != nil {
		return err == unix.ENOTSUP
	}
	for name := range strings.SplitSeq(string(buf[:n]), "\x00") {
		if name != "" && !strings.HasPrefix(name, "security.") {
			return false
		}
	}
	return true
}

// clear removes the directory at, with the names of files that have two, and reports whether
// nothing else was there.
func (p *transplant) clear(at backing.At) bool {
	_ = backing.InDir(at.FD, at.Name, func(dir int) syscall.Errno {
		var all []string
		errno := p.EachName(dir, func(name string, _ uint32) syscall.Errno { all = append(all, name); return 0 })
		for _, name := range all {
			o, errno := p.Stat(backing.At{FD: dir, Name: name})
			if errno != 0 {
				continue
			}
			if _, two := p.files[o.ID]; o.IsDir() {
				p.clear(backing.At{FD: dir, Name: name})
			} else if two {
				_ = unix.Unlinkat(dir, name, 0)
			}
		}
		return errno
	})
	return unix.Unlinkat(at.FD, at.Name, unix.AT_REMOVEDIR) == nil
}

// adoptDirs has the nodes at n and below name the directories that a transplant has made, dirs by
// the former ones, and all nodes the levels of their new places. The caller holds
// t.levels.rulesMu and t.renameMu for writing.
func (ns *names) adoptDirs(n *node, dirs map[backing.Identity]backing.Identity) {
	for _, id := range ns.applyRulesToAll() {
		ns.inval.add(invalidation{what: invalContent, id: id})
	}
	for _, n := range ns.table.below(n) {
		what := invalAttr
		if now, ok := dirs[n.ident()]; ok {
			what = invalContent
			fd := -1
			if h := ns.fds.anyOf(n); h != nil {
				fd = h.fd
				defer h.release()
			}
			ns.watch.remove(n, fd)
			ns.fds.renew(n)
			ns.table.adopt(n, now)
			if h, errno := ns.acquireLocked(n, usePath); errno == 0 {
				ns.watch.add(n, h.fd)
				h.release()
			}
		}
		ns.inval.add(invalidation{what: what, id: n.id})
	}
}

// alone calls f, for a request, while no other is answered. A request holds t.changeMu and
// t.levels.rulesMu for reading, and the rules can change before f is called.
func (ns *names) alone(f func()) {
	ns.levels.rulesMu.RUnlock()
	ns.changeMu.RUnlock()
	ns.changeMu.Lock()
	ns.levels.rulesMu.Lock()
	defer func() {
		ns.levels.rulesMu.Unlock()
		ns.changeMu.Unlock()
		ns.changeMu.RLock()
		ns.levels.rulesMu.RLock()
	}()
	f()
}
