package fusefs

import (
	"bytes"
	"encoding/binary"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// watchMask are the changes that are noticed: of the entries of a directory, their content
// and attributes. FAN_CLOSE_WRITE covers writes through a memory mapping.
const watchMask = unix.FAN_CREATE | unix.FAN_DELETE | unix.FAN_DELETE_SELF | unix.FAN_MOVED_FROM | unix.FAN_MOVED_TO |
	unix.FAN_MODIFY | unix.FAN_ATTRIB | unix.FAN_CLOSE_WRITE | unix.FAN_ONDIR | unix.FAN_EVENT_ON_CHILD

// fileMask are the changes of watchMask to a file itself.
const fileMask = unix.FAN_MODIFY | unix.FAN_ATTRIB | unix.FAN_CLOSE_WRITE

// nameMask are the changes of watchMask that are of the entry itself.
const nameMask = unix.FAN_CREATE | unix.FAN_DELETE | unix.FAN_MOVED_FROM | unix.FAN_MOVED_TO

// A watcher notices changes by processes other than this one: in directories, and of files that have names elsewhere too, whatever
// name they are changed by. It is an unprivileged fanotify group (fanotify_init(2), Linux 5.13), which unlike inotify tells which changes
// are this process's own, and so the sandbox's.
//
// It misses changes through a shared memory mapping until the file is closed, and what happens by a name that a file gets in a
// directory that is not watched, until the kernel asks for its attributes again.
//
// A nil watcher watches nothing.
type watcher struct {
	fd    int
	stop  int // eventfd that ends run
	proc  int // as backing.proc; not the watcher's own
	inval *invalQueue
	table *table
	self  int32
	done  chan struct{}

	// copied follows a change in a copied tree, and reports whether nothing else is to be done;
	// nil: the tree is direct.
	copied func(dir *node, name string, mask uint64) bool

	changes atomic.Uint64

	reading   sync.Mutex // held while events are read and handled
	following atomic.Bool
	follows   map[string]*follow // by file handle: directories that are watched for git's monitor; guarded by mu

	full      atomic.Bool // the kernel accepts no more marks
	filesFull atomic.Bool // files get no more marks

	// mu is also held while the kernel's marks change, one for each key of nodes.
	mu       sync.Mutex
	nodes    map[string]*node // what is watched, by file handle; guarded by mu
	keys     map[*node]string // the reverse; guarded by mu
	files    int              // the kernel's marks on files; guarded by mu
	maxMarks func() int       // limits files, and follows
}

// newWatcher returns a watcher, nil if the kernel is too old or the user has too many. proc is as backing.proc.
func newWatcher(proc int) *watcher {
	fd, err := unix.FanotifyInit(unix.FAN_CLASS_NOTIF|unix.FAN_CLOEXEC|unix.FAN_NONBLOCK|
		unix.FAN_REPORT_DFID_NAME|unix.FAN_REPORT_FID, unix.O_RDONLY|unix.O_CLOEXEC)
	if err != nil {
		return nil
	}
	stop, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		unix.Close(fd)
		return nil
	}
	return &watcher{
		fd: fd, stop: stop, proc: proc, self: int32(os.Getpid()),
		done: make(chan struct{}), nodes: map[string]*node{}, keys: map[*node]string{}, maxMarks: maxMarks,
	}
}

// maxMarks returns how many marks on files, and how many follows, a watcher may have: a quarter of what all
// processes of the user may have, 0 if that is not known (fanotify(7), /proc interfaces). The host is asked when
// the first one is watched.
var maxMarks = sync.OnceValue(func() int {
	b, _ := os.ReadFile("/proc/sys/fs/fanotify/max_user_marks")
	n, _ := strconv.Atoi(string(bytes.TrimSpace(b)))
	return n / 4
})

