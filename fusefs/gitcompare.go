package fusefs

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"hash/maphash"
	"path"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"wolffia/fusefs/backing"
	"wolffia/fusefs/fanotify"
	"wolffia/internal/git/gitindex"
	"wolffia/perm"
)

// A trackedDir is a directory that has files in the index and whose names git believes to know, or
// a directory above one.
type trackedDir struct {
	path   string         // from the top of the working tree, "" for that itself
	above  int            // the directory it is in, by its number
	files  []int          // entries of the index
	listed *gitindex.Stat // when git listed it, if git believes to know its names
	sum    uint64         // of the index's data about these

	judged, shown bool   // by the rules: see judge
	states        states // if it is shown

	// clean: all is as in the index, and stays so until follow has another event.
	clean  bool
	newest uint32  // when a file was last changed, in seconds
	key    string  // of the directory: see fanotify.Key
	follow *follow // nil: it cannot be watched
	events uint64  // that follow had before the last look
}

// maxDirs limits the directories of an index: one that a sandbox has written can have other names.
const maxDirs = 1 << 18

// maxSteps limits the names in the paths of all directories together: each is one step by the
// rules.
const maxSteps = 1 << 20

// lookAgain is after how long each file is looked at again, also where nothing has happened: the
// host may have linked it elsewhere, and changed it there.
const lookAgain = 2 * time.Second

// sumSeed is of all sums.
var sumSeed = maphash.MakeSeed()

// arrange finds the directories of x. It returns false if x is damaged.
func (x *insideIndex) arrange() (whole bool) {
	numbers := map[string]int{"": 0}
	steps := 0
	x.dirs = []trackedDir{{}}
	fits := func(at string) bool { // git has no others
		return !strings.HasPrefix(at, "/") && path.Clean("/"+at) == "/"+at &&
			len(x.dirs) <= maxDirs && steps <= maxSteps
	}
	var number func(at string) int
	number = func(at string) int {
		if n, ok := numbers[at]; ok {
			return n
		}
		above := number(strings.TrimSuffix(path.Dir(at), "."))
		numbers[at] = len(x.dirs)
		steps += strings.Count(at, "/") + 1
		x.dirs = append(x.dirs, trackedDir{path: at, above: above})
		return len(x.dirs) - 1
	}
	n, last := 0, []byte(nil)
	for i := range x.Len() {
		name := x.Name(i)
		at := name[:max(bytes.LastIndexByte(name, '/'), 0)]
		if !bytes.Equal(at, last) {
			if !fits(string(at)) || name[0] == '/' {
				return false
			}
			n, last = number(string(at)), at
		}
		x.dirs[n].files = append(x.dirs[n].files, i)
	}
	whole = true
	err := x.Listed(func(at string, s gitindex.Stat) {
		if whole = whole && fits(at); whole {
			n := number(at)
			x.dirs[n].listed = &s
		}
	})
	for i := range x.dirs {
		d := &x.dirs[i]
		var h maphash.Hash
		h.SetSeed(sumSeed)
		for _, f := range d.files {
			_, _ = h.Write(x.Raw(f))
			_, _ = h.Write(x.Name(f))
		}
		if d.listed != nil {
			_ = binary.Write(&h, binary.NativeEndian, d.listed)
		}
		d.sum = h.Sum64()
	}
	return whole && err == nil
}

// inherit takes the results of directories from was, an earlier index, where both say the same.
// was cannot be used afterwards.
func (x *insideIndex) inherit(was *insideIndex) {
	x.text, x.answer, x.links, x.seen = was.text, was.answer, was.links, was.seen
	numbers := make(map[string]int, len(was.dirs))
	for i := range was.dirs {
		numbers[was.dirs[i].path] = i
	}
	for i := range x.dirs {
		d := &x.dirs[i]
		if n, ok := numbers[d.path]; ok {
			old := &was.dirs[n]
			d.clean, d.newest = old.clean && old.sum == d.sum, old.newest
			d.judged, d.shown, d.states = old.judged, old.shown, old.states
			d.key, d.follow, d.events = old.key, old.follow, old.events
			old.follow = nil
		}
	}
}

