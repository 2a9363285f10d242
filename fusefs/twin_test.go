package fusefs

import (
	"bytes"
	"encoding/gob"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"wolffia/internal/test/testenv"
	"wolffia/perm"
)

// The twins are a mount on which everything may be written and a plain
// directory beside the one behind the mount. Random actions of several
// processes, one after the other, must give the same results on both, and
// leave the same trees.
//
//	WOLFFIA_SEED=17 go test -run TestTwins ./fusefs      that round only
//	WOLFFIA_ROUNDS=5000 go test -run TestTwins ./fusefs  more of them

// A difference is what a mount does differently on purpose. Those without is
// are kept apart by what the actions do.
type difference struct {
	what, why string
	is        func(a *action, mount, plain result) bool
}

var differences = []difference{
	{
		"O_TMPFILE is refused", "a file without a name would have no level until it is linked",
		func(a *action, mount, plain result) bool {
			return a.Do == "tmpfile" && mount.Errno == unix.EOPNOTSUPP && plain.Errno == 0
		},
	},
	{
		"positions in a directory of a copied mount are small numbers", "they outlive the file system that the names are on",
		func(a *action, mount, plain result) bool {
			return mount.Errno == unix.EISDIR && plain.Errno == unix.EINVAL || a.Do == "seek" && mount.Errno == 0 && plain.Errno == unix.EINVAL
		},
	},
	{
		"what is private and what the host has are different files", "they are in different directories",
		func(a *action, mount, plain result) bool {
			return mount.Errno == unix.EXDEV && plain.Errno == unix.EXDEV
		},
	},
	{"the times and the links of a directory with a private .git", "the host's directory has none", nil},
	{"the links of a directory of a copied mount", "it has two halves", nil},
	{"set-id bits are neither shown nor set", "they would lend the server's user", nil},
	{"the names of one file share no mapping, lock or FIFO", "the rules are about names, so that each is an inode to the kernel", nil},
	{"numbers of inodes are the host's, that of the device is not", "it is a mount", nil},
	{"the time of access is late", "reading from the kernel's cache asks no server", nil},
	{"writing to a FIFO does not change its times", "the kernel does that by itself", nil},
	{"O_DIRECT takes what is not aligned", "the server reads and writes through the cache", nil},
	{"where data lies in room that was reserved", "the backing file system tells by what is in its own cache", nil},
	{"fallocate does not collapse or insert", "the kernel does not pass it on", nil},
	{"modes bind a server that is not root: it may not reach what is open", "it keeps some descriptors and finds the others again by their names", nil},
	{"the links and the size of a directory that could hold something hidden", "they would count it", nil},
	{"no extended attributes", "they would carry access lists and capabilities past the rules", nil},
}

const workerEnv = "WOLFFIA_FUSEFS_WORKER" // the directory in which all happens

func TestTwins(t *testing.T) {
	testenv.Both(t)
	user := !rootServes()
	t.Run("LongTimeout", func(t *testing.T) {
		twins(t, setup{Timeout: time.Hour}, menu{search: user})
	})
	t.Run("FewDescriptors", func(t *testing.T) {
		twins(t, setup{Timeout: time.Millisecond, FDs: 16, NoWatch: true}, menu{search: user})
	})
	t.Run("Hiding", func(t *testing.T) {
		twins(t, setup{Timeout: time.Hour}, menu{hiding: true, search: user})
	})
	t.Run("Links", func(t *testing.T) {
		twins(t, setup{Timeout: time.Hour, FDs: 16}, menu{links: true, search: user})
	})
	t.Run("GitLong", func(t *testing.T) {
		twins(t, setup{Git: true, Timeout: time.Hour, FDs: 1 << 10}, menu{git: true, search: user})
	})
	t.Run("GitShort", func(t *testing.T) {
		twins(t, setup{Git: true, Timeout: time.Millisecond, FDs: 16, NoWatch: true}, menu{git: true, search: user})
	})
	t.Run("GitLinked", func(t *testing.T) {
		twins(t, setup{Git: true, Timeout: time.Hour, FDs: 16}, menu{git: true, links: true, search: user})
	})
}