// watchRoot starts to notice the host's changes, if kernel and file system can report them.
func (ns *names) watchRoot() {
	w := newWatcher(ns.proc)
	if w == nil {
		return
	}
	w.inval, w.table = ns.inval, ns.table
	root := ns.root
	if ns.copied != nil {
		root, w.copied = ns.lower.top, ns.lower.hostChanged
	}
	w.add(root.node, root.fd)
	if !ns.root.node.watched.Load() {
		w.free() // a file system without events
		return
	}
	ns.watch = w
	go w.run() // ends with close
}

// handleOf returns the key of the inode at a, by which events name a directory.
func handleOf(a fdName) (string, error) {
	flags := a.flags() & unix.AT_EMPTY_PATH // links are not followed
	h, _, err := unix.NameToHandleAt(a.fd, a.name, flags)
	if err == syscall.EOPNOTSUPP {
		const atHandleFID = 0x200 // linux/fcntl.h; Linux 6.5, for overlayfs
		h, _, err = unix.NameToHandleAt(a.fd, a.name, flags|atHandleFID)
	}
	if err != nil {
		return "", err
	}
	return handleKey(h.Type(), h.Bytes()), nil
}

func handleKey(typ int32, b []byte) string {
	return string(append(binary.NativeEndian.AppendUint32(nil, uint32(typ)), b...))
}

// accepts reports whether n, a directory or a regular file, is not watched yet and can be. Files get a part of the marks only: a
// directory's is worth more.
func (w *watcher) accepts(n *node) bool {
	return w != nil && !n.watched.Load() && !w.full.Load() && (n.isDir() || !w.filesFull.Load())
}

// add watches the directory n, which is open as fd, and sets n.watched if it can be watched.
func (w *watcher) add(n *node, fd int) { w.addIf(n, fd, func() bool { return true }) }

// addFile watches the regular file n, which has names elsewhere too, and sets n.watched if it can be watched. The
// file is open as fd, with O_PATH, and has the identity ident.
func (w *watcher) addFile(n *node, ident identity, fd int) {
	// If it was given another inode meanwhile, whoever did that calls remove.
	w.addIf(n, fd, func() bool { return n.ident() == ident })
}

// addIf is add or addFile if still, which it calls with w.mu held, returns true.
func (w *watcher) addIf(n *node, fd int, still func() bool) {
	if !w.accepts(n) {
		return
	}
	key, err := handleOf(fdName{fd: fd})
	if err != nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if !still() {
		return
	}
	err = w.mark(n, unix.FAN_MARK_ADD, fd)
	switch {
	case err == syscall.ENOSPC && n.isDir():
		w.full.Store(true)
	case err == syscall.ENOSPC:
		w.filesFull.Store(true)
	case err == nil:
		w.count(n, 1)
		w.record(n, key)
	}
}

// count adds to the marks on files if n is one. The caller holds w.mu.
func (w *watcher) count(n *node, marks int) {
	if !n.isDir() {
		w.files += marks
		w.filesFull.Store(w.files >= w.maxMarks())
	}
}

// mark changes the kernel's mark on n, which is open as fd. The caller holds w.mu.
func (w *watcher) mark(n *node, change uint, fd int) error {
	if n.isDir() {
		return unix.FanotifyMark(w.fd, change|unix.FAN_MARK_ONLYDIR, watchMask, fd, ".")
	}
	return unix.FanotifyMark(w.fd, change, fileMask, w.proc, strconv.Itoa(fd))
}

// record makes n, which is marked, the node that gets the events of key. The caller holds w.mu.
func (w *watcher) record(n *node, key string) {
	if old := w.nodes[key]; old != nil && old != n {
		delete(w.keys, old)
		old.watched.Store(false)
	}
	w.nodes[key], w.keys[n] = n, key
	n.watched.Store(true)
}

// remove ends the watch of n, which leaves the table or gets another inode. fd is open for what is watched; with -1 the kernel's
// mark stays.
func (w *watcher) remove(n *node, fd int) {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	n.watched.Store(false)
	key, ok := w.keys[n]
	if !ok {
		return // another node has the same inode, and the mark
	}
	delete(w.nodes, key)
	delete(w.keys, n)
	if fd >= 0 && w.follows[key] == nil && w.mark(n, unix.FAN_MARK_REMOVE, fd) == nil {
		w.count(n, -1)
	}
}

