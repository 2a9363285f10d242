package fusefs

import (
	"errors"
	"io"
	"os"
	"sync"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"wolffia/internal/gitguard"
	"wolffia/perm"
)

// What has the level Checked is a part of a git directory, and package gitguard says what
// each part takes. Three things hold for all of them:
//
//   - What somebody outside has made is changed, replaced and removed by nobody inside.
//   - A file that git on the host acts upon comes into being by a rename of what was written
//     for it, and is a new file of the server's: who holds the old one open cannot write it.
//   - A directory that is no git directory by its name does not become one.

// maxCreated is how many parts of git directories are known as made inside. Of more, the oldest
// count as made outside.
const maxCreated = 1 << 16

// mine are the parts of git directories that were made through the tree, and git directories
// themselves. Its methods are safe for concurrent use.
type createdInodes struct {
	mu    sync.Mutex
	known map[identity]birth // guarded by mu
	order []identity         // the oldest first, with what is not known any more; guarded by mu
}

// A birth tells an inode from a later one of its number: file systems give numbers again
// within the time in which their clocks stand still. The handle has a generation for that,
// name_to_handle_at(2).
type birth struct {
	handle string // empty where there are none
	time   unix.StatxTimestamp
}

// birthOf returns that of obj, which is at a.
func birthOf(a fdName, obj *object) birth {
	handle, _ := handleOf(a) // without one the time is all there is
	return birth{handle, obj.Btime}
}

// knows reports whether the inode id was made inside, or one of its number was.
func (m *createdInodes) knows(id identity) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, ok := m.known[id]
	return ok
}

// has reports whether obj, which is at a, was made inside.
func (m *createdInodes) has(a fdName, obj *object) bool {
	if !m.knows(obj.ident) {
		return false
	}
	b := birthOf(a, obj)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.known[obj.ident] == b {
		return true
	}
	delete(m.known, obj.ident)
	return false
}

// add notes that obj, which is at a, was made inside.
func (m *createdInodes) add(a fdName, obj *object) {
	b := birthOf(a, obj)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.known == nil {
		m.known = map[identity]birth{}
	}
	if _, ok := m.known[obj.ident]; !ok {
		m.order = append(m.order, obj.ident)
	}
	m.known[obj.ident] = b
	for len(m.known) > maxCreated || len(m.order) > 2*maxCreated {
		delete(m.known, m.order[0])
		m.order = m.order[1:]
	}
}

// drop notes that obj, which may be nil, is gone, or is nothing that matters any more.
func (m *createdInodes) drop(obj *object) {
	if obj == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.known, obj.ident)
	if len(m.known) == 0 {
		m.order = nil
	}
}

// gitPlace reports whether dir is, by its name or by rules for it, a git directory or a directory
// in which some are: what makes git act is checked there.
func (t *tree) gitPlace(dir *node) bool {
	s := dir.getState()
	return t.rules.Child(s, "config", false) < perm.Write || t.rules.Child(s, "commondir", false) < perm.Write
}

// part returns what the entry called name in dir is to git; name is empty for dir itself, which
// may then be a file.
func (t *tree) part(dir *node, name string) gitguard.Part {
	return gitguard.PartOf(t.table.path(dir, name))
}

// mayMake reports whether an entry of the level Checked can be made.
func (t *tree) mayMake(o op, dir *node, name string) bool {
	if o != opCreate && o != opMknod && o != opMkdir {
		return false
	}
	p := t.part(dir, name)
	if p == gitguard.Sequence && dir.getLevel() == perm.Checked && !t.created.knows(dir.ident()) {
		return false // of a rebase that was begun outside
	}
	return p.Makes(o == opMkdir)
}

// mayChange reports whether o may be done to n, which has the level Checked, apart from its
// content.
func (t *tree) mayChange(o op, n *node) bool {
	if !t.created.knows(n.ident()) {
		return false
	}
	p := t.part(n, "")
	switch o {
	case opSetattr:
		return true // maySet looks at what is to be set
	case opWrite:
		return p.Writes() || p.Once()
	case opFallocate, opCopyTo:
		return p.Writes()
	}
	return false
}

// still reports whether the file or directory open as h was made inside.
func (t *tree) still(h *handle) bool {
	obj, errno := t.stat(fdName{fd: h.fd})
	return errno == 0 && t.created.has(fdName{fd: h.fd}, obj)
}

