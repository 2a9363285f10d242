package fusefs

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"wolffia/fusefs/cow"
	"wolffia/internal/git/gitguard"
	"wolffia/internal/sys/beneath"
	"wolffia/internal/test/testenv"
	"wolffia/runtime"
)

// Content of files that no diff may show: what the rules hide, and what is outside of the codebase.
const (
	hiddenCanary  = "canary: the rules hide this"
	outsideCanary = "canary: this is outside of the codebase"
)

// A reviewOrder is one use of package cow that the client asks for.
type reviewOrder struct {
	Do    string // diff, apply, dry, force or discard
	Paths []string
}

// reviewInRace does o as the tree server does. Errors belong to the race.
func reviewInRace(srv *Server, l *cow.Layers, o *reviewOrder) (r reviewResult) {
	l.BeforeRemove = func(path string) { srv.Discarded([]string{path}) }
	l.Alone = srv.Alone
	l.Moved = func() { srv.Discarded(nil) }
	var out bytes.Buffer
	_ = srv.Quiesce(func() error {
		switch o.Do {
		case "diff":
			return l.Diff(runtime.DiffOptions{Paths: o.Paths}, &out)
		case "discard":
			_, err := l.Discard(o.Paths)
			return err
		}
		done, err := l.Apply(runtime.ApplyOptions{Paths: o.Paths, DryRun: o.Do == "dry", Force: o.Do == "force"})
		if done != nil && o.Do != "dry" {
			r.Applied, r.Left = len(done.Applied), len(done.Left)
		}
		return err
	})
	for _, canary := range []string{hiddenCanary, outsideCanary} {
		if strings.Contains(out.String(), canary) {
			r.Wrong = "a diff shows it: " + out.String()
		}
	}
	return r
}

// A reviewResult is what became of an order.
type reviewResult struct {
	Wrong         string // what must not have happened; empty: nothing
	Applied, Left int    // changes
}

// review asks for o.
func (c *client) review(t *testing.T, o *reviewOrder) reviewResult {
	t.Helper()
	if err := json.NewEncoder(c.conn).Encode("review"); err != nil {
		t.Fatal(err)
	}
	r := request[reviewResult](t, c, o)
	if r.Wrong != "" {
		t.Fatalf(`%+v: got %s, want ""`, *o, r.Wrong)
	}
	return r
}

// A racer swaps what a directory has for something else, all the time.
type racer struct {
	*rand.Rand
	root    int
	outside string
	names   []string
	pause   *sync.RWMutex // held for reading during an action
	isHost  bool
}

// dir opens a random directory, and follows no link.
func (r *racer) dir() int {
	at := "."
	for r.IntN(3) > 0 {
		at += "/" + r.name()
	}
	fd, err := beneath.Open(r.root, at, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		fd, _ = beneath.Open(r.root, ".", unix.O_PATH|unix.O_DIRECTORY, 0)
	}
	return fd
}

func (r *racer) name() string { return r.names[r.IntN(len(r.names))] }

// make makes something called name in dir.
func (r *racer) make(dir int, name string) {
	switch r.IntN(9) {
	case 0, 1, 2:
		if fd, err := beneath.Open(dir, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW, 0o644); err == nil {
			_, _ = unix.Write(fd, fmt.Appendf(nil, "some content %d\n", r.IntN(20)))
			unix.Close(fd)
		}
	case 3, 4:
		if unix.Mkdirat(dir, name, 0o755) == nil && r.IntN(2) == 0 {
			if in, err := beneath.Open(dir, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0); err == nil {
				r.make(in, r.name())
				unix.Close(in)
			}
		}
	case 5:
		_ = unix.Symlinkat(r.outside, dir, name)
	case 6:
		_ = unix.Symlinkat(r.outside+"/"+r.name(), dir, name)
	case 7:
		_ = unix.Mkfifoat(dir, name, 0o644)
	case 8:
		if r.isHost {
			_ = unix.Linkat(unix.AT_FDCWD, filepath.Join(r.outside, "linked"), dir, name, 0)
		} else {
			_ = unix.Linkat(r.root, "d0/f0", dir, name, 0)
		}
	}
}

