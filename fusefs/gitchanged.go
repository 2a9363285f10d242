package fusefs

import (
	"bytes"
	"crypto/rand"
	"io"
	"os"
	"path"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"wolffia/fusefs/backing"
	"wolffia/fusefs/fanotify"
	"wolffia/internal/git/gitindex"
	"wolffia/perm"
)

// A tree is the file system monitor of git inside (githooks(5), fsmonitor-watchman). git asks
// which paths may have changed. The tree compares each file of the index with the host's, which
// takes a tenth of the time that it takes through the tree, and names the files whose attributes
// differ from the index. So it needs no memory of past events, and misses nothing that git itself
// would find.
//
// A question is the lookup of a name in the directory of the working tree, the answer the content
// of the file there.
//
// AskName begins the name; git's token follows. The token identifies the rules by which git has
// seen the tree: other rules give other names.
const AskName = ".wolffia-changed."

// A gitMonitor answers what git inside asks about working trees.
type gitMonitor struct {
	*names
	on, minimal bool // of Git

	ahead      sync.WaitGroup          // of lookAhead
	asked      sync.Mutex              // held while a question is answered
	tokenRules Rules                   // when the token was made; guarded by asked
	tokenText  string                  // guarded by asked
	indexes    map[string]*insideIndex // by the path of the working tree; guarded by asked
	expiry     *time.Timer             // drops them; guarded by asked
	answers    answers
}

// Bounds of an answer: beyond them all may have changed.
const (
	maxIndex   = 64 << 20 // bytes of an index, some 600,000 files
	maxChanged = 1 << 20  // bytes of the paths
	maxStored  = 1000     // directories of the store
)

// answerTimeout is how long the kernel may cache the attributes of an answer, whose content
// does not change.
const answerTimeout = time.Second

// asks reports whether the lookup of name in dir is a question.
func (p *privateGit) asks(dir *node, name string) bool {
	return p != nil && p.monitor.on && strings.HasPrefix(name, AskName) && dir.getState().path >= 0
}

// answer is Lookup for a question e. The file has no name on the host, and the kernel looks it up
// again for each question.
func (t *tree) answer(e *entry, out *fuse.EntryOut) fuse.Status {
	fd, errno := t.git.monitor.answerFile(e.dir, e.name[len(AskName):])
	if errno != 0 {
		return fuse.Status(errno)
	}
	obj, errno := t.Stat(backing.At{FD: fd})
	if errno != 0 {
		unix.Close(fd)
		return fuse.Status(errno)
	}
	e.levels = [2]perm.Level{perm.Read, perm.None}
	t.renameMu.RLock()
	defer t.renameMu.RUnlock()
	known := t.table.child(e.dir, e.name)
	again := known != nil && known.ident() == obj.ID
	if n := t.enter(e, lookupResult{obj: obj, fd: fd}, out); !again {
		t.fds.pin(n, usePath)
		if old := t.git.monitor.answers.add(n); old != nil {
			t.fds.close(old, usePath)
		}
	}
	out.SetEntryTimeout(0)
	out.SetAttrTimeout(answerTimeout)
	return fuse.OK
}

// answers are the latest nodes of answers. Only these stay open: each can have maxChanged bytes,
// and the kernel forgets no node that a sandbox has open, or that it has room for.
type answers struct {
	mu   sync.Mutex
	last [16]*node // guarded by mu
	next int       // guarded by mu
}

// add returns the node that n replaces, or nil.
func (a *answers) add(n *node) *node {
	a.mu.Lock()
	defer a.mu.Unlock()
	at := &a.last[a.next%len(a.last)]
	a.next++
	old := *at
	if *at = n; old == n {
		return nil
	}
	return old
}

// answerFile returns a file with the answer, which the caller closes. It is the same one as long
// as that is the same: gVisor looks a name up more than once to open it.
func (m *gitMonitor) answerFile(dir *node, token string) (int, syscall.Errno) {
	m.asked.Lock() // one at a time: each takes all processors
	defer m.asked.Unlock()
	now := m.token()
	x, names := m.changed(dir, token == now || token == gitindex.FirstToken)
	text := append([]byte(now+"\x00"), names...)
	if x == nil {
		f, errno := memoryFile(text)
		if errno != 0 {
			return -1, errno
		}
		defer f.Close()
		return dup(f)
	}
	if x.answer == nil || !bytes.Equal(x.text, text) {
		f, errno := memoryFile(text)
		if errno != 0 {
			return -1, errno
		}
		x.text, x.answer = text, f // the former answer is closed when nothing refers to it
	}
	return dup(x.answer)
}

