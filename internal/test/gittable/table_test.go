package gittable_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"wolffia/internal/test/gittable"
	"wolffia/internal/test/testenv"
)

// picked reports whether to try case i of a table: in a full run each, else one of eight.
func picked(i int) bool { return os.Getenv(onlyVariable) != "" || testenv.Picked(i, 8) }

// onlyVariable names cases to try, and no others.
const onlyVariable = "WOLFFIA_GITTABLE_ONLY"

// wanted reports whether a case is to be tried: WOLFFIA_GITTABLE_ONLY names parts of names,
// with | between.
func wanted(name string) bool {
	return slices.ContainsFunc(strings.Split(os.Getenv(onlyVariable), "|"), func(part string) bool { return strings.Contains(name, part) })
}

// A tally counts what got through, by the way in.
type tally map[string][]string

func (n tally) add(way, what string) { n[way] = append(n[way], what) }

// report fails the test with a line for each way in.
func (n tally) report(t testing.TB, tried int) {
	t.Helper()
	through := 0
	for _, way := range slices.Sorted(maps.Keys(n)) {
		through += len(n[way])
		t.Errorf("%s: %d: %.600s", way, len(n[way]), strings.Join(n[way], "; "))
	}
	t.Logf("%d of %d got through", through, tried)
	if tried == 0 {
		t.Error("nothing was tried")
	}
}

// A target is a file that git reads, in a rig.
type target struct {
	path string
	with string // a script of the inside that makes the repository first
	text string // "", or what is written instead of the evil configuration
}

const hookText = "#!/bin/sh\n{mark}\n"

var targets = []target{
	{path: ".git/config"},
	{path: ".git/config.worktree"},
	{path: ".git/modules/sub/config"},
	{path: ".git/modules/sub/config.worktree"},
	{path: ".git/worktrees/wt/config.worktree"},
	{path: "bare.git/config"},
	{path: "bare.git/config.worktree"},
	{path: "inc/settings"},
	{path: "new/.git/config", with: "git init -q new"},
	{path: "new/.git/config.worktree", with: "git init -q new"},
	{path: "new/.git/config.worktree", with: "git init -q new; git -C new config core.repositoryFormatVersion 1; git -C new config extensions.worktreeConfig true"},
	{path: "new.git/config", with: "git init -q --bare new.git"},
	{path: "hand/.git/config", with: "mkdir -p hand/.git/objects hand/.git/refs; echo ref: refs/heads/x >hand/.git/HEAD"},
	{path: ".git/modules/new/config", with: "mkdir -p .git/modules/new/objects .git/modules/new/refs; echo ref: refs/heads/x >.git/modules/new/HEAD"},
	{path: ".git/modules/a/b/c/config", with: "mkdir -p .git/modules/a/b/c/objects .git/modules/a/b/c/refs; echo ref: refs/heads/x >.git/modules/a/b/c/HEAD"},
	{path: ".git/modules/config/config", with: "mkdir -p .git/modules/config/objects .git/modules/config/refs; echo ref: refs/heads/x >.git/modules/config/HEAD"},
	{path: ".git/modules/sub/modules/x/config", with: "mkdir -p .git/modules/sub/modules/x/objects .git/modules/sub/modules/x/refs; echo ref: refs/heads/x >.git/modules/sub/modules/x/HEAD"},
	{path: ".git/worktrees/new/config.worktree", with: "mkdir -p .git/worktrees/new; echo ref: refs/heads/x >.git/worktrees/new/HEAD; echo ../.. >.git/worktrees/new/commondir"},
	{path: "wt/made/.git/config", with: "git init -q wt/made"},
	{path: "sub/made/.git/config", with: "git init -q sub/made"},

	{path: ".git/hooks/pre-commit", text: hookText},
	{path: ".git/hooks/post-index-change", text: hookText},
	{path: ".git/modules/sub/hooks/post-checkout", text: hookText},
	{path: "bare.git/hooks/update", text: hookText},
	{path: "new/.git/hooks/pre-commit", with: "git init -q new", text: hookText},
	{path: "new.git/hooks/post-receive", with: "git init -q --bare new.git", text: hookText},
	{path: "hand/.git/hooks/pre-commit", with: "mkdir -p hand/.git/objects hand/.git/refs hand/.git/hooks; echo ref: refs/heads/x >hand/.git/HEAD", text: hookText},
	{path: ".git/modules/new/hooks/pre-commit", with: "mkdir -p .git/modules/new/objects .git/modules/new/refs .git/modules/new/hooks; echo ref: refs/heads/x >.git/modules/new/HEAD", text: hookText},

	{path: ".git/commondir", text: "../evil.git\n"},
	{path: ".git/modules/sub/commondir", text: "../../../tools\n"},
	{path: ".git/worktrees/wt/commondir", text: "../../../tools\n"},
	{path: "bare.git/commondir", text: "../tools\n"},
	{path: "new/.git/commondir", with: "git init -q new", text: "../../tools\n"},
	{path: ".git/worktrees/new/commondir", with: "mkdir -p .git/worktrees/new; echo ref: refs/heads/x >.git/worktrees/new/HEAD", text: "../../../tools\n"},
	{path: "sub/.git", text: "gitdir: ../tools\n"},
	{path: "wt/.git", text: "gitdir: ../tools\n"},
	{path: "tools/.git", with: "mkdir -p tools/x", text: "gitdir: x\n"},
	{path: ".git/remotes/mark", with: "mkdir -p .git/remotes", text: "URL: ext::{mark}\n"},
	{path: ".git/branches/mark", with: "mkdir -p .git/branches", text: "ext::{mark}\n"},
	{path: "new/.git/remotes/mark", with: "git init -q new; mkdir -p new/.git/remotes", text: "URL: ext::{mark}\n"},
	{path: "new/.git/branches/mark", with: "git init -q new; mkdir -p new/.git/branches", text: "ext::{mark}\n"},
}