// act does one thing. It never writes to a file that it has not made, since that may have a name
// outside.
func (r *racer) act() {
	r.pause.RLock()
	defer r.pause.RUnlock()
	a, b := r.dir(), r.dir()
	defer unix.Close(a)
	defer unix.Close(b)
	x, y := r.name(), r.name()
	switch r.IntN(10) {
	case 0, 1:
		r.make(a, x)
	case 2:
		_ = unix.Unlinkat(a, x, 0)
	case 3:
		_ = unix.Unlinkat(a, x, unix.AT_REMOVEDIR)
	case 4, 5:
		_ = unix.Renameat2(a, x, b, y, unix.RENAME_EXCHANGE)
	case 6:
		_ = unix.Renameat2(a, x, b, y, unix.RENAME_NOREPLACE)
	case 7:
		_ = unix.Renameat(a, x, b, y)
	case 8:
		if r.isHost {
			return // what is linked has a name outside
		}
		if fd, err := beneath.Open(a, x, unix.O_PATH|unix.O_NOFOLLOW, 0); err == nil {
			_ = unix.Fchmodat(unix.AT_FDCWD, fmt.Sprint("/proc/self/fd/", fd), []uint32{0o700, 0o755, 0o777}[r.IntN(3)], 0)
			unix.Close(fd)
		}
	case 9:
		if r.isHost {
			r.takeTemp(a)
			return
		}
		if fd, err := beneath.Open(a, x, unix.O_WRONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0); err == nil {
			_, _ = unix.Write(fd, fmt.Appendf(nil, "changed %d\n", r.IntN(20)))
			unix.Close(fd)
		}
	}
}

// takeTemp puts a link in place of a temporary name of an apply.
func (r *racer) takeTemp(dir int) {
	names, _ := os.ReadDir(fmt.Sprint("/proc/self/fd/", dir))
	for _, n := range names {
		if strings.HasPrefix(n.Name(), cow.TempPrefix) && !n.IsDir() && unix.Unlinkat(dir, n.Name(), 0) == nil {
			r.make(dir, n.Name())
			return
		}
	}
}