// lookAhead begins to compare the working tree at dir, whose index was just copied: git inside
// asks for that soon.
func (m *gitMonitor) lookAhead(dir *node) {
	if !m.on {
		return
	}
	m.ahead.Go(func() {
		m.levels.rulesMu.RLock()
		defer m.levels.rulesMu.RUnlock()
		m.asked.Lock()
		defer m.asked.Unlock()
		m.changed(dir, true)
	})
}

func dup(f *os.File) (int, syscall.Errno) {
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 3)
	runtime.KeepAlive(f)
	return fd, backing.Errno(err)
}

// memoryFile returns a file with that text (memfd_create(2)).
func memoryFile(text []byte) (*os.File, syscall.Errno) {
	fd, err := unix.MemfdCreate("changed", unix.MFD_CLOEXEC|unix.MFD_NOEXEC_SEAL)
	if err == unix.EINVAL { // before Linux 6.3
		fd, err = unix.MemfdCreate("changed", unix.MFD_CLOEXEC)
	}
	if err != nil {
		return nil, backing.Errno(err)
	}
	f := os.NewFile(uintptr(fd), "changed")
	if _, err := f.Write(text); err != nil {
		_ = f.Close()
		return nil, backing.Errno(err)
	}
	return f, 0
}

// token returns the token of the rules that are in force. The caller holds m.asked.
func (m *gitMonitor) token() string {
	g := m.git
	if g.monitor.tokenRules != m.levels.rules {
		g.monitor.tokenRules = m.levels.rules
		g.monitor.tokenText = "w" + rand.Text()
	}
	return g.monitor.tokenText
}

// allChanged is the answer that all paths may have changed.
var allChanged = []byte("/\x00")

// changed returns the paths that may have changed in the working tree at dir, each ended by a NUL,
// and the index that they are compared with; nil: no index could be read. known says that git has
// seen the tree by the rules that are in force. The caller holds m.asked.
func (m *gitMonitor) changed(dir *node, known bool) (*insideIndex, []byte) {
	at, root, errno := m.openTop(dir)
	if errno != 0 {
		return nil, allChanged
	}
	defer unix.Close(root)
	index := m.readIndex(at)
	if index == nil {
		return nil, allChanged
	}
	c := &comparison{gitMonitor: m, index: index, root: root, states: dir.getState()}
	if known && !m.git.removedDirs.any() && m.namesOwn(at, c.addNames) {
		c.all()
		c.modules()
	} else {
		c.each()
	}
	if c.size > maxChanged {
		return nil, allChanged
	}
	return index, c.names.Bytes()
}

// openTop opens dir on the host, and returns its path from the root of the tree, "." for that
// itself.
func (m *gitMonitor) openTop(dir *node) (at string, fd int, errno syscall.Errno) {
	m.renameMu.RLock()
	defer m.renameMu.RUnlock()
	if at, errno = m.git.storePath(dir, ""); errno != 0 {
		return "", -1, errno
	}
	d, errno := m.acquireDir(dir)
	if errno != 0 {
		return "", -1, errno
	}
	defer d.release()
	fd, err := unix.FcntlInt(uintptr(d.fd), unix.F_DUPFD_CLOEXEC, 3)
	return at, fd, backing.Errno(err)
}

// An insideIndex is the index of git inside, with the known state of the working tree.
type insideIndex struct {
	*gitindex.Index
	file  unix.Stat_t  // when it was read
	rules Rules        // then
	dirs  []trackedDir // each after the one it is in; the first is the top
	links uint64       // of the tree at the last look
	seen  int64        // when all files were last looked at, by names.clock

	text   []byte   // the last answer
	answer *os.File // with text; may be nil
}

// sameIndex reports whether both are of one file that was not written in between.
func sameIndex(a, b *unix.Stat_t) bool {
	return a.Ino == b.Ino && a.Dev == b.Dev && a.Size == b.Size && a.Mtim == b.Mtim && a.Ctim == b.Ctim
}

// The results for working trees are kept until no request has used them for a while.
const (
	maxIndexes = 8
	maxKept    = 2 * maxIndex // bytes of their indexes
	keepIndex  = 5 * time.Minute
)