// TestWays tries each way in on each file that git reads, known and new, and has the
// host look at it, and work.
func TestWays(t *testing.T) {
	rigs := func() (names []string) {
		for i := range ways {
			names = append(names, fmt.Sprint("way", i))
		}
		return names
	}()
	lives(t, func(t *testing.T, host string, m marks) {
		newRigging(t, host).copies(t, rigs...)
		evil(t, host, m)
		writeFile(t, filepath.Join(host, "scratch/x"), "", 0o644)
	}, func(t *testing.T, c *inside) {
		got, tried := tally{}, 0
		for i, w := range ways {
			rig := rigs[i]
			for j, to := range targets {
				if !wanted(w.name+" "+to.path) || !picked(i+j) {
					continue
				}
				tried++
				what := c.try(t, w, rig, to, fmt.Sprintf("scratch/%d-%d", i, j))
				if what != "" {
					got.add(w.name, what)
				}
			}
		}
		got.report(t, tried)
	})
}

// try has a way write to a target in a rig. It returns what came of it, and has the host
// restore the rig then.
func (c *inside) try(t testing.TB, w way, rig string, to target, tmp string) string {
	t.Helper()
	path := filepath.Join(rig, to.path)
	if _, err := os.Lstat(c.at(filepath.Dir(path))); err != nil {
		c.run(t, rig, to.with)
	}
	was, err := os.ReadFile(c.at(path))
	if err != nil {
		was = nil
	}
	text := strings.ReplaceAll(to.text, "{mark}", c.Marks+"/mark")
	if text == "" {
		text = harmless + gittable.Lines("core.fsmonitor="+c.Marks+"/bin/core.fsmonitor")
	}
	w.do(c.at(path), c.at(tmp), []byte(text))
	said := c.host(t, order{Do: "same", Dir: path, Content: was})
	found := c.host(t, order{Do: "look", Dir: filepath.Join(rig, strings.SplitN(to.path, "/", 2)[0])})
	if to.with != "" && (said == "gone" || was == nil && c.host(t, order{Do: "get", Dir: path}) == "") {
		said = "" // who makes a repository may destroy it
	}
	if said == "gone" && (to.path == "wt/.git" || to.path == ".git/worktrees/wt/commondir") {
		said = "" // as by git worktree remove
	}
	if said == "changed" {
		switch is := c.host(t, order{Do: "get", Dir: path}); {
		case to.text == "" && to.with != "" && is == harmless, to.text != "" && is == "":
			said = "" // that much may be written
		}
	}
	if said == "" && found == "" {
		_ = os.Remove(c.at(path + ".lock"))
		c.host(t, order{Do: "remove", Dir: path + ".lock"})
		c.settle(t, path+".lock", nil)
		return ""
	}
	did := strings.TrimSpace(said + " " + strings.ReplaceAll(found, "\n", ", "))
	if out := c.host(t, order{Do: "sh", Dir: rig, Script: "for d in . new hand bare.git new.git sub wt tools wt/made sub/made; do test ! -d $d || git -C $d status >/dev/null; test ! -d $d || git -C $d commit -q --allow-empty -m x; done"}); out != "" {
		_ = out // marks count
	}
	if left := c.host(t, order{Do: "marks"}); left != "" {
		did += " and ran"
	}
	c.restore(t, rig)
	return to.path + ": " + did
}

