package fusefs

import (
	"errors"
	"io"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"wolffia/internal/gitguard"
	"wolffia/perm"
)

// A replacement is the new content of a checked file, which the server writes instead of
// renaming the sandbox's file.
type replacement struct {
	text    string
	mode    uint32
	created bool // the new file counts as created inside
}

// allowChecked decides about r, of which an end has the level Checked. It returns the replacement
// to do instead of the rename, nil to do the rename itself. The error is a reason for the audit
// log, or an errno. The directory of r.to is open as to. The caller holds t.renameMu for writing.
func (t *tree) allowChecked(r *renaming, to openDir) (*replacement, error) {
	var (
		src, dst = t.level(&r.from, false), t.level(&r.to, false)
		a, b     = t.part(r.from.dir, r.from.name), t.part(r.to.dir, r.to.name)
	)
	switch {
	case r.swap || r.src.typ() != unix.S_IFREG || r.dst != nil && r.dst.isDir():
		return nil, errors.New("git itself replaces files only")
	case src == perm.Checked && (!t.created.has(r.srcAt, r.src) || !a.Writes()):
		return nil, errors.New(createdOutside)
	case dst == perm.Write:
		return nil, nil // index.lock becomes index
	case src == perm.Write:
		return nil, errors.New("git itself renames only its lock files here")
	case b.Begun() && r.to.dir.getLevel() == perm.Checked && !t.created.mayHave(r.to.dir.ident()):
		return nil, errors.New(createdOutside)
	case !b.Replaced() && b.Writes() && (r.dst == nil || t.created.has(r.dstAt, r.dst)):
		return nil, nil // a git add in a hook of commit -a replaces the lock of the index
	case b == gitguard.Lock:
		return nil, errors.New("another git process holds the lock")
	case !b.Replaced():
		return nil, errors.New(createdOutside)
	case b != gitguard.Todo && (r.from.dir != r.to.dir || r.from.name != r.to.name+".lock"):
		return nil, errors.New("only git's own lock file may replace it")
	}
	text, mode, errno := t.content(r.srcAt, r.src)
	if errno != 0 {
		return nil, errno
	}
	text = b.Written(text)
	n := &replacement{text: text, mode: mode&^0o022 | 0o600} // no other user of the host may write it
	if r.dst == nil {
		// Git removes the records of rerere with the merge, and alternates with the clone or, with --dissociate, before that.
		n.created = t.created.mayHave(r.to.dir.ident()) || b == gitguard.Rerere || b == gitguard.Alternates
	} else {
		n.mode, n.created = uint32(r.dst.Mode)&0o777, t.created.has(r.dstAt, r.dst)
	}
	old := ""
	if r.dst != nil && (b.IsConfig() || b == gitguard.Alternates) {
		if old, _, errno = t.content(r.dstAt, r.dst); errno != 0 {
			return nil, errno
		}
	}
	path := t.table.path(r.to.dir, r.to.name)
	var err error
	if b.IsConfig() {
		c := gitguard.Change{File: path, Old: old, New: text, Fresh: n.created, Root: t.remoteRoot, Linked: t.isLinked(r.to.dir, to)}
		if err = c.Check(); err == nil && !n.created {
			err = t.judgeRemotes(path, old, text)
		}
	} else {
		err = b.Content(path, t.shown, text)
	}
	if err == nil {
		err = t.follow(path, old, text)
	}
	return n, err
}

// content reads the regular file at a, which must be obj.
func (t *tree) content(a fdName, obj *object) (text string, mode uint32, errno syscall.Errno) {
	fd, errno := openBeneath(a.fd, a.name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if errno != 0 {
		return "", 0, errno
	}
	f := os.NewFile(uintptr(fd), a.name)
	defer f.Close()
	o, errno := t.stat(fdName{fd: fd})
	switch {
	case errno != 0:
		return "", 0, errno
	case o.ident != obj.ident || o.typ() != unix.S_IFREG:
		return "", 0, syscall.ESTALE
	}
	b, err := io.ReadAll(io.LimitReader(f, gitguard.MaxSize+1))
	switch {
	case err != nil:
		return "", 0, syscall.EIO
	case len(b) > gitguard.MaxSize:
		return "", 0, syscall.EFBIG
	}
	return string(b), uint32(o.Mode) & 0o777, 0
}

// put does r by writing a new file with n's content to r.to, and removing r.from. The
// directories are open as from and to. The caller holds t.renameMu for writing.
func (t *tree) put(r *renaming, n *replacement, from, to *openDir) syscall.Errno {
	if errno := t.quota.take(objectCost + int64(len(n.text))); errno != 0 {
		return errno
	}
	victim := t.openVictim(&r.to)
	var former *handle // of the sandbox's file
	if moved := t.table.child(r.from.dir, r.from.name); moved != nil {
		if former, _ = t.acquireLocked(moved, usePath); former != nil {
			defer former.release()
		}
	}
	made, errno := t.write(to, r.to.name, n)
	if errno != 0 {
		t.quota.give(objectCost + int64(len(n.text)))
		return errno
	}
	if r.dst != nil {
		t.created.remove(r.dst)
		if t.copied == nil || r.dstOwn {
			t.quota.removed(victim, r.dst)
		}
	}
	if n.created {
		t.created.add(fdName{to.fd, r.to.name}, made)
	}
	if o, src, errno := t.statEntry(*from, r.from.name); errno == 0 && t.created.has(src, o) && t.unlink(from, r.from.name, r.src, nil) == 0 {
		t.created.remove(r.src)
	}
	// To the kernel the old file was renamed, and it goes on to use that node.
	t.table.move(r.from.dir, r.from.name, r.to.dir, r.to.name, false)
	t.pinOrphan(victim)
	if moved := t.table.child(r.to.dir, r.to.name); moved != nil && t.adopt(moved, made.ident) {
		t.fds.renew(moved)
		t.fds.retain(moved, former)
		t.applyRules(&r.to)
		t.inval.add(invalidation{what: invalContent, id: moved.id})
	}
	return 0
}

// write puts a new file with the content of n at name in d, replacing a file that is there.
func (t *tree) write(d *openDir, name string, n *replacement) (*object, syscall.Errno) {
	if t.copied != nil {
		errno := t.ensureUpper(d)
		if errno == 0 {
			_, errno = t.noteHost(*d, name)
		}
		if errno != 0 {
			return nil, errno
		}
	}
	c, errno := newTempFile(t.tempDir(*d))
	if errno != 0 {
		return nil, errno
	}
	defer c.discard()
	for text := []byte(n.text); len(text) > 0; {
		size, err := unix.Write(c.fd, text)
		if err != nil && err != unix.EINTR {
			return nil, errnoOf(err)
		}
		text = text[max(size, 0):]
	}
	if err := unix.Fchmod(c.fd, n.mode); err != nil {
		return nil, errnoOf(err)
	}
	obj, errno := t.stat(fdName{fd: c.fd})
	if errno == 0 {
		errno = t.install(c, d.fd, name)
	}
	return obj, errno
}