// A change is one of attributes.
type change struct {
	mode     uint32
	setsMode bool

	truncates bool // to nothing
	extends   bool // to any other size
}

// maySet reports whether c may be done to n, which has the level Checked and was made inside.
func (t *tree) maySet(n *node, c *change) bool {
	p := t.part(n, "")
	return t.created.knows(n.ident()) && (p.Writes() ||
		(!c.setsMode || c.mode&0o600 == 0o600) && !c.extends && (!c.truncates || p.Once()))
}

// mayWrite reports whether data may be written to the open file h, of the level Checked. The
// caller calls done when it is written.
func (t *tree) mayWrite(in *fuse.WriteIn, h *handle, data []byte) (done func(), errno syscall.Errno) {
	p := t.part(h.node, "")
	if p.Writes() {
		return func() {}, 0
	}
	t.renameMu.Lock() // no two first writes at once
	err := errors.New("it is written in one piece, once")
	var st unix.Stat_t
	if unix.Fstat(h.fd, &st) == nil && st.Size == 0 && in.Offset == 0 {
		err = p.Content(t.table.path(h.node, ""), t.shown, string(data))
	}
	if err != nil {
		t.renameMu.Unlock()
		return nil, t.deny(opWrite, &in.InHeader, h.node, "", perm.Checked, syscall.EACCES, err.Error())
	}
	return t.renameMu.Unlock, 0
}

// made notes that the file or directory called name was made just now in dir, which is open as
// fd.
func (t *tree) made(dir *node, fd int, name string) {
	n := t.table.child(dir, name)
	if n == nil || !t.rules.Checks() || n.getLevel() != perm.Checked && (!n.isDir() || !t.gitPlace(n)) {
		return
	}
	if obj, errno := t.stat(fdName{fd, name}); errno == 0 && obj.ident == n.ident() {
		t.created.add(fdName{fd, name}, obj)
	}
}

// Why what has the level Checked is refused.
const (
	madeOutside = "it belongs to a git repository or a process of git outside of this sandbox"
	becomesGit  = "git outside would take the directory for a repository"
)

// completes reports whether an entry called name would make a git directory of dir, which is open
// as fd and is none by its name.
func (t *tree) completes(dir *node, fd int, name string) bool {
	if !t.rules.Checks() || !gitguard.Essential(name) || t.gitPlace(dir) {
		return false
	}
	exists := func(name string) bool {
		var st unix.Stat_t
		return unix.Fstatat(fd, name, &st, unix.AT_SYMLINK_NOFOLLOW) != unix.ENOENT
	}
	return !exists(name) && gitguard.Complete(func(s string) bool { return s == name || exists(s) })
}

// essential reports whether obj, at name in dir, makes a git directory of it that was not made
// inside: it has to stay.
func (t *tree) essential(dir *node, name string, obj *object) bool {
	return t.rules.Checks() && gitguard.Essential(name) && t.gitPlace(dir) && !t.created.knows(dir.ident()) && !t.created.knows(obj.ident)
}

// stays reports whether obj, at name in dir, must not be moved: it is essential, or a directory that was not
// made inside with what is checked.
func (t *tree) stays(dir *node, name string, obj *object) bool {
	if t.essential(dir, name, obj) {
		return true
	}
	return obj.isDir() && t.rules.Checks() && !t.created.knows(obj.ident) &&
		t.rules.Child(t.rules.Enter(dir.getState(), name), "config", false) == perm.Checked
}

// closes reports whether the mode would keep the host from a git directory that was not made inside:
// its git would take the next one above for the repository.
func (t *tree) closes(n *node, mode uint32) bool {
	parent, name := t.table.place(n)
	if parent == nil || !t.rules.Checks() || t.created.knows(n.ident()) {
		return false
	}
	known := n.isDir() && t.gitPlace(n) || gitguard.Essential(name) && t.gitPlace(parent) && !t.created.knows(parent.ident())
	return known && (mode&0o600 != 0o600 || n.isDir() && mode&0o100 == 0)
}

// A replacement is what a rename onto a checked file is turned into: the file's new content.
type replacement struct {
	text  string
	mode  uint32
	fresh bool // what is made is the sandbox's own
}

