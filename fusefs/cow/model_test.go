package cow

import (
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"wolffia/perm"
	"wolffia/runtime"
)

// A model is a copied codebase and a small sandbox, which changes it by the rules of the format.
type model struct {
	t     testing.TB
	dir   string // of all: host, upper, work, base.log, undo
	log   *Log
	rules Rules
	done  func() // closes what layers has opened
}

func newModel(t testing.TB, rules ...string) *model {
	t.Helper()
	return newModelIn(t, fastDir(t), rules...)
}

func newModelIn(t testing.TB, dir string, rules ...string) *model {
	t.Helper()
	m := &model{t: t, dir: dir}
	for _, name := range []string{"host", "upper", "work"} {
		m.must(os.Mkdir(filepath.Join(m.dir, name), 0o700))
	}
	m.openLog()
	m.setRules(append(rules, "/**=write")...)
	return m
}

// fastDir returns a new directory in memory, where a flush costs nothing, if that can hold an
// upper layer.
func fastDir(t testing.TB) string {
	dir, err := os.MkdirTemp("/dev/shm", "wolffia")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if Probe(fd) != nil {
		return t.TempDir()
	}
	return dir
}

func (m *model) openLog() {
	f, err := os.OpenFile(filepath.Join(m.dir, "base.log"), os.O_RDWR|os.O_CREATE, 0o600)
	m.must(err)
	m.log, err = OpenLog(f)
	m.must(err)
	m.t.Cleanup(func() { m.log.Close() })
}

func (m *model) setRules(rules ...string) {
	m.t.Helper()
	var all []perm.Rule
	for _, s := range rules {
		pattern, level, _ := strings.Cut(s, "=")
		l, err := perm.ParseLevel(level)
		m.must(err)
		all = append(all, perm.Rule{Pattern: pattern, Level: l})
	}
	policy, err := perm.Compile(all)
	m.must(err)
	m.rules = policy
}

func (m *model) must(err error) {
	m.t.Helper()
	if err != nil {
		m.t.Fatal(err)
	}
}

