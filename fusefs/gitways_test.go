package fusefs

import (
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"wolffia/internal/git/gitcopy"
	"wolffia/internal/git/gitguard"
	"wolffia/internal/sys/beneath"
	"wolffia/internal/test/testenv"
	"wolffia/perm"
)

// A gitWorld is a directory of the host over which two sandboxes have trees with git directories of
// their own. They are asked as the kernel would ask, and in ways in which it does not.
type gitWorld struct {
	host  string
	root  int // it is open
	boxes [2]*gitBox
	gits  map[[2]uint64]string // what git takes for a git directory, or a way to one, by inode: what was in it
}

// A gitBox is one of the sandboxes.
type gitBox struct {
	tree  *tree
	store string
	rules [3]*perm.Policy // .git is its own, or the host's, of which parts could be written by the rules alone

	mu          sync.Mutex
	dirs, files []uint64 // ids of nodes; guarded by mu
}

// plantGits makes what the host has.
func plantGits(t *testing.T, dir string) {
	for _, at := range []string{"rep/.git", "deep/er/rep/.git", "bare"} {
		write(t, dir, at+"/HEAD", "ref: refs/heads/main\n")
		write(t, dir, at+"/config", "[core]\n\tbare = false\n")
		write(t, dir, at+"/refs/heads/main", strings.Repeat("1", 40)+"\n")
		write(t, dir, at+"/objects/info/packs", "P\n")
	}
	for name, text := range map[string]string{
		"a/f": "f", "b/c/f": "f", "rep/f": "f", "junk/.git/x": "x", "ptr/.git": "gitdir: ../rep/.git\n", "nearly/HEAD": "ref: x\n", "nearly/commondi": "..\n",
		"nearly/refs/x": "", "objects/x": "",
	} {
		write(t, dir, name, text)
	}
	if err := os.MkdirAll(filepath.Join(dir, "lnk"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("../rep/.git", filepath.Join(dir, "lnk/.git")); err != nil {
		t.Fatal(err)
	}
}

func newGitWorld(t *testing.T) *gitWorld {
	base := t.TempDir()
	w := &gitWorld{host: filepath.Join(base, "host")}
	plantGits(t, w.host)
	root, err := os.Open(w.host)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	w.root = int(root.Fd())
	if w.gits, err = w.seen(); err != nil {
		t.Fatal(err)
	}
	for i := range w.boxes {
		w.boxes[i] = newGitBox(t, w.host, filepath.Join(base, fmt.Sprint("box", i)))
	}
	return w
}

func newGitBox(t *testing.T, host, base string) *gitBox {
	b := &gitBox{store: filepath.Join(base, "git/store"), dirs: []uint64{rootID}, files: []uint64{rootID}}
	for i, rules := range [][]string{{"**=write", "bare=read"}, {"**=write", "bare=read", ".git=read", ".git/config=write", ".git/refs/**=write"}, {"**=write", "bare=read", ".git=read", ".git/=write"}} {
		var err error
		if b.rules[i], err = perm.Compile(parseRules(t, rules...)); err != nil {
			t.Fatal(err)
		}
	}
	root, err := os.Open(host)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	b.tree, err = newTree(&Options{
		Root: int(root.Fd()), Rules: b.rules[0], Git: gitOf(t, setup{Git: true}, host, base), NoWatch: true, Timeout: time.Nanosecond,
		FDs: 64,
	})
	if err != nil {
		t.Fatal(err)
	}
	b.tree.kernel.dev.Epochs = true // there is no kernel to wait for
	t.Cleanup(b.tree.close)
	return b
}

// seen returns what git on the host would take for a git directory, for a way to one, or for that
// on another file system.
func (w *gitWorld) seen() (map[[2]uint64]string, error) {
	all := map[[2]uint64]string{}
	err := filepath.WalkDir(w.host, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			if os.IsNotExist(err) {
				return nil
			}
			return err
		}
		has := func(name string) bool {
			_, err := os.Lstat(filepath.Join(path, name))
			return err == nil
		}
		is := d.Name() == gitName || gitguard.Spelled(d.Name()) || d.IsDir() && gitguard.Complete(has)
		if !is {
			return nil
		}
		var st unix.Stat_t
		if err := unix.Lstat(path, &st); err != nil {
			return nil
		}
		all[[2]uint64{st.Dev, st.Ino}] = strings.ReplaceAll(snapshotOf(path), path, "") + " called " + d.Name()
		if d.IsDir() {
			return fs.SkipDir
		}
		return nil
	})
	return all, err
}

// snapshotOf is snapshot, without a test.
func snapshotOf(dir string) string {
	var b strings.Builder
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		fmt.Fprintf(&b, "%s %v", path, err)
		if d == nil {
			return nil // another goroutine has moved it away
		}
		if info, err := d.Info(); err == nil {
			fmt.Fprintf(&b, " %v %v", info.Mode(), info.ModTime())
		}
		if d.Type().IsRegular() {
			text, _ := os.ReadFile(path)
			fmt.Fprintf(&b, " %q", text)
		}
		return nil
	})
	return b.String()
}