// TestCopiedTwins is cow.md's acceptance test 2: a copied mount is as a plain directory, and
// leaves the host's directory as it was.
func TestCopiedTwins(t *testing.T) {
	testenv.Both(t)
	user := !rootServes()
	const some = 1 << 10 // four servers share the limit of this process, and a directory has two halves
	t.Run("LongTimeout", func(t *testing.T) {
		twins(t, setup{Copied: true, Timeout: time.Hour, FDs: some}, menu{copied: true, search: user})
	})
	t.Run("FewDescriptors", func(t *testing.T) {
		twins(t, setup{Copied: true, Timeout: time.Millisecond, FDs: 16, NoWatch: true}, menu{copied: true, search: user})
	})
	t.Run("Borrowing", func(t *testing.T) {
		twins(t, setup{Copied: true, Borrow: true, Timeout: time.Hour, FDs: 16}, menu{copied: true, search: user})
	})
	t.Run("Hiding", func(t *testing.T) {
		twins(t, setup{Copied: true, Timeout: time.Hour, FDs: some}, menu{copied: true, hiding: true, search: user})
	})
}

// rootServes reports whether the tree is served by root, in the child as well.
func rootServes() bool {
	data, err := os.ReadFile("/proc/self/uid_map")
	fields := strings.Fields(string(data))
	return err == nil && len(fields) == 3 && fields[1] == "0" && (fields[0] != "0" || os.Geteuid() == 0)
}

func twins(t *testing.T, s setup, m menu) {
	if base := os.Getenv(workerEnv); base != "" {
		beWorker(t, base)
		return
	}
	t.Parallel()
	s.Policy = []perm.Rule{{Pattern: "**", Level: perm.Write}}
	if m.hiding {
		s.Policy = append(s.Policy, perm.Rule{Pattern: "secret", Level: perm.None, Priority: 1})
	}
	first, rounds := uint64(1), number(t, "WOLFFIA_ROUNDS", uint64(testenv.Some(70)))
	if seed := number(t, "WOLFFIA_SEED", 0); seed != 0 {
		first, rounds = seed, 1
	}
	const most = 500 // of one mount, which lives for a limited time
	for ; rounds > most; first, rounds = first+most, rounds-most {
		t.Run(fmt.Sprintf("From%06d", first), func(t *testing.T) { play(t, s, m, first, most) })
	}
	t.Run(fmt.Sprintf("From%06d", first), func(t *testing.T) { play(t, s, m, first, rounds) })
}

// play does some rounds on one mount.
func play(t *testing.T, s setup, m menu, first, rounds uint64) {
	mounted(t, s, func(t *testing.T, c *client) {
		p := &pair{
			base: filepath.Dir(c.host), mount: c.dir, host: c.host, plain: filepath.Join(filepath.Dir(c.host), "plain"),
			menu: m, seen: map[string]int{},
		}
		if err := os.Mkdir(p.plain, 0o755); err != nil {
			t.Fatal(err)
		}
		for i := range workers {
			p.mounted[i], p.local[i] = startWorker(t, p.base), startWorker(t, p.base)
		}
		for seed := first; seed < first+rounds; seed++ {
			as := actions(seed, p.menuOf(seed), 300)
			at, why := p.play(t, seed, as)
			if why == "" {
				continue
			}
			story := strings.Join(p.story[max(0, len(p.story)-40):], "\n")
			fewer, last := p.shrink(t, seed, as[:min(at+1, len(as))])
			if last == "" {
				t.Fatalf("seed %d: %s\nIt does not happen again: it is a matter of time. What came before:\n%s", seed, why, story)
			}
			for _, a := range fewer {
				last += "\n" + a.String()
			}
			t.Fatalf("seed %d: %s\nLess does it as well: %s", seed, why, last)
		}
		t.Logf("%d rounds; %v", rounds, p.seen)
	})
}