// restore makes a rig again as it was, on the host, and waits until that is seen inside.
func (c *inside) restore(t testing.TB, rig string) {
	t.Helper()
	c.host(t, order{Do: "restore", Dir: rig})
	for _, name := range []string{".git/config", ".git/HEAD", "sub/.git", "bare.git/config", ".git/modules/sub/config", ".git/worktrees/wt/commondir"} {
		c.settle(t, filepath.Join(rig, name), []byte(c.host(t, order{Do: "get", Dir: filepath.Join(rig, name)})))
	}
	for _, name := range []string{"new", "new.git", "hand", ".git/config.lock", ".git/config.worktree", ".git/hooks/pre-commit", ".git/commondir"} {
		c.settle(t, filepath.Join(rig, name), nil)
	}
}

// settle waits until a file has that content inside, or is not there if it is nil: what
// the host changes may be seen a second later.
func (c *inside) settle(t testing.TB, path string, content []byte) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		text, err := os.ReadFile(c.at(path))
		if content == nil && os.IsNotExist(err) || err == nil && content != nil && string(text) == string(content) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s is not seen as it is: %v, %q", path, err, text)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// TestLocked is TestWays on the lock that the host's git holds while it writes a
// configuration: the host renames it then.
func TestLocked(t *testing.T) {
	locked := []string{".git/config", ".git/modules/sub/config", "bare.git/config", ".git/config.worktree", ".git/worktrees/wt/config.worktree"}
	lives(t, func(t *testing.T, host string, m marks) {
		for i := range ways {
			newRigOnce(t, host).copies(t, fmt.Sprint("way", i))
		}
		writeFile(t, filepath.Join(host, "scratch/x"), "", 0o644)
	}, func(t *testing.T, c *inside) {
		got, tried := tally{}, 0
		text := harmless + gittable.Lines("core.fsmonitor="+c.Marks+"/bin/core.fsmonitor")
		for i, w := range ways {
			for j, name := range locked {
				tried++
				rig := fmt.Sprint("way", i)
				lock := filepath.Join(rig, name) + ".lock"
				mine := []byte(harmless + "[user]\n\tname = host\n")
				c.host(t, order{Do: "put", Dir: lock, Content: mine})
				c.settle(t, lock, mine)
				w.do(c.at(lock), c.at(fmt.Sprintf("scratch/%d-%d", i, j)), []byte(text))
				c.host(t, order{Do: "sh", Dir: filepath.Dir(lock), Script: "mv -f " + filepath.Base(lock) + " " + filepath.Base(name)})
				if said := c.host(t, order{Do: "same", Dir: filepath.Join(rig, name), Content: mine}); said != "" {
					got.add(w.name, name+": "+said)
					c.restore(t, rig)
				}
			}
		}
		got.report(t, tried)
	})
}

func newRigOnce(t testing.TB, host string) rigging {
	dir := filepath.Join(filepath.Dir(host), "template")
	if _, err := os.Stat(dir); err == nil {
		return rigging{dir, host}
	}
	return newRigging(t, host)
}