// layers opens the layers for one call.
func (m *model) layers() *Layers {
	m.t.Helper()
	if m.done != nil {
		m.done()
	}
	var fds []int
	open := func(name string) int {
		fd, err := unix.Open(filepath.Join(m.dir, name), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		m.must(err)
		fds = append(fds, fd)
		return fd
	}
	undo, err := os.OpenFile(filepath.Join(m.dir, "undo"), os.O_RDWR|os.O_CREATE, 0o600)
	m.must(err)
	m.done = sync.OnceFunc(func() {
		for _, fd := range fds {
			unix.Close(fd)
		}
		undo.Close()
	})
	m.t.Cleanup(m.done)
	return &Layers{Root: open("host"), Upper: open("upper"), Work: open("work"), Log: m.log, Rules: m.rules, Undo: undo}
}

func (m *model) host(p string) string  { return filepath.Join(m.dir, "host", p) }
func (m *model) upper(p string) string { return filepath.Join(m.dir, "upper", p) }

// writeHost writes a file of the host's, with the directories that it needs.
func (m *model) writeHost(p, content string) {
	m.t.Helper()
	m.must(os.MkdirAll(filepath.Dir(m.host(p)), 0o777))
	m.must(os.WriteFile(m.host(p), []byte(content), 0o644))
}

// applyStopped applies all changes, and stops when Apply looks for the time after so many looks.
func (m *model) applyStopped(looks int) error {
	m.t.Helper()
	l := m.layers()
	l.Stopped = func() bool { looks--; return looks < 0 }
	_, err := l.Apply(runtime.ApplyOptions{})
	m.clean()
	return err
}

// A spot is what the layers have at a path.
type spot struct {
	there, up bool   // something is; in the upper layer
	white     bool   // a whiteout
	lower     string // where the lower half is, or would be
	hasLower  bool
	isDir     bool
}

func lstat(p string) *object {
	o, err := statAt(unix.AT_FDCWD, p)
	if err != nil {
		return nil
	}
	return o
}

// find looks a path up as a sandbox sees it.
func (m *model) find(p string) spot {
	s := spot{there: true, up: true, hasLower: true, isDir: true}
	if p == "" {
		return s
	}
	at := ""
	for name := range strings.SplitSeq(p, "/") {
		if !s.there || !s.isDir {
			return spot{}
		}
		at = path.Join(at, name)
		next := spot{lower: path.Join(s.lower, name), hasLower: s.hasLower}
		if o := lstat(m.upper(at)); s.up && o != nil {
			next.up, next.there, next.isDir, next.white = true, !o.isWhiteout(), o.isDir(), o.isWhiteout()
			if o.isDir() {
				fd, err := unix.Open(m.upper(at), unix.O_PATH|unix.O_NOFOLLOW, 0)
				m.must(err)
				half, lower, err := Lower(fd)
				unix.Close(fd)
				m.must(err)
				switch half {
				case Own:
					next.hasLower = false
				case Moved:
					next.lower, next.hasLower = lower, true
				}
			}
		} else if s.hasLower {
			if o := lstat(m.host(next.lower)); o != nil {
				next.there, next.isDir = true, o.isDir()
			}
		}
		s = next
	}
	return s
}

// note records what the host has at a path.
func (m *model) note(lower string) {
	if o := lstat(m.host(lower)); o != nil {
		r := RecordOf(lower, &o.Statx_t)
		if o.isFile() && o.Ino%2 == 0 { // with and without
			f, err := os.Open(m.host(lower))
			m.must(err)
			r.Digest, err = Digest(f)
			m.must(err)
			f.Close()
		}
		m.must(m.log.Add(r))
	}
}

// into makes the upper half of an existing directory.
func (m *model) into(dir string) {
	if dir == "" || m.find(dir).up {
		return
	}
	m.into(parentOf(dir))
	s := m.find(dir)
	o := lstat(m.host(s.lower))
	m.note(s.lower)
	m.must(os.Mkdir(m.upper(dir), fs.FileMode(o.perms()|0o700)))
	m.must(os.Chmod(m.upper(dir), fs.FileMode(o.perms()|0o700)))
	if up := m.find(parentOf(dir)); !up.hasLower || path.Join(up.lower, path.Base(dir)) != s.lower {
		m.setLower(dir, Moved, s.lower)
	}
}

func (m *model) setLower(dir string, half Half, lower string) {
	fd, err := unix.Open(m.upper(dir), unix.O_PATH|unix.O_NOFOLLOW, 0)
	m.must(err)
	m.must(SetLower(fd, half, lower))
	unix.Close(fd)
}

// copyUp copies an existing file.
func (m *model) copyUp(p string) {
	s := m.find(p)
	if s.up {
		return
	}
	m.into(parentOf(p))
	m.note(s.lower)
	o := lstat(m.host(s.lower))
	if o.isLink() {
		target, err := os.Readlink(m.host(s.lower))
		m.must(err)
		m.must(os.Symlink(target, m.upper(p)))
	} else {
		b, err := os.ReadFile(m.host(s.lower))
		m.must(err)
		m.must(os.WriteFile(m.upper(p), b, 0o600))
		m.must(os.Chmod(m.upper(p), fs.FileMode(o.perms())))
	}
	m.must(unix.UtimesNanoAt(unix.AT_FDCWD, m.upper(p), times(o), unix.AT_SYMLINK_NOFOLLOW))
}

// vacate prepares a name at which nothing is for something new.
func (m *model) vacate(p string) {
	m.into(parentOf(p))
	if m.find(p).white {
		m.must(os.Remove(m.upper(p)))
	}
}

func (m *model) write(p, content string, mode fs.FileMode) {
	if s := m.find(p); s.there {
		m.copyUp(p)
	} else {
		m.vacate(p)
	}
	m.must(os.WriteFile(m.upper(p), []byte(content), mode))
}

func (m *model) mkdir(p string) {
	m.vacate(p)
	m.must(os.Mkdir(m.upper(p), 0o755))
	m.setLower(p, Own, "")
}

func (m *model) symlink(target, p string) {
	m.vacate(p)
	m.must(os.Symlink(target, m.upper(p)))
}

func (m *model) chmod(p string, mode fs.FileMode) {
	if m.find(p).isDir {
		m.into(p)
	} else {
		m.copyUp(p)
	}
	m.must(os.Chmod(m.upper(p), mode))
}

// list returns the names in a directory.
func (m *model) list(dir string) []string {
	s := m.find(dir)
	all := map[string]bool{}
	if s.hasLower {
		lower, _ := os.ReadDir(m.host(s.lower))
		for _, e := range lower {
			all[e.Name()] = true
		}
	}
	if s.up {
		upper, _ := os.ReadDir(m.upper(dir))
		for _, e := range upper {
			all[e.Name()] = true
		}
	}
	var names []string
	for name := range all {
		if m.find(path.Join(dir, name)).there {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// remove deletes a file or an empty directory.
func (m *model) remove(p string) {
	s := m.find(p)
	m.into(parentOf(p))
	if s.up {
		m.must(os.RemoveAll(m.upper(p))) // of a directory, whiteouts
	}
	m.hide(p)
}

// hide makes a whiteout if the lower layer shows something at a path.
func (m *model) hide(p string) {
	up := m.find(parentOf(p))
	lower := path.Join(up.lower, path.Base(p))
	if !up.hasLower || lstat(m.host(lower)) == nil {
		return
	}
	m.note(lower)
	m.must(unix.Mknod(m.upper(p), unix.S_IFCHR, 0))
}

func (m *model) removeAll(p string) {
	if m.find(p).isDir {
		for _, name := range m.list(p) {
			m.removeAll(path.Join(p, name))
		}
	}
	m.remove(p)
}

// rename moves what is at a to b, where nothing is.
func (m *model) rename(a, b string) {
	if s := m.find(a); s.isDir {
		m.into(a)
		if s.hasLower {
			m.note(s.lower)
			m.setLower(a, Moved, s.lower)
		}
	} else {
		m.copyUp(a)
	}
	m.vacate(b)
	m.must(os.Rename(m.upper(a), m.upper(b)))
	m.hide(a)
}

// view returns all that a sandbox sees: path to type, mode, content.
func (m *model) view() map[string]string {
	all := map[string]string{}
	var walk func(dir string)
	walk = func(dir string) {
		for _, name := range m.list(dir) {
			p := path.Join(dir, name)
			s := m.find(p)
			real := m.host(s.lower)
			if s.up {
				real = m.upper(p)
			}
			all[p] = describe(m.t, real)
			if s.isDir {
				walk(p)
			}
		}
	}
	walk("")
	return all
}

func describe(t testing.TB, p string) string {
	o := lstat(p)
	switch {
	case o == nil:
		return "nothing"
	case o.isDir():
		return fmt.Sprintf("directory %o", o.perms()|0o700)
	case o.isLink():
		target, err := os.Readlink(p)
		if err != nil {
			t.Fatal(err)
		}
		return "link " + target
	case o.isFile():
		b, err := os.ReadFile(p)
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprintf("file %o %d %q", o.perms(), o.mtime(), b)
	}
	return "other"
}

// hostView is view of the host's directory.
func (m *model) hostView() map[string]string {
	all := map[string]string{}
	err := filepath.WalkDir(m.host(""), func(p string, _ fs.DirEntry, err error) error {
		if rel, rerr := filepath.Rel(m.host(""), p); err == nil && rel != "." {
			all[rel], err = describe(m.t, p), rerr
		}
		return err
	})
	m.must(err)
	return all
}

// differences lists how two views differ.
func differences(a, b map[string]string) (all []string) {
	for p := range a {
		if a[p] != b[p] {
			all = append(all, fmt.Sprintf("%q: %s, want %s", p, b[p], a[p]))
		}
	}
	for p := range b {
		if _, ok := a[p]; !ok {
			all = append(all, fmt.Sprintf("%q: %s, want nothing", p, b[p]))
		}
	}
	slices.Sort(all)
	return all
}

var someNames = []string{"a", "b", "c", "d", "odd\n\x1b", "no\xffutf", "-x"}

// newWorld returns a model with a random host's directory and n random changes, and what has made
// them: equal for equal seeds.
func newWorld(t *testing.T, seed int, test uint64, n int) (*model, *rand.Rand) {
	t.Helper()
	r := rand.New(rand.NewPCG(uint64(seed), test))
	m := newModel(t)
	m.seedHost(r)
	for range n {
		m.act(r)
	}
	return m, r
}

// seedHost fills the host's directory.
func (m *model) seedHost(r *rand.Rand) {
	var fill func(dir string, depth int)
	fill = func(dir string, depth int) {
		for _, name := range someNames {
			p := path.Join(dir, name)
			switch r.IntN(4) {
			case 0, 1:
				m.must(os.WriteFile(m.host(p), []byte(fmt.Sprintf("host %s %d\n", p, r.IntN(100))), 0o644))
			case 2:
				if depth < 2 {
					m.must(os.Mkdir(m.host(p), 0o755))
					fill(p, depth+1)
				}
			}
		}
	}
	fill("", 0)
}

// pick returns a random path that a sandbox could name, and whether it exists.
func (m *model) pick(r *rand.Rand) (string, spot) {
	dir := ""
	for r.IntN(3) > 0 {
		names := m.list(dir)
		if len(names) == 0 {
			break
		}
		if next := path.Join(dir, names[r.IntN(len(names))]); m.find(next).isDir {
			dir = next
		}
	}
	p := path.Join(dir, someNames[r.IntN(len(someNames))])
	return p, m.find(p)
}

// act does one random thing as the sandbox.
func (m *model) act(r *rand.Rand) {
	p, s := m.pick(r)
	switch what := r.IntN(10); {
	case !s.there:
		switch {
		case what < 5:
			m.write(p, fmt.Sprintf("new %d\n", r.IntN(1000)), 0o644)
		case what < 8:
			m.mkdir(p)
		default:
			m.symlink(fmt.Sprint("to ", r.IntN(10)), p)
		}
	case what < 2:
		m.removeAll(p)
	case what < 5:
		to, t := m.pick(r)
		if !t.there && !within(to, p) {
			m.rename(p, to)
		}
	case s.isDir && what < 6:
		m.chmod(p, []fs.FileMode{0o700, 0o755, 0o750}[r.IntN(3)])
	case s.isDir:
	case what < 7 && !m.isLink(p, s):
		m.chmod(p, []fs.FileMode{0o600, 0o644, 0o755}[r.IntN(3)])
	case !m.isLink(p, s):
		m.write(p, fmt.Sprintf("changed %d\n", r.IntN(1000)), 0o644)
	}
}

func (m *model) isLink(p string, s spot) bool {
	real := m.host(s.lower)
	if s.up {
		real = m.upper(p)
	}
	o := lstat(real)
	return o != nil && o.isLink()
}

// actHost does one random thing on the host.
func (m *model) actHost(r *rand.Rand) {
	all := slices.Sorted(maps.Keys(m.hostView()))
	p := someNames[r.IntN(len(someNames))]
	if len(all) > 0 {
		p = all[r.IntN(len(all))]
	}
	o := lstat(m.host(p))
	switch what := r.IntN(6); {
	case o == nil, what == 0 && o.isDir():
		_ = os.WriteFile(m.host(path.Join(p, "host made")), []byte("host's\n"), 0o644)
		_ = os.WriteFile(m.host(path.Join(p, someNames[r.IntN(len(someNames))])), []byte("host's\n"), 0o644)
	case what == 1:
		m.must(os.RemoveAll(m.host(p)))
	case what == 2:
		_ = os.Rename(m.host(p), m.host(path.Join(parentOf(p), "host moved")))
	case o.isFile():
		m.must(os.WriteFile(m.host(p), []byte(fmt.Sprintf("host's %d\n", r.IntN(1000))), 0o644))
	}
}