// check returns what the host has now that git would take for a git directory, and had not at
// first.
func (w *gitWorld) check() error {
	now, err := w.seen()
	if err != nil {
		return err
	}
	for id, text := range now {
		if was, ok := w.gits[id]; !ok {
			return fmt.Errorf("the host has got %s", text)
		} else if was != text {
			return fmt.Errorf("the host's git directory is\n%s\nand was\n%s", text, was)
		}
	}
	return nil
}

// gitNames are the names that matter.
var gitNames = []string{
	"a", "b", "c", "f", "x", "rep", "deep", "er", "ptr", "lnk", "junk", "nearly", "bare", gitName, gitName, gitName, gitName, ".GIT", ".Git ", "git~1", ".gi\u200ct", "HEAD", "objects",
	"refs", "reftable", "commondir", "commondi", "config", "heads", "main", HostsName, "0", "info", "lfs",
}

// step has the sandbox ask one thing at random.
func (b *gitBox) step(r *rand.Rand) string {
	t := b.tree
	t.changeMu.RLock()
	defer t.changeMu.RUnlock()
	t.levels.rulesMu.RLock()
	defer t.levels.rulesMu.RUnlock()
	node := func(pool *[]uint64) uint64 {
		b.mu.Lock()
		defer b.mu.Unlock()
		return (*pool)[r.IntN(len(*pool))]
	}
	found := func(e *fuse.EntryOut) {
		b.mu.Lock()
		defer b.mu.Unlock()
		pool := &b.files
		if e.Mode&unix.S_IFMT == unix.S_IFDIR {
			pool = &b.dirs
		}
		const most = 40
		if e.NodeId != 0 && len(*pool) < most {
			*pool = append(*pool, e.NodeId)
		} else if e.NodeId != 0 {
			(*pool)[1+r.IntN(most-1)] = e.NodeId
		}
	}
	dir, dir2, file := node(&b.dirs), node(&b.dirs), node(&b.files)
	name, name2 := pick(r, gitNames...), pick(r, gitNames...)
	in := fuse.InHeader{NodeId: dir}
	var out fuse.EntryOut
	var s fuse.Status
	what := ""
	switch r.IntN(17) {
	case 0, 1, 2, 3:
		what, s = "lookup", t.Lookup(nil, &in, name, &out)
		if s == fuse.OK {
			found(&out)
		}
	case 4:
		what, s = "mkdir", t.Mkdir(nil, &fuse.MkdirIn{InHeader: in, Mode: 0o755}, name, &out)
		if s == fuse.OK {
			found(&out)
		}
	case 5:
		mode := pick[uint32](r, unix.S_IFREG, unix.S_IFIFO, unix.S_IFSOCK, unix.S_IFCHR, 0)
		what, s = fmt.Sprintf("mknod %o", mode), t.Mknod(nil, &fuse.MknodIn{InHeader: in, Mode: mode | 0o644}, name, &out)
		if s == fuse.OK {
			found(&out)
		}
	case 6:
		what, s = "symlink", t.Symlink(nil, &in, pick(r, "../rep/.git", ".git", "/nowhere"), name, &out)
	case 7:
		var made fuse.CreateOut
		what, s = "create", t.Create(nil, &fuse.CreateIn{InHeader: in, Mode: 0o644, Flags: pick[uint32](r, unix.O_RDWR, unix.O_RDWR|unix.O_TRUNC, unix.O_EXCL)}, name, &made)
		if s == fuse.OK {
			found(&made.EntryOut)
		}
	case 8:
		what, s = "link", t.Link(nil, &fuse.LinkIn{InHeader: in, Oldnodeid: file}, name, &out)
		if s == fuse.OK {
			found(&out)
		}
	case 9, 10, 11:
		flags := pick[uint32](r, 0, 0, unix.RENAME_NOREPLACE, unix.RENAME_EXCHANGE)
		what, s = fmt.Sprintf("rename %d", flags), t.Rename(nil, &fuse.RenameIn{InHeader: in, Newdir: dir2, Flags: flags}, name, name2)
	case 12:
		what, s = "unlink", t.Unlink(nil, &in, name)
	case 13:
		what, s = "rmdir", t.Rmdir(nil, &in, name)
	case 14:
		_, s = t.Write(nil, &fuse.WriteIn{InHeader: fuse.InHeader{NodeId: file}, Flags: pick[uint32](r, 0, unix.O_APPEND)}, []byte("WRITTEN"))
		what = "write"
	case 15:
		set := fuse.SetAttrIn{SetAttrInCommon: fuse.SetAttrInCommon{InHeader: fuse.InHeader{NodeId: pick(r, dir, file)}, Valid: pick[uint32](r, fuse.FATTR_MODE, fuse.FATTR_SIZE, fuse.FATTR_MTIME_NOW|fuse.FATTR_MTIME), Mode: 0o700}}
		what, s = "setattr", t.SetAttr(nil, &set, new(fuse.AttrOut))
	case 16:
		list := fuse.NewDirEntryList(make([]byte, 4096), 0)
		what, s = "list", t.ReadDirPlus(nil, &fuse.ReadIn{InHeader: in}, list)
	}
	place := func(id uint64) string {
		if n := t.table.get(id); n != nil {
			return fmt.Sprintf("%q", t.table.path(n, ""))
		}
		return "unknown"
	}
	return fmt.Sprintf("%s %q in %s (%q in %s; %s): %v", what, name, place(dir), name2, place(dir2), place(file), s)
}