func number(t *testing.T, env string, otherwise uint64) uint64 {
	s := os.Getenv(env)
	if s == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// A process is a worker as seen from here.
type process struct {
	in  *gob.Encoder
	out *gob.Decoder
	end *os.File
}

// startWorker starts this test again, as a worker. It ends with the test.
func startWorker(t *testing.T, base string) *process {
	t.Helper()
	theirIn, ourIn, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	ourOut, theirOut, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	cmd := exec.Command("/proc/self/exe", "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), workerEnv+"="+base)
	cmd.ExtraFiles = []*os.File{theirIn, theirOut}
	cmd.Stdout, cmd.Stderr = &said, &said
	cmd.WaitDelay = 5 * time.Second
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: clientUID, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: clientUID, HostID: os.Getgid(), Size: 1}},
		AmbientCaps: []uintptr{unix.CAP_SYS_CHROOT},
		Pdeathsig:   syscall.SIGKILL,
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	theirIn.Close()
	theirOut.Close()
	t.Cleanup(func() {
		ourIn.Close()
		ourOut.Close()
		stop := time.AfterFunc(10*time.Second, func() { cmd.Process.Kill() })
		if err := cmd.Wait(); err != nil {
			t.Errorf("a worker: %v\n%s", err, said.String())
		}
		stop.Stop()
	})
	return &process{gob.NewEncoder(ourIn), gob.NewDecoder(ourOut), ourOut}
}

// patience is how long an action may take before it counts as hanging.
const actionLimit = 20 * time.Second

// A pair is the mount and its twin, with their workers.
type pair struct {
	base               string // where they all are
	mount, host, plain string
	mounted, local     [workers]*process
	menu               menu
	rounds             int
	seen               map[string]int // differences
	story              []string       // of the last round
}

func (p *pair) menuOf(seed uint64) menu {
	m := p.menu
	m.prealloc = seed%2 == 1
	return m
}

// do does a with worker a.Who of both.
func (p *pair) do(a action) (mount, plain result) {
	x, y := p.mounted[a.Who], p.local[a.Who]
	x.end.SetReadDeadline(time.Now().Add(actionLimit))
	y.end.SetReadDeadline(time.Now().Add(actionLimit))
	if x.in.Encode(a) != nil || x.out.Decode(&mount) != nil {
		mount.Hung = true
	}
	if p.menu.git && mount.Errno == unix.EXDEV {
		return mount, mount // not done on either side
	}
	if y.in.Encode(a) != nil || y.out.Decode(&plain) != nil {
		plain.Hung = true
	}
	return mount, plain
}

// play does all actions in new directories. It returns the index of the first whose results differ,
// and how; len(as) if only the trees differ.
func (p *pair) play(t *testing.T, seed uint64, as []action) (at int, why string) {
	t.Helper()
	p.rounds++
	round := fmt.Sprint(p.rounds)
	for _, dir := range []string{p.host, p.plain} {
		plant(t, filepath.Join(dir, round), p.menu.links)
	}
	for i := range workers {
		for dir, w := range map[string]*process{"/mnt": p.mounted[i], "/plain": p.local[i]} {
			var r result
			if w.in.Encode(action{Do: "reset", A: filepath.Join(dir, round, "up/top")}) != nil || w.out.Decode(&r) != nil || r.Errno != 0 {
				t.Fatalf("seed %d: begin round %s in %s: %v; its directories are%s", seed, round, dir, r, modes(filepath.Join(p.base, dir), round, "up", "top"))
			}
		}
	}
	if p.menu.links {
		// A name that was never looked up could be one outside.
		for _, name := range []string{"/c", "/b/c", "/e"} {
			p.do(action{Do: "stat", A: name})
		}
	}
	before := ""
	if p.menu.copied {
		before = picture(t, filepath.Join(p.host, round))
	}
	e := &episode{pair: p, menu: p.menuOf(seed), begun: map[[2]int]int{}}
	at = len(as)
	p.story = nil
	for i, a := range as {
		mount, plain := p.do(a)
		if p.menu.links && a.Do == "rename" {
			// The kernel forgets a name that it takes for removed, and that exists: of a rename
			// between two names of one file.
			p.do(action{Do: "stat", Who: a.Who, A: a.A})
			p.do(action{Do: "stat", Who: a.Who, A: a.B})
		}
		p.story = append(p.story, fmt.Sprintf("%v: %v", a, mount))
		if mount.Hung || plain.Hung {
			t.Fatalf("seed %d: %v: no answer: mount %t, plain directory %t", seed, a, mount.Hung, plain.Hung)
		}
		if why = e.compare(i, &a, mount, plain); why != "" {
			at = i
			break
		}
	}
	var diffs []string
	p.compareTrees(t, round, &diffs)
	if p.menu.copied && picture(t, filepath.Join(p.host, round)) != before {
		diffs = append(diffs, "the host's directory has changed")
	}
	if why == "" && diffs != nil {
		why = "the trees differ: " + strings.Join(diffs, "; ")
	}
	return at, why
}

