package fusefs

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"wolffia/internal/test/testenv"
	"wolffia/perm"
)

// The model implements the documented levels for each operation on a plain directory, which is
// kept equal to the one behind the mount. It shares no code with the server. Package perm is the
// oracle of levels: its own tests compare it with a slow reading of the patterns.
//
//	WOLFFIA_SEED=17 go test -run TestModel ./fusefs      that round only
//	WOLFFIA_ROUNDS=5000 go test -run TestModel ./fusefs  more of them
func TestModel(t *testing.T) { testModel(t, false, 40) }

// TestCopiedModel is cow.md's acceptance test 3: a copied tree refuses the same, nothing gets into
// the upper layer that the rules did not allow, and the host's directory stays as it is.
func TestCopiedModel(t *testing.T) { testModel(t, true, uint64(testenv.Some(60))) }

func testModel(t *testing.T, copied bool, rounds uint64) {
	first, rounds := uint64(1), number(t, "WOLFFIA_ROUNDS", rounds)
	if seed := number(t, "WOLFFIA_SEED", 0); seed != 0 {
		first, rounds = seed, 1
	}
	for seed := first; seed < first+rounds; seed++ {
		rules := modelRules(rand.New(rand.NewPCG(seed, 5)))
		policy, err := perm.Compile(rules)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		t.Run(fmt.Sprintf("Seed%06d", seed), func(t *testing.T) {
			mounted(t, setup{
				Policy: rules, Timeout: time.Hour, Copied: copied,
				Host: func(t *testing.T, dir string) {
					plantModel(t, dir, seed, !copied)
					plantModel(t, filepath.Join(filepath.Dir(dir), "plain"), seed, !copied)
				},
			}, func(t *testing.T, c *client) {
				m := &model{copied: copied, policy: policy, mount: c.dir, host: c.host, plain: filepath.Join(filepath.Dir(c.host), "plain")}
				before := picture(t, c.host)
				r := rand.New(rand.NewPCG(seed, 6))
				for i := 0; i < 400 && !t.Failed(); i++ {
					m.step(t, r)
				}
				if copied {
					m.checkUpper(t, c)
					if picture(t, c.host) != before {
						t.Error("the host's directory has changed")
					}
				} else {
					m.compare(t, "")
				}
				if t.Failed() {
					t.Logf("seed %d, rules %v\n%s", seed, rules, strings.Join(m.story[max(0, len(m.story)-20):], "\n"))
				}
			})
		})
	}
}

// modelRules makes a base that allows much and rules that take or give.
func modelRules(r *rand.Rand) []perm.Rule {
	rules := []perm.Rule{{Pattern: "**", Level: pick(r, perm.Write, perm.Write, perm.Write, perm.Read, perm.View)}}
	for range 1 + r.IntN(5) {
		var parts []string
		for n := 1 + r.IntN(3); n > 0; n-- {
			parts = append(parts, pick(r, "a", "b", "c", "d", "e", "*", "[ab]", "?", "{c,d}", "**", "[!a]"))
		}
		if len(parts) > 1 && parts[len(parts)-1] == "**" {
			parts[len(parts)-1] = "c"
		}
		p := strings.Join(parts, "/")
		if chance(r, 50) && parts[0] != "**" {
			p = "/" + p
		}
		rule := perm.Rule{Pattern: p, Level: perm.Levels()[r.IntN(len(perm.Levels()))], Priority: 1 + r.IntN(3), Type: perm.Kind(r.IntN(3))}
		if p == "**" || strings.HasSuffix(p, "**") {
			rule.Type = perm.Glob
		}
		if _, err := perm.Compile([]perm.Rule{rule}); err != nil {
			continue
		}
		rules = append(rules, rule)
	}
	return rules
}

var modelNames = []string{"a", "b", "c", "d", "e"}