// node returns the node that gets the events of key; nil: none. It tells who follows that.
func (w *watcher) node(key string) *node {
	w.mu.Lock()
	defer w.mu.Unlock()
	if f := w.follows[key]; f != nil {
		f.events.Add(1)
	}
	return w.nodes[key]
}

// watchPause is how long events are collected before they are read. Most operations of the
// sandbox cause one: to wake up for each would cost more than the operation.
const watchPause = 5 * time.Millisecond

// run reads events until close. Go's network poller would wake a thread for each event, also during
// the pause.
func (w *watcher) run() {
	defer close(w.done)
	buf := make([]byte, 64<<10)
	fds := []unix.PollFd{{Fd: int32(w.fd), Events: unix.POLLIN}, {Fd: int32(w.stop), Events: unix.POLLIN}}
	for {
		if _, err := unix.Poll(fds, -1); err != nil && err != unix.EINTR || fds[1].Revents != 0 {
			return
		}
		n, err := w.read(buf)
		switch err {
		case nil:
		case unix.EINTR, unix.EAGAIN:
			continue
		default:
			return
		}
		if n < len(buf)/2 {
			time.Sleep(watchPause)
		}
	}
}

// read reads events, which buf has room for, and handles them.
func (w *watcher) read(buf []byte) (int, error) {
	w.reading.Lock()
	defer w.reading.Unlock()
	n, err := unix.Read(w.fd, buf)
	if err == nil {
		w.events(buf[:n])
	}
	return n, err
}

// drain handles all events of what has happened until now.
func (w *watcher) drain() {
	if w == nil || !w.following.Load() {
		return
	}
	buf := make([]byte, 64<<10)
	for {
		if _, err := w.read(buf); err != nil && err != unix.EINTR {
			return // EAGAIN: there are none
		}
	}
}

// A follow counts how often anybody, this process too, has changed a directory, or a file by its name there.
type follow struct {
	events atomic.Uint64
	over   atomic.Bool // the directory is not followed any more
}

// maxFollows limits follows: each keeps an inode in the kernel's memory.
const maxFollows = 1 << 16