// modes returns the permissions of the directories on the way from dir.
func modes(dir string, names ...string) (text string) {
	for _, name := range append([]string{"."}, names...) {
		dir = filepath.Join(dir, name)
		if st, err := os.Lstat(dir); err != nil {
			text += " " + err.Error()
		} else {
			text += " " + st.Mode().String()
		}
	}
	return text
}

// plant makes the files that a round begins with.
func plant(t *testing.T, base string, links bool) {
	t.Helper()
	top := filepath.Join(base, "up/top")
	for name, content := range map[string]string{
		"c": "content of c", "a/c": strings.Repeat("0123456789abcdef", 1000), "b/d": "", "a/b/a": "deep",
	} {
		write(t, top, name, content)
	}
	err := os.Symlink("a", filepath.Join(top, "d"))
	if err == nil && links {
		err = os.Link(filepath.Join(top, "c"), filepath.Join(top, "b/c"))
	}
	if err == nil && links {
		err = os.Link(filepath.Join(top, "c"), filepath.Join(top, "e"))
	}
	if err != nil {
		t.Fatal(err)
	}
	past := []unix.Timespec{{Sec: 77}, {Sec: 77}}
	for _, name := range []string{"c", "a/c", "b/d", "a/b/a", "a/b", "a", "b"} {
		if err := unix.UtimesNanoAt(unix.AT_FDCWD, filepath.Join(top, name), past, 0); err != nil {
			t.Fatal(err)
		}
	}
}

// An episode is what happened in one round so far.
type episode struct {
	pair    *pair
	menu    menu
	touched []string       // the names, by action
	begun   map[[2]int]int // the first action of a listing, by worker and slot
}

// compare returns how two results differ, "" if they agree.
func (e *episode) compare(i int, a *action, mount, plain result) string {
	e.touched = append(e.touched, filepath.Base(a.A), filepath.Base(a.B))
	key := [2]int{a.Who, a.Slot}
	switch a.Do {
	case "dirread":
		if _, ok := e.begun[key]; !ok {
			e.begun[key] = 2 * i
		}
	case "dirend":
		since, ok := e.begun[key]
		if !ok {
			since = 2 * i
		}
		delete(e.begun, key)
		for _, r := range []*result{&mount, &plain} {
			r.Names = slices.DeleteFunc(r.Names, func(s string) bool {
				name, _, _ := strings.Cut(s, "|")
				return slices.Contains(e.touched[since:2*i], name)
			})
		}
	case "seek":
		if e.menu.prealloc && (a.Flags == unix.SEEK_DATA || a.Flags == unix.SEEK_HOLE) {
			mount.Text, plain.Text = "", "" // see differences
			mount.Errno, plain.Errno = 0, 0
		}
	}
	mount.Text, plain.Text = e.menu.told(mount.Text), e.menu.told(plain.Text)
	if mount.Errno == plain.Errno && mount.Text == plain.Text && slices.Equal(mount.Names, plain.Names) {
		return ""
	}
	for _, d := range differences {
		if d.is != nil && d.is(a, mount, plain) {
			e.pair.seen[d.what]++
			return ""
		}
	}
	return fmt.Sprintf("%v\n\tmount: %v\n\tplain: %v", *a, mount, plain)
}

// told returns the text of a result without what cannot be compared.
func (m menu) told(text string) string {
	if m.hiding || m.copied || m.git {
		text = untold.ReplaceAllString(text, "$1")
	}
	if m.git {
		text = untimed.ReplaceAllString(text, "$1")
	}
	return text
}

// untimed matches the time of a directory in which there can be a private .git.
var untimed = regexp.MustCompile(`(mode=4\d* .*?)mtime=\S+`)

// untold matches what the tree conceals of a directory that may have hidden entries.
var untold = regexp.MustCompile(`(mode=4\d* )nlink=\d+`)