// keep keeps x for the next question about the working tree at the path at. The caller holds
// t.git.asked.
func (m *gitMonitor) keep(at string, x *insideIndex) {
	g := m.git
	if g.monitor.expiry != nil {
		g.monitor.expiry.Stop()
	}
	if g.monitor.indexes[at] != x {
		m.drop(at)
	}
	delete(g.monitor.indexes, at)
	size := x.file.Size
	for _, other := range g.monitor.indexes {
		size += other.file.Size
	}
	if len(g.monitor.indexes) >= maxIndexes || size > maxKept {
		m.dropAll()
	}
	if g.monitor.indexes == nil {
		g.monitor.indexes = map[string]*insideIndex{}
	}
	g.monitor.indexes[at] = x
	g.monitor.expiry = time.AfterFunc(keepIndex, func() {
		g.monitor.asked.Lock()
		defer g.monitor.asked.Unlock()
		m.dropAll()
	})
}

// dropAll is drop for all indexes. The caller holds m.asked.
func (m *gitMonitor) dropAll() {
	for at := range m.indexes {
		m.drop(at)
	}
}

// drop forgets the index of the working tree at the path at, if it is kept, and follows its
// directories no more; those that are elsewhere now until they are removed. The caller holds
// m.asked.
func (m *gitMonitor) drop(at string) {
	x := m.indexes[at]
	if x == nil {
		return
	}
	delete(m.indexes, at)
	for i := range x.dirs {
		d := &x.dirs[i]
		if d.follow == nil {
			continue
		}
		fd, errno := backing.OpenBeneath(m.root.fd, path.Join(at, d.path), unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
		if errno != 0 {
			continue
		}
		if key, err := fanotify.Key(fd); err == nil && key == d.key {
			m.watch.unfollow(key, fd)
		}
		unix.Close(fd)
	}
}

// readIndex reads the index of the working tree whose path is at; nil if that cannot be told, or
// has not each file. The caller holds m.asked.
func (m *gitMonitor) readIndex(at string) *insideIndex {
	known := m.indexes[at]
	x := &insideIndex{rules: m.levels.rules}
	data, errno := m.readStored(path.Join(at, gitName, "index"), maxIndex, func(st *unix.Stat_t) bool {
		x.file = *st
		return known == nil || !sameIndex(st, &known.file) || known.rules != m.levels.rules
	})
	switch {
	case errno != 0:
		return nil
	case data == nil:
		x = known
	default:
		var err error
		if x.Index, err = gitindex.Parse(data); err != nil || !x.Whole() {
			return nil
		}
		if !x.arrange() {
			return nil
		}
		if known != nil && known.rules == m.levels.rules {
			x.inherit(known)
		}
	}
	m.keep(at, x)
	return x
}

// readStored reads a regular file of the store, of at most that many bytes, if want accepts its
// attributes; nil otherwise.
func (m *gitMonitor) readStored(at string, most int64, want func(*unix.Stat_t) bool) ([]byte, syscall.Errno) {
	fd, errno := backing.OpenBeneath(m.git.store, at, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW, 0)
	if errno != 0 {
		return nil, errno
	}
	f := os.NewFile(uintptr(fd), at)
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, backing.Errno(err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG || st.Size > most {
		return nil, syscall.EINVAL
	}
	if !want(&st) {
		return nil, 0
	}
	data := make([]byte, st.Size)
	n, err := io.ReadFull(f, data)
	if err == io.ErrUnexpectedEOF || err == io.EOF {
		err = nil
	}
	return data[:n], backing.Errno(err)
}

// namesOwn calls add with the path of each directory below the one at the path at in which the
// sandbox has, or had, a .git of its own: the directory on the host does not change with that
// .git. It returns false if they are too many.
func (m *gitMonitor) namesOwn(at string, add func(name string)) bool {
	fd, errno := m.git.openStored(at)
	if errno != 0 {
		return errno == syscall.ENOENT
	}
	defer unix.Close(fd)
	left := maxStored
	var walk func(dir int, at string) syscall.Errno
	walk = func(dir int, at string) syscall.Errno {
		return m.EachName(dir, func(name string, typ uint32) syscall.Errno {
			if name == gitName || typ != unix.S_IFDIR {
				return 0
			}
			if left--; left < 0 {
				return syscall.E2BIG
			}
			add(at + name)
			return backing.InDir(dir, name, func(below int) syscall.Errno { return walk(below, at+name+"/") })
		})
	}
	return walk(fd, "") == 0
}

// changedIn follows the path of a directory whose names may be others: git then discards its cache
// of the directory of a changed path, and the name need not exist.
const changedIn = "/+"