// followDir watches the directory that is open as fd until unfollow, or until it is removed. key names it in
// events; nil: it cannot be watched, or too many are.
func (w *watcher) followDir(fd int) (key string, f *follow) {
	if w == nil || w.full.Load() {
		return "", nil
	}
	key, err := handleOf(fdName{fd: fd})
	if err != nil {
		return "", nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if f := w.follows[key]; f != nil {
		return key, f
	}
	if len(w.follows) >= min(w.maxMarks(), maxFollows) {
		return "", nil
	}
	if err := unix.FanotifyMark(w.fd, unix.FAN_MARK_ADD|unix.FAN_MARK_ONLYDIR, watchMask, fd, "."); err != nil {
		if err == syscall.ENOSPC {
			w.full.Store(true)
		}
		return "", nil
	}
	if w.follows == nil {
		w.follows = map[string]*follow{}
	}
	f = new(follow)
	w.follows[key] = f
	w.following.Store(true)
	return key, f
}

// unfollow ends that the directory of key is followed, which is open as fd; -1: it was removed, and the kernel's
// mark with it.
func (w *watcher) unfollow(key string, fd int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f := w.follows[key]
	if f == nil {
		return
	}
	f.over.Store(true)
	delete(w.follows, key)
	w.following.Store(len(w.follows) > 0)
	if fd >= 0 && w.nodes[key] == nil {
		_ = unix.FanotifyMark(w.fd, unix.FAN_MARK_REMOVE|unix.FAN_MARK_ONLYDIR, watchMask, fd, ".")
	}
}

// unknown notes that anything may have changed.
func (w *watcher) unknown() {
	w.inval.addAll()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, f := range w.follows {
		f.events.Add(1)
	}
}

// close ends run.
func (w *watcher) close() {
	if w != nil {
		unix.Write(w.stop, []byte{1, 0, 0, 0, 0, 0, 0, 0})
		<-w.done
		w.free()
	}
}

// free closes the descriptors. run has ended, or was not started.
func (w *watcher) free() {
	unix.Close(w.fd)
	unix.Close(w.stop)
}

// events handles the events in b, as read from the group (fanotify(7)).
func (w *watcher) events(b []byte) {
	const header = int(unsafe.Sizeof(unix.FanotifyEventMetadata{}))
	for len(b) >= header {
		m := (*unix.FanotifyEventMetadata)(unsafe.Pointer(&b[0]))
		size := int(m.Event_len)
		if size < header || size > len(b) {
			w.unknown() // malformed
			return
		}
		switch own := m.Pid == w.self; {
		case m.Mask&unix.FAN_Q_OVERFLOW != 0:
			w.unknown()
		case !own || w.following.Load():
			if !own {
				w.changes.Add(1)
			}
			w.event(m.Mask, b[int(m.Metadata_len):size], own)
		}
		b = b[size:]
	}
}

// event handles the mask and the information records of one event: of an entry of a directory, and of the file itself. own says
// that it is of this process.
func (w *watcher) event(mask uint64, records []byte, own bool) {
	const header, fsid, handle = 4, 8, 8
	for len(records) >= header {
		kind, size := records[0], int(binary.NativeEndian.Uint16(records[2:]))
		if size < header || size > len(records) {
			return
		}
		info := records[header:size]
		records = records[size:]
		if len(info) < fsid+handle || kind != unix.FAN_EVENT_INFO_TYPE_DFID_NAME && kind != unix.FAN_EVENT_INFO_TYPE_FID {
			continue
		}
		info = info[fsid:]
		size = int(binary.NativeEndian.Uint32(info))
		typ := int32(binary.NativeEndian.Uint32(info[4:]))
		if len(info) < handle+size {
			continue
		}
		key := handleKey(typ, info[handle:handle+size])
		n := w.node(key)
		if mask&unix.FAN_DELETE_SELF != 0 {
			w.unfollow(key, -1)
		}
		switch {
		case own:
		case n == nil: // no node has the inode any more
		case kind == unix.FAN_EVENT_INFO_TYPE_DFID_NAME:
			name, _, _ := bytes.Cut(info[handle+size:], []byte{0})
			w.changed(n, string(name), mask)
		case !n.isDir() && !n.inUpper():
			w.rewritten(n, mask)
		}
	}
}

// changed queues the invalidations for a change of the entry called name in dir.
func (w *watcher) changed(dir *node, name string, mask uint64) {
	if name == "." {
		w.inval.add(invalidation{what: invalAttr, id: dir.id})
		return
	}
	if w.copied != nil && w.copied(dir, name, mask) {
		return
	}
	child := w.table.child(dir, name)
	if mask&nameMask != 0 {
		kind := invalEntry
		if mask&(unix.FAN_DELETE|unix.FAN_MOVED_FROM) != 0 {
			kind = invalDelete
		}
		if child != nil {
			w.table.invalidate(child)
		}
		w.inval.add(invalidation{what: kind, id: dir.id, name: name})
		w.inval.add(invalidation{what: invalContent, id: dir.id})
	}
	if child != nil {
		w.rewritten(child, mask)
	}
}

// rewritten queues the invalidation for a change of the content or the attributes of n.
func (w *watcher) rewritten(n *node, mask uint64) {
	switch {
	case mask&(unix.FAN_MODIFY|unix.FAN_CLOSE_WRITE) != 0:
		w.inval.add(invalidation{what: invalContent, id: n.id})
	case mask&unix.FAN_ATTRIB != 0:
		w.inval.add(invalidation{what: invalAttr, id: n.id})
	}
}