// setRules replaces the rules at random.
func (b *gitBox) setRules(r *rand.Rand) string {
	n := r.IntN(len(b.rules))
	(&Server{tree: b.tree}).SetRules(b.rules[n])
	return fmt.Sprint("rules ", n)
}

// hostStep has the host move directories and files about, through no link: no git directory
// appears or goes by that.
func (w *gitWorld) hostStep(r *rand.Rand) string {
	open := func() (dir int, at string) {
		at = pick(r, ".", "a", "b", "rep", "deep", "deep/er", "nearly")
		dir, err := beneath.Open(w.root, at, unix.O_PATH|unix.O_DIRECTORY, 0)
		if err != nil {
			dir = -1
		}
		return dir, at
	}
	name := func() string { return pick(r, "a", "b", "c", "f", "x", "rep", "deep", "er") }
	from, at := open()
	defer unix.Close(from)
	to, at2 := open()
	defer unix.Close(to)
	a, b := name(), name()
	var err error
	what := ""
	switch r.IntN(4) {
	case 0:
		what, err = "mkdir", unix.Mkdirat(from, a, 0o755)
	case 1:
		what, err = "rename", unix.Renameat(from, a, to, b)
	case 2:
		what, err = "exchange", unix.Renameat2(from, a, to, b, unix.RENAME_EXCHANGE)
	default:
		what, err = "rmdir", unix.Unlinkat(from, a, unix.AT_REMOVEDIR)
	}
	return fmt.Sprintf("the host's %s %q in %q (%q in %q): %v", what, a, at, b, at2, err)
}

// Whatever two sandboxes ask, and the host does at the same time, while the rules change: the host
// gets no git directory that it had not, by no name, and the ones that it has stay as they are.
func TestNoGitOnTheHost(t *testing.T) {
	rounds := number(t, "WOLFFIA_ROUNDS", uint64(testenv.Some(30)))
	first := number(t, "WOLFFIA_SEED", 0)
	if first != 0 {
		rounds = 1
	} else {
		first = 1
	}
	done := 0
	for seed := first; seed < first+rounds; seed++ {
		w := newGitWorld(t)
		r := rand.New(rand.NewPCG(seed, 8))
		var story []string
		for range 1200 {
			var did string
			box := r.IntN(2)
			switch c := r.IntN(100); {
			case c < 2:
				did = w.boxes[box].setRules(r)
			case c < 7:
				did = w.hostStep(r)
			default:
				did = w.boxes[box].step(r)
			}
			if strings.HasSuffix(did, "OK") {
				done++
			}
			story = append(story, fmt.Sprint(box, ": ", did))
			if err := w.check(); err != nil {
				t.Fatalf("seed %d: %v\nafter\n%s", seed, err, strings.Join(story[max(0, len(story)-60):], "\n"))
			}
		}
	}
	if done == 0 {
		t.Error("nothing was done")
	}
	t.Logf("%d requests were granted", done)
}

// The same with all at once.
func TestNoGitOnTheHostAtOnce(t *testing.T) {
	w := newGitWorld(t)
	end := time.Now().Add(raceTime(t))
	var group sync.WaitGroup
	var found error
	var once sync.Once
	for i := range 7 {
		group.Go(func() {
			r := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), uint64(i)))
			for time.Now().Before(end) {
				switch i {
				case 0:
					w.hostStep(r)
				case 1:
					if err := w.check(); err != nil {
						// What moves while it is looked at can be seen by halves; what is there
						// stays.
						time.Sleep(0)
						once.Do(func() { found = err })
					}
				case 2:
					w.boxes[r.IntN(2)].setRules(r)
				default:
					w.boxes[i%2].step(r)
				}
			}
		})
	}
	group.Wait()
	if err := w.check(); err != nil {
		t.Errorf("check: got %v, want nil", err)
	} else if found != nil {
		t.Logf("seen meanwhile, and not at the end: %v", found)
	}
}

var _ GitHost = (*gitcopy.Copier)(nil)