// canaries returns what must stay as it is: all outside, all that is read-only, and, wherever
// their directories are by now, the hidden and the read-only files.
func canaries(t *testing.T, host, outside string) map[string]int {
	t.Helper()
	all := map[string]int{}
	add := func(place, p string) {
		var st unix.Stat_t
		if err := unix.Lstat(p, &st); err != nil {
			t.Fatal(err)
		}
		what := fmt.Sprintf("%s %o uid %d", place, st.Mode, st.Uid)
		switch st.Mode & unix.S_IFMT {
		case unix.S_IFREG:
			b, err := os.ReadFile(p)
			if err != nil {
				t.Fatal(err)
			}
			what += fmt.Sprintf(" inode %d %q", st.Ino, b)
		case unix.S_IFLNK:
			target, err := os.Readlink(p)
			if err != nil {
				t.Fatal(err)
			}
			what += " to " + target
		}
		all[what]++
	}
	for _, top := range []string{outside, filepath.Join(host, "ro")} {
		if err := filepath.WalkDir(top, func(p string, _ fs.DirEntry, err error) error {
			add(p, p)
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	if err := filepath.WalkDir(host, func(p string, d fs.DirEntry, err error) error {
		if err == nil && (d.Name() == "secret" || d.Name() == "guarded") {
			add(d.Name(), p)
		}
		if err == nil && d.IsDir() && gitguard.Complete(func(name string) bool {
			_, err := os.Lstat(filepath.Join(p, name))
			return err == nil
		}) {
			t.Errorf("%s is a git repository", p)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return all
}

// TestReviewRace: while a sandbox and processes of the host swap directories, links, files, FIFOs
// and hard links all the time, no diff shows what is hidden or outside, and no apply or discard
// changes anything outside of the codebase or at a name that the rules forbid.
func TestReviewRace(t *testing.T) {
	const perSeed = 40
	seeds := 3
	if testenv.Full() {
		seeds = 150
	}
	for seed := range seeds {
		t.Run(fmt.Sprint("seed", seed), func(t *testing.T) { raceReviews(t, uint64(seed), perSeed) })
	}
}

func raceReviews(t *testing.T, seed uint64, rounds int) {
	mounted(t, setup{
		Copied: true, Parse: []string{"secret=none", "guarded=read", "/ro/=read", "/ro/**=read", "**=write"},
		Host: func(t *testing.T, host string) {
			for _, d := range []string{"d0", "d1", "d1/d2", "d2", "d2/d0"} {
				for _, f := range []string{"f0", "f1", "f2"} {
					write(t, host, d+"/"+f, d+" some content\n")
				}
				write(t, host, d+"/secret", hiddenCanary+" "+d)
				write(t, host, d+"/guarded", "read only "+d)
			}
			write(t, host, "ro/f0", "read only")
			for _, f := range []string{"f0", "f1", "d0/f0", "d1/f1", "secret", "guarded"} {
				write(t, host, "../outside/"+f, outsideCanary)
			}
			write(t, host, "../outside/linked", "with a name inside")
			for _, name := range []string{"ro/link", "d0/f3"} {
				if err := os.Link(filepath.Join(host, "../outside/linked"), filepath.Join(host, name)); err != nil {
					t.Fatal(err)
				}
			}
		},
	}, func(t *testing.T, c *client) {
		outside := filepath.Join(filepath.Dir(c.host), "outside")
		before := canaries(t, c.host, outside)
		hostNames := []string{"d0", "d1", "d2", "d3", "f0", "f1", "f2", "f3"}
		insideNames := append([]string{"secret", "guarded", "ro", "HEAD", "objects", "refs", ".git", ".GIT", "config"}, hostNames...)
		var pause sync.RWMutex
		var wg sync.WaitGroup
		stop := make(chan struct{})
		racers := []*racer{{isHost: true, names: hostNames}, {isHost: true, names: hostNames}, {names: insideNames}, {names: insideNames}}
		for i, r := range racers {
			top := c.dir
			if r.isHost {
				top = c.host
			}
			root, err := os.Open(top)
			if err != nil {
				t.Fatal(err)
			}
			defer root.Close()
			r.Rand, r.root, r.outside, r.pause = rand.New(rand.NewPCG(seed, uint64(i))), int(root.Fd()), outside, &pause
		}
		for _, r := range racers {
			wg.Go(func() { // ends when stop is closed
				for {
					select {
					case <-stop:
						return
					default:
						r.act()
					}
				}
			})
		}
		defer wg.Wait()
		defer close(stop)
		r := rand.New(rand.NewPCG(seed, 99))
		applied, left := 0, 0
		for n := range rounds {
			o := &reviewOrder{Do: []string{"diff", "apply", "force", "force", "dry", "discard", "diff"}[r.IntN(7)]}
			if r.IntN(3) == 0 {
				o.Paths = []string{insideNames[r.IntN(len(insideNames))]}
			}
			if o.Do == "discard" && o.Paths == nil && r.IntN(3) > 0 {
				o.Do = "apply"
			}
			got := c.review(t, o)
			applied, left = applied+got.Applied, left+got.Left
			if n%10 != 9 {
				continue
			}
			pause.Lock()
			after := canaries(t, c.host, outside)
			pause.Unlock()
			for what, n := range before {
				if after[what] != n {
					t.Fatalf("%+v: %d of %s, were %d", *o, after[what], what, n)
				}
			}
			for what := range after {
				if before[what] == 0 {
					t.Fatalf("%+v: new: %s", *o, what)
				}
			}
		}
		t.Logf("%d changes applied, %d left", applied, left)
	})
}