// allowChecked decides about r, of which an end has the level Checked; its directories are open as
// from and to. It returns what takes the place of the rename, nil if that can be done as it is.
// The error is the reason for a refusal, or an errno. t.renameMu is held for writing.
func (t *tree) allowChecked(r *renaming, from, to int) (*replacement, error) {
	var (
		src  = t.rules.Child(r.from.getState(), r.a, false)
		dst  = t.rules.Child(r.to.getState(), r.b, false)
		a, b = t.part(r.from, r.a), t.part(r.to, r.b)
	)
	switch {
	case r.swap || r.src.typ() != unix.S_IFREG || r.dst != nil && r.dst.isDir():
		return nil, errors.New("git itself replaces files only")
	case src == perm.Checked && (!t.created.has(fdName{from, r.a}, r.src) || !a.Writes()):
		return nil, errors.New(madeOutside)
	case dst == perm.Write:
		return nil, nil // index.lock becomes index
	case src == perm.Write:
		return nil, errors.New("git itself does not do this")
	case b == gitguard.Lock && r.dst != nil:
		return nil, errors.New("somebody has the lock")
	case !b.Replaced() && b.Writes() && (r.dst == nil || t.created.has(fdName{to, r.b}, r.dst)):
		return nil, nil
	case !b.Replaced():
		return nil, errors.New(madeOutside)
	case b != gitguard.Todo && (r.from != r.to || r.a != r.b+".lock"):
		return nil, errors.New("only git's own lock file takes this place")
	case b == gitguard.Todo && !t.created.knows(r.to.ident()):
		return nil, errors.New(madeOutside)
	}
	path := t.table.path(r.to, r.b)
	text, mode, errno := t.content(from, r.a, r.src)
	if errno != 0 {
		return nil, errno
	}
	n := &replacement{text: text, mode: mode&^0o022 | 0o600} // nobody else on the host writes it
	if r.dst == nil {
		n.fresh = t.created.knows(r.to.ident())
	} else {
		n.mode, n.fresh = uint32(r.dst.Mode)&0o777, t.created.has(fdName{to, r.b}, r.dst)
	}
	if b != gitguard.Config {
		return n, b.Content(path, t.shown, text)
	}
	c := gitguard.Change{File: path, New: text, Fresh: n.fresh}
	if r.dst != nil {
		if c.Old, _, errno = t.content(to, r.b, r.dst); errno != 0 {
			return nil, errno
		}
	}
	return n, c.Check()
}

// content reads the regular file called name of the directory dir, which must be obj.
func (t *tree) content(dir int, name string, obj *object) (text string, mode uint32, errno syscall.Errno) {
	fd, errno := openBeneath(dir, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if errno != 0 {
		return "", 0, errno
	}
	f := os.NewFile(uintptr(fd), name)
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

// put does r by making n in its place: the name r.b is that of a new file with n's content, and
// r.a is gone. Both are in dir, which is open as fd, but for a git-rebase-todo. t.renameMu is
// held for writing.
func (t *tree) put(r *renaming, n *replacement, from, to int) syscall.Errno {
	if errno := t.quota.take(objectCost + int64(len(n.text))); errno != 0 {
		return errno
	}
	victim := t.openVictim(r.to, r.b)
	made, errno := t.write(to, r.b, n)
	if errno != 0 {
		t.quota.give(objectCost + int64(len(n.text)))
		return errno
	}
	if r.dst != nil {
		t.created.drop(r.dst)
		t.quota.removed(victim, r.dst)
	}
	if n.fresh {
		t.created.add(fdName{to, r.b}, made)
	}
	if o, errno := t.stat(fdName{from, r.a}); errno == 0 && t.created.has(fdName{from, r.a}, o) && unix.Unlinkat(from, r.a, 0) == nil {
		t.created.drop(r.src)
		t.quota.removed(nil, r.src)
	}
	// To the kernel the old file has a new name, and it goes on to use its node for that.
	t.table.move(r.from, r.a, r.to, r.b, false)
	t.pinOrphan(victim)
	if moved := t.table.child(r.to, r.b); moved != nil && t.table.adopt(moved, made.ident) {
		t.fds.renew(moved)
		t.applyRules(r.to, r.b)
		t.inval.add(invalidation{what: invalContent, id: moved.id})
	}
	return 0
}

// write makes a file with the content of n, called name in the directory dir, in the place of
// what may be there.
func (t *tree) write(dir int, name string, n *replacement) (*object, syscall.Errno) {
	c, errno := newTempFile(dir)
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
		errno = t.install(c, name)
	}
	return obj, errno
}