// compareTrees compares the two trees and the one behind the mount, and leaves them
// so that they can be removed.
func (p *pair) compareTrees(t *testing.T, round string, diffs *[]string) {
	t.Helper()
	roots := [3]string{filepath.Join(p.mount, round), filepath.Join(p.plain, round), filepath.Join(p.host, round)}
	inodes := map[string][3]uint64{}
	var walk func(rel string)
	walk = func(rel string) {
		var texts [3]string
		var stats [3]unix.Stat_t
		for i, root := range roots {
			err := unix.Lstat(filepath.Join(root, rel), &stats[i])
			st := stats[i]
			texts[i] = fmt.Sprintf("%v mode=%o nlink=%d", err, st.Mode, st.Nlink)
			texts[i] = p.menu.told(texts[i])
		}
		for i, root := range roots[:2] {
			switch typ, mode := stats[i].Mode&unix.S_IFMT, stats[i].Mode; {
			case typ == unix.S_IFREG && mode&0o400 == 0:
				unix.Chmod(filepath.Join(root, rel), 0o600)
			case typ == unix.S_IFDIR && mode&0o700 != 0o700:
				unix.Chmod(filepath.Join(root, rel), 0o700)
			}
		}
		var names [3][]string
		for i, root := range roots {
			st, path := stats[i], filepath.Join(root, rel)
			switch st.Mode & unix.S_IFMT {
			case unix.S_IFREG:
				data, err := os.ReadFile(path)
				texts[i] += fmt.Sprintf(" size=%d mtime=%s %s %v", st.Size, moment(st.Mtim), digest(data), err != nil)
			case unix.S_IFLNK:
				to, _ := os.Readlink(path)
				texts[i] += fmt.Sprintf(" to %q", to)
			case unix.S_IFDIR:
				names[i], _ = readNames(path)
				texts[i] = p.menu.told(texts[i]+" mtime="+moment(st.Mtim)) + fmt.Sprintf(" %q", names[i])
			}
		}
		if p.menu.git && slices.Contains(names[2], gitName) {
			*diffs = append(*diffs, fmt.Sprintf("%q: the host has a .git", rel))
		}
		if p.menu.copied || p.menu.git { // see picture
			texts[2], stats[2], names[2] = texts[1], stats[1], nil
		}
		if texts[0] != texts[1] || texts[2] != texts[1] {
			*diffs = append(*diffs, fmt.Sprintf("%q\n\tmount:  %s\n\tplain:  %s\n\tbehind: %s", rel, texts[0], texts[1], texts[2]))
		}
		// What is one file on one side is one on the others.
		id := fmt.Sprint(stats[1].Ino)
		ids := [3]uint64{stats[0].Ino, stats[1].Ino, stats[2].Ino}
		if old, ok := inodes[id]; ok && old != ids {
			*diffs = append(*diffs, fmt.Sprintf("%q: not the same links", rel))
		}
		inodes[id] = ids
		var all []string
		for _, n := range names {
			all = append(all, n...)
		}
		slices.Sort(all)
		for _, name := range slices.Compact(all) {
			walk(filepath.Join(rel, name))
		}
	}
	walk("")
}

// picture returns what is at dir and below: kinds, modes, times and content.
func picture(t *testing.T, dir string) string {
	var b strings.Builder
	err := filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		var st unix.Stat_t
		if err := unix.Lstat(path, &st); err != nil {
			return err
		}
		fmt.Fprintf(&b, "%s mode=%o nlink=%d ino=%d mtime=%v ", path, st.Mode, st.Nlink, st.Ino, st.Mtim)
		switch st.Mode & unix.S_IFMT {
		case unix.S_IFREG:
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			fmt.Fprintln(&b, digest(data))
		case unix.S_IFLNK:
			to, err := os.Readlink(path)
			if err != nil {
				return err
			}
			fmt.Fprintf(&b, "%q\n", to)
		default:
			fmt.Fprintln(&b)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// shrink returns fewer actions that still give a difference, and which.
func (p *pair) shrink(t *testing.T, seed uint64, as []action) ([]action, string) {
	last := ""
	for range 5 {
		if _, last = p.play(t, seed, as); last != "" {
			break
		}
	}
	tries := 0
	for size := len(as) / 2; size > 0 && last != ""; size /= 2 {
		for i := 0; i+size <= len(as) && tries < 500; tries++ {
			fewer := slices.Concat(as[:i], as[i+size:])
			if at, why := p.play(t, seed, fewer); why != "" {
				as, last = fewer[:min(at+1, len(fewer))], why
			} else {
				i += size
			}
		}
	}
	return as, last
}