// plantModel fills dir with files and directories, and a few links between
// names of different levels.
func plantModel(t *testing.T, dir string, seed uint64, links bool) {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 7))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	var files []string
	var fill func(rel string, depth int)
	fill = func(rel string, depth int) {
		for _, name := range modelNames {
			p := filepath.Join(rel, name)
			full := filepath.Join(dir, p)
			var err error
			switch c := r.IntN(10); {
			case c < 3 && depth < 3:
				if err = os.Mkdir(full, 0o755); err == nil {
					fill(p, depth+1)
				}
			case c < 6:
				err = os.WriteFile(full, []byte("content of "+p), 0o644)
				files = append(files, full)
			case c < 7:
				err = os.Symlink(pick(r, "a", "b/c", "nowhere"), full)
			case c < 8 && len(files) > 0 && links:
				err = os.Link(files[r.IntN(len(files))], full)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	fill("", 0)
}

type model struct {
	copied             bool
	policy             *perm.Policy
	mount, host, plain string
	story              []string
}

// checkUpper checks that each name in the upper layer may be written, but for directories, which
// are on the way to others.
func (m *model) checkUpper(t *testing.T, c *client) {
	err := filepath.WalkDir(c.upper(""), func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		p, err := filepath.Rel(c.upper(""), path)
		if err != nil || p == "." || d.IsDir() && m.level(p, true) > perm.None {
			return err
		}
		level := m.level(p, d.IsDir())
		if d.Type()&os.ModeCharDevice != 0 { // deleted: a file or a directory, which was elsewhere if one above was moved
			level = max(level, m.level(p, true))
		}
		if level < perm.Write {
			t.Errorf("the upper layer has %s, whose level is %v", p, level)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// kind returns the type of what the plain directory has at p, 0 for nothing.
func (m *model) kind(p string) uint32 {
	var st unix.Stat_t
	if unix.Lstat(filepath.Join(m.plain, p), &st) != nil {
		return 0
	}
	return st.Mode & unix.S_IFMT
}

func (m *model) isDir(p string) bool { return p == "" || m.kind(p) == unix.S_IFDIR }

// level returns the level of p for the object that exists, or would exist.
func (m *model) level(p string, dir bool) perm.Level { return m.policy.Level(p, dir) }

// visible reports whether something is at p that may be seen.
func (m *model) visible(p string) bool {
	k := m.kind(p)
	return k != 0 && m.level(p, k == unix.S_IFDIR) > perm.None
}

// state returns the state inside the directory p.
func (m *model) state(p string) perm.State {
	s := m.policy.Root()
	for _, name := range strings.Split(p, "/") {
		if p != "" {
			s = m.policy.Enter(s, name)
		}
	}
	return s
}

// locked reports whether no name at all can be made in the directory p, so that its mode shows it.
func (m *model) locked(p string) bool {
	l, ok := m.policy.Constant(m.state(p))
	return ok && l < perm.Write
}

func parent(p string) string {
	return strings.TrimSuffix(p[:strings.LastIndexByte(p, '/')+1], "/")
}

// reach returns what leads to p: 0, or why nothing does. Paths of links are
// not used.
func (m *model) reach(p string) (errno syscall.Errno, ok bool) {
	names := strings.Split(p, "/")
	for i := 1; i < len(names); i++ {
		up := strings.Join(names[:i], "/")
		switch k := m.kind(up); {
		case k == unix.S_IFLNK:
			return 0, false
		case !m.visible(up):
			return unix.ENOENT, true
		case k != unix.S_IFDIR:
			return unix.ENOTDIR, true
		}
	}
	return 0, true
}

// make returns the errno of making a name, 0 if the rules allow it.
func (m *model) make(p string, dir bool) syscall.Errno {
	switch k := m.kind(p); {
	case m.visible(p):
		return unix.EEXIST
	case m.locked(parent(p)), m.level(p, dir) < perm.Write, k != 0:
		return unix.EACCES
	}
	return 0
}

// remove returns the errno of removing the name p, 0 if the rules allow it.
func (m *model) remove(p string) syscall.Errno {
	switch {
	case !m.visible(p):
		return unix.ENOENT
	case m.locked(parent(p)):
		return unix.EACCES
	}
	return 0
}

// somewhere returns a path, more often of an existing object.
func (m *model) somewhere(r *rand.Rand) string {
	p := ""
	for depth := range 5 {
		name := pick(r, modelNames...)
		if m.isDir(p) && chance(r, 75) {
			if there, _ := readNames(filepath.Join(m.plain, p)); len(there) > 0 {
				name = pick(r, there...)
			}
		}
		p = filepath.Join(p, name)
		if depth > 0 && chance(r, 40) || depth == 0 && chance(r, 15) {
			break
		}
		if m.kind(p) != unix.S_IFDIR && chance(r, 85) {
			break
		}
	}
	return p
}

// step does one operation. If the rules refuse it, it must fail with the model's errno and change
// nothing; else it must have the result of the plain directory.
func (m *model) step(t *testing.T, r *rand.Rand) {
	t.Helper()
	p, q := m.somewhere(r), m.somewhere(r)
	errno, ok := m.reach(p)
	if !ok {
		return
	}
	o := modelOps[r.IntN(len(modelOps))]
	want := errno
	if o.two {
		// link looks the first path up, then the directory of the second;
		// rename both directories first.
		errno2, ok := m.reach(q)
		if !ok || strings.HasPrefix(q+"/", p+"/") || strings.HasPrefix(p+"/", q+"/") {
			return
		}
		if want == 0 && o.first && !m.visible(p) {
			want = unix.ENOENT
		}
		if want == 0 {
			want = errno2
		}
		if want == 0 && !m.visible(p) {
			want = unix.ENOENT
		}
	}
	if want == 0 {
		want = o.rules(m, p, q)
	}
	if want == 0 && o.alters {
		m.part(t, p)
	}
	text, err := o.do(m.mount, p, q)
	got := errnoIn(err)
	if got != 0 {
		text = ""
	}
	expect := ""
	if want == 0 {
		expect, err = o.do(m.plain, p, q)
		want = errnoIn(err)
		if expect = m.filter(o.name, p, expect); want != 0 {
			expect = ""
		}
	}
	if o.also != nil && got != want {
		switch other, is := o.also(m, p, q); {
		case !is || got != other:
		case got == 0:
			expect, err = o.do(m.plain, p, q)
			want = errnoIn(err)
		default:
			got = want // both reasons hold
		}
	}
	m.story = append(m.story, fmt.Sprintf("%s %q %q: %v %s", o.name, p, q, got, text))
	if got != want || text != expect {
		t.Errorf("%s %q %q (levels: file %v %v, directory %v %v): got %v %s, want %v %s", o.name, p, q,
			m.level(p, false), m.level(q, false), m.level(p, true), m.level(q, true), got, text, want, expect)
	}
}

// part does to the plain directory what is done to a file before it is changed, if it
// has a name that may not be written: it gets a copy. The mount knows all names that can
// be known then.
func (m *model) part(t *testing.T, p string) {
	t.Helper()
	full := filepath.Join(m.plain, p)
	var st, other unix.Stat_t
	if unix.Lstat(full, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFREG || st.Nlink == 1 {
		return
	}
	out := false
	err := filepath.WalkDir(m.plain, func(path string, _ os.DirEntry, err error) error {
		if err != nil || unix.Lstat(path, &other) != nil || other.Ino != st.Ino {
			return err
		}
		rel, _ := filepath.Rel(m.plain, path)
		if errno, ok := m.reach(rel); !ok || errno != 0 || m.level(rel, false) < perm.Write {
			out = true
		}
		_ = unix.Lstat(filepath.Join(m.mount, rel), &other)
		return nil
	})
	if err == nil && out {
		var data []byte
		if data, err = os.ReadFile(full); err == nil {
			err = errors.Join(os.WriteFile(full+".part", data, 0o600), os.Chmod(full+".part", os.FileMode(st.Mode&0o777)), os.Rename(full+".part", full))
		}
	}
	if err != nil {
		t.Fatal(err)
	}
}

// filter takes out of a listing what is hidden.
func (m *model) filter(op, p, text string) string {
	if op != "list" {
		return text
	}
	names := strings.Fields(text)
	return strings.Join(slices.DeleteFunc(names, func(n string) bool { return !m.visible(p + "/" + n) }), " ")
}

// A modelOp is an operation and its errno by the rules, 0 if the file system decides.
type modelOp struct {
	name   string
	two    bool // it takes two paths
	first  bool // the first is looked up before the second
	alters bool // it changes the file at the path
	rules  func(m *model, p, q string) syscall.Errno
	do     func(root, p, q string) (string, error)
	also   func(m *model, p, q string) (errno syscall.Errno, is bool) // an answer that is right too, if there is one
}

func needs(l perm.Level) func(*model, string, string) syscall.Errno {
	return func(m *model, p, _ string) syscall.Errno {
		switch k := m.kind(p); {
		case !m.visible(p):
			return unix.ENOENT
		case k == unix.S_IFLNK:
			return 0 // no operation here follows one: ELOOP
		case k != unix.S_IFDIR && m.level(p, false) < l:
			return unix.EACCES
		}
		return 0
	}
}

// changes is for what changes an object: a directory's attributes too need
// write.
func changes(m *model, p, _ string) syscall.Errno {
	switch {
	case !m.visible(p):
		return unix.ENOENT
	case m.level(p, m.isDir(p)) < perm.Write:
		return unix.EACCES
	}
	return 0
}

func open(root, p string, flags int) (int, error) {
	return unix.Open(filepath.Join(root, p), flags|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0o644)
}

var modelOps = []modelOp{
	{name: "stat", rules: needs(perm.View), do: func(root, p, _ string) (string, error) {
		var st unix.Stat_t
		err := unix.Lstat(filepath.Join(root, p), &st)
		size := st.Size
		if st.Mode&unix.S_IFMT == unix.S_IFDIR {
			size = 0
		}
		return fmt.Sprintf("%o %d", st.Mode&unix.S_IFMT, size), err
	}},
	{name: "list", rules: needs(perm.View), do: func(root, p, _ string) (string, error) {
		fd, err := open(root, p, unix.O_RDONLY|unix.O_DIRECTORY)
		if err != nil {
			return "", err
		}
		defer unix.Close(fd)
		names, err := readNames(fmt.Sprintf("/proc/self/fd/%d", fd))
		return strings.Join(names, " "), err
	}},
	{name: "read", rules: needs(perm.Read), do: func(root, p, _ string) (string, error) {
		fd, err := open(root, p, unix.O_RDONLY)
		if err != nil {
			return "", err
		}
		defer unix.Close(fd)
		buf := make([]byte, 1000)
		n, err := unix.Read(fd, buf)
		return fmt.Sprintf("%q", buf[:max(n, 0)]), err
	}},
	{name: "readlink", rules: func(m *model, p, q string) syscall.Errno {
		if m.visible(p) && m.kind(p) == unix.S_IFLNK && m.level(p, false) < perm.Read {
			return unix.EACCES
		}
		return needs(perm.View)(m, p, q)
	}, do: func(root, p, _ string) (string, error) { return os.Readlink(filepath.Join(root, p)) }},
	{name: "write", alters: true, rules: needs(perm.Write), do: func(root, p, _ string) (string, error) {
		fd, err := open(root, p, unix.O_WRONLY|unix.O_APPEND)
		if err != nil {
			return "", err
		}
		defer unix.Close(fd)
		_, err = unix.Write(fd, []byte(" more"))
		return "", err
	}},
	{name: "create", alters: true, rules: func(m *model, p, q string) syscall.Errno {
		if m.visible(p) {
			return needs(perm.Write)(m, p, q)
		}
		return m.make(p, false)
	}, do: func(root, p, _ string) (string, error) {
		fd, err := open(root, p, unix.O_WRONLY|unix.O_CREAT|unix.O_TRUNC)
		if err == nil {
			unix.Write(fd, []byte("created"))
			unix.Close(fd)
		}
		return "", err
	}},
	{
		name: "truncate", alters: true, rules: func(m *model, p, q string) syscall.Errno {
			if m.visible(p) && m.kind(p) == unix.S_IFLNK {
				return unix.ELOOP
			}
			return needs(perm.Write)(m, p, q)
		},
		do: func(root, p, _ string) (string, error) {
			var st unix.Stat_t
			full := filepath.Join(root, p)
			if err := unix.Lstat(full, &st); err == nil && st.Mode&unix.S_IFMT == unix.S_IFLNK {
				return "", unix.ELOOP
			}
			return "", unix.Truncate(full, 5)
		},
	},
	{name: "chmod", alters: true, rules: func(m *model, p, q string) syscall.Errno {
		if m.visible(p) && m.kind(p) == unix.S_IFLNK {
			return unix.ELOOP
		}
		return changes(m, p, q)
	}, do: func(root, p, _ string) (string, error) {
		var st unix.Stat_t
		full := filepath.Join(root, p)
		if err := unix.Lstat(full, &st); err != nil {
			return "", err
		} else if st.Mode&unix.S_IFMT == unix.S_IFLNK {
			return "", unix.ELOOP
		}
		return "", unix.Chmod(full, 0o751)
	}},
	{name: "utimes", alters: true, rules: changes, do: func(root, p, _ string) (string, error) {
		return "", unix.UtimesNanoAt(unix.AT_FDCWD, filepath.Join(root, p), []unix.Timespec{{Sec: 7}, {Sec: 7}}, unix.AT_SYMLINK_NOFOLLOW)
	}},
	{
		name: "mkdir", rules: func(m *model, p, _ string) syscall.Errno { return m.make(p, true) },
		do: func(root, p, _ string) (string, error) { return "", unix.Mkdir(filepath.Join(root, p), 0o755) },
	},
	{
		name: "mkfifo", rules: func(m *model, p, _ string) syscall.Errno { return m.make(p, false) },
		do: func(root, p, _ string) (string, error) { return "", unix.Mkfifo(filepath.Join(root, p), 0o644) },
	},
	{
		name: "symlink", rules: func(m *model, p, _ string) syscall.Errno { return m.make(p, false) },
		do: func(root, p, _ string) (string, error) { return "", unix.Symlink("nowhere", filepath.Join(root, p)) },
	},
	{name: "unlink", rules: func(m *model, p, _ string) syscall.Errno {
		if e := m.remove(p); e != 0 {
			return e
		}
		if m.isDir(p) {
			return unix.EISDIR
		}
		if m.level(p, false) < perm.Write {
			return unix.EACCES
		}
		return 0
	}, do: func(root, p, _ string) (string, error) { return "", unix.Unlink(filepath.Join(root, p)) }},
	{name: "rmdir", rules: func(m *model, p, _ string) syscall.Errno {
		if e := m.remove(p); e != 0 {
			return e
		}
		if !m.isDir(p) {
			return unix.ENOTDIR
		}
		if m.level(p, true) < perm.Write {
			return unix.EACCES
		}
		return 0 // ENOTEMPTY also for what is hidden: the plain directory says so
	}, do: func(root, p, _ string) (string, error) { return "", unix.Rmdir(filepath.Join(root, p)) }},
	{name: "link", two: true, first: true, rules: func(m *model, p, q string) syscall.Errno {
		switch e := m.make(q, false); {
		case e == unix.EEXIST:
			return e
		case m.locked(parent(q)):
			return unix.EACCES
		case m.isDir(p):
			return unix.EPERM
		case m.level(p, false) < perm.Write:
			return unix.EACCES
		default:
			return e
		}
	}, do: func(root, p, q string) (string, error) {
		return "", unix.Link(filepath.Join(root, p), filepath.Join(root, q))
	}, also: func(m *model, p, _ string) (syscall.Errno, bool) { return unix.EPERM, m.isDir(p) }},
	{name: "rename", two: true, rules: renameRules, do: func(root, p, q string) (string, error) {
		return "", unix.Rename(filepath.Join(root, p), filepath.Join(root, q))
	}, also: moveAlso(false)},
	{name: "exchange", two: true, rules: func(m *model, p, q string) syscall.Errno {
		if !m.visible(q) {
			return unix.ENOENT
		}
		if m.locked(parent(p)) || m.locked(parent(q)) {
			return unix.EACCES
		}
		return moveRules(m, p, q, true)
	}, do: func(root, p, q string) (string, error) {
		return "", unix.Renameat2(unix.AT_FDCWD, filepath.Join(root, p), unix.AT_FDCWD, filepath.Join(root, q), unix.RENAME_EXCHANGE)
	}, also: moveAlso(true)},
}

func renameRules(m *model, p, q string) syscall.Errno {
	if m.locked(parent(p)) || m.locked(parent(q)) {
		return unix.EACCES
	}
	if m.visible(q) && m.isDir(p) != m.isDir(q) {
		return 0 // EISDIR or ENOTDIR
	}
	return moveRules(m, p, q, false)
}

// moveRules asks for write at both names for whatever lies there before or
// after, and that a directory's rules stay the same.
func moveRules(m *model, p, q string, swap bool) syscall.Errno {
	if errno := moveLevels(m, p, q); errno != 0 {
		return errno
	}
	return moveStates(m, p, q, swap)
}

// moveAlso is the answer if the object that moveRules takes for another's is the sandbox's own,
// which the model does not know.
func moveAlso(swap bool) func(m *model, p, q string) (syscall.Errno, bool) {
	return func(m *model, p, q string) (syscall.Errno, bool) {
		return moveStates(m, p, q, swap), !m.locked(parent(p)) && !m.locked(parent(q)) && moveLevels(m, p, q) == 0
	}
}

func moveLevels(m *model, p, q string) syscall.Errno {
	there := m.kind(q) != 0
	for _, dir := range []bool{m.isDir(p), m.isDir(q)} {
		if m.level(p, dir) < perm.Write || m.level(q, dir) < perm.Write {
			return unix.EACCES
		}
		if !there {
			break
		}
	}
	return 0
}

// moveStates is about directories and, in a direct tree, exchanges, into which another sandbox
// could bring directories.
func moveStates(m *model, p, q string, swap bool) syscall.Errno {
	alike := m.state(p) == m.state(q)
	for _, dir := range []bool{false, true} {
		alike = alike && (m.copied || m.level(p, dir) == m.level(q, dir))
	}
	if (m.isDir(p) || m.kind(q) != 0 && m.isDir(q) || swap && !m.copied) && !alike && (swap || m.copied || !m.transplants(p, q)) {
		return unix.EXDEV
	}
	return 0
}

// transplants reports whether the directory p can be made anew as q, where other rules hold.
func (m *model) transplants(p, q string) bool {
	err := filepath.WalkDir(filepath.Join(m.plain, p), func(at string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if info, err := e.Info(); err != nil || e.IsDir() && info.Mode()&0o700 != 0o700 {
			return unix.EXDEV
		}
		rel, err := filepath.Rel(filepath.Join(m.plain, p), at)
		if rel != "." && m.level(filepath.Join(p, rel), e.IsDir()) != m.level(filepath.Join(q, rel), e.IsDir()) {
			return unix.EXDEV
		}
		return err
	})
	return m.kind(q) == 0 && err == nil
}

// compare makes sure that what is behind the mount is what the plain directory
// is, and that the mount shows of it what may be seen.
func (m *model) compare(t *testing.T, rel string) {
	t.Helper()
	look := func(root string) (string, []string) {
		var st unix.Stat_t
		p := filepath.Join(root, rel)
		if err := unix.Lstat(p, &st); err != nil {
			return err.Error(), nil
		}
		text := fmt.Sprintf("%o %d links", st.Mode, st.Nlink)
		switch st.Mode & unix.S_IFMT {
		case unix.S_IFREG:
			data, err := os.ReadFile(p)
			text += fmt.Sprintf(" %q %v", data, err)
		case unix.S_IFLNK:
			to, _ := os.Readlink(p)
			text += " to " + to
		case unix.S_IFDIR:
			names, _ := readNames(p)
			return text, names
		}
		return text, nil
	}
	behind, names := look(m.host)
	plain, others := look(m.plain)
	if behind != plain || !slices.Equal(names, others) {
		t.Errorf("%q: behind the mount %s %q, in the model %s %q", rel, behind, names, plain, others)
	}
	for _, name := range names {
		m.compare(t, filepath.Join(rel, name))
	}
}