// A comparison finds the changes of a working tree since git wrote its index.
type comparison struct {
	*gitMonitor
	index  *insideIndex
	root   int    // the top of the working tree
	states states // of that

	mu    sync.Mutex
	names bytes.Buffer // each ended by a NUL; guarded by mu
	size  int          // guarded by mu
}

func (c *comparison) add(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.size += len(name) + 1; c.size <= maxChanged {
		c.names.WriteString(name)
		c.names.WriteByte(0)
	}
}

// addNames adds that the names in the directory at are others.
func (c *comparison) addNames(at string) { c.add(strings.TrimPrefix(at+changedIn, "/")) }

// all inspects the directories whose results are incomplete.
func (c *comparison) all() {
	c.watch.drain()
	x := c.index
	links, now := c.links.Load(), c.clock()
	// A new link of a file is not an event of its directory, nor is a change by that link.
	linked := x.links != links || now-x.seen > int64(lookAgain)
	if x.links = links; linked {
		x.seen = now
	}
	var look []int
	other := make([]bool, len(x.dirs)) // names in it can be other ones than before
	for i := range x.dirs {
		d := c.judge(i)
		known := d.follow != nil && !d.follow.over.Load()
		if known && (i == 0 || other[d.above]) {
			known = c.is(d)
		}
		other[i] = !known || d.news()
		d.clean = d.clean && known && !other[i] && !linked && d.newest < uint32(x.file.Mtim.Sec)
		if !known {
			d.follow = nil
		}
		if !d.clean {
			look = append(look, i)
		}
	}
	var next atomic.Int64
	var wait sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), (len(look)+15)/16) {
		wait.Go(func() {
			for {
				n := int(next.Add(1)) - 1
				if n >= len(look) {
					return
				}
				c.directory(&x.dirs[look[n]])
			}
		})
	}
	wait.Wait()
}

// modules adds the file that names submodules. git rm of one changes that itself, after it has
// asked, and stages it only if it does not hold it for unchanged.
func (c *comparison) modules() {
	const name = ".gitmodules"
	if slices.ContainsFunc(c.index.dirs[0].files, func(i int) bool { return string(c.index.Name(i)) == name }) {
		c.add(name)
	}
}

// each adds all that git may know. git takes this more seriously than the answer that all may
// have changed: there it believes times and sizes of directories.
func (c *comparison) each() {
	for i := range c.index.Len() {
		c.add(string(c.index.Name(i)))
	}
	for _, d := range c.index.dirs {
		c.addNames(d.path)
	}
}

// news reports whether there were events since the last call.
func (d *trackedDir) news() bool {
	was := d.events
	d.events = d.follow.events.Load()
	return d.events != was
}

// is reports whether d is the directory that is followed for it.
func (c *comparison) is(d *trackedDir) bool {
	fd := c.open(d)
	defer closeOpen(fd)
	if fd < 0 {
		return false
	}
	key, err := fanotify.Key(fd)
	return err == nil && key == d.key
}

// judge returns directory number i, for which the levels by the rules are known.
func (c *comparison) judge(i int) *trackedDir {
	d := &c.index.dirs[i]
	switch {
	case d.judged:
		return d
	case i == 0:
		d.shown, d.states = true, c.states
	default:
		above, name := c.judge(d.above), path.Base(d.path)
		d.shown = above.shown && name != gitName && c.levels.child(above.states, name, true) != perm.None
		d.states = c.levels.inside(above.states, name, true)
	}
	d.judged = true
	return d
}

// open opens d; -1: it cannot be opened, or the rules do not show it.
func (c *comparison) open(d *trackedDir) int {
	if !d.shown {
		return -1
	}
	fd, errno := backing.OpenBeneath(c.root, cmp.Or(d.path, "."), unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if errno != 0 {
		return -1
	}
	return fd
}

func closeOpen(fd int) {
	if fd >= 0 {
		unix.Close(fd)
	}
}

// directory compares d with the index.
func (c *comparison) directory(d *trackedDir) {
	fd := c.open(d)
	defer closeOpen(fd)
	if d.follow == nil && fd >= 0 { // before the look
		if d.key, d.follow = c.watch.followDir(fd); d.follow != nil {
			d.news()
		}
	}
	d.clean, d.newest = d.follow != nil, 0
	if d.listed != nil && c.outdated(fd, d.listed) {
		c.addNames(d.path)
		d.clean = false
	}
	level, constant := c.levels.constant(d.states)
	skip := len(d.path)
	if skip > 0 {
		skip++ // the slash
	}
	for _, i := range d.files {
		name := c.index.Name(i)
		file := name[skip:]
		if !constant {
			level = c.levels.child(d.states, string(file), false)
		}
		if c.index.Absent(i) {
			if fd >= 0 && level >= perm.Read && c.exists(fd, string(file)) { // git looks at it as at any other
				c.add(string(name))
				d.clean = false
			}
			continue
		}
		if fd < 0 || level < perm.Read || string(file) == gitName || c.differs(d, fd, file, i) {
			c.add(string(name))
			d.clean = false
		}
	}
}

// exists reports whether the directory fd may have an entry with that name.
func (c *comparison) exists(fd int, name string) bool {
	_, errno := c.Stat(backing.At{FD: fd, Name: name})
	return errno != syscall.ENOENT
}

// differs reports whether entry i, whose file is the one called name of the directory d, may have
// another content than in the index. name is followed by a NUL. The rules are git's own
// (gitformat-index(5), "racy Git"), and stricter: each attribute counts.
func (c *comparison) differs(d *trackedDir, fd int, name []byte, i int) bool {
	if !c.index.Plain(i) || len(name) == 0 {
		return true
	}
	var st unix.Stat_t
	_, _, errno := unix.Syscall6(unix.SYS_NEWFSTATAT, uintptr(fd), uintptr(unsafe.Pointer(&name[0])), uintptr(unsafe.Pointer(&st)),
		unix.AT_SYMLINK_NOFOLLOW, 0, 0)
	if errno != 0 || st.Dev != c.git.device {
		return true
	}
	if st.Nlink > 1 && st.Mode&unix.S_IFMT == unix.S_IFREG { // it can change by a name elsewhere, without an event
		d.clean = false
	}
	was, is := c.index.Stat(i), gitindex.StatOf(&st)
	d.newest = max(d.newest, is.MtimeSec)
	const executable = 0o111
	x := is.Mode & executable
	switch {
	case is.Mode&unix.S_IFMT != was.Mode&unix.S_IFMT, is.Size != was.Size:
		return true
	case is.Mode&unix.S_IFMT == unix.S_IFLNK:
	case st.Uid == c.EUID && (x&0o100 != 0) != (was.Mode&0o100 != 0):
		return true
	case st.Uid != c.EUID && x != was.Mode&executable:
		return true // the tree shows whether the server may execute it
	}
	return c.older(&was, &is)
}

// older reports whether was may be the attributes of another content than is.
func (c *comparison) older(was, is *gitindex.Stat) bool {
	switch {
	case is.MtimeSec >= uint32(c.index.file.Mtim.Sec), is.MtimeSec != was.MtimeSec, was.MtimeNsec != 0 && is.MtimeNsec != was.MtimeNsec:
		return true
	case c.minimal:
		return false
	}
	return is.CtimeSec != was.CtimeSec || was.CtimeNsec != 0 && is.CtimeNsec != was.CtimeNsec || is.Ino != was.Ino ||
		is.UID != was.UID || is.GID != was.GID
}

// outdated reports whether the directory fd can have other names than git knows. git knows the
// names that the directory had at was; fd -1: the directory does not exist.
func (c *comparison) outdated(fd int, was *gitindex.Stat) bool {
	var st unix.Stat_t
	if fd < 0 || unix.Fstat(fd, &st) != nil {
		return true
	}
	is := gitindex.StatOf(&st)
	return c.older(was, &is)
}
