package fusefs

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"wolffia/internal/test/testenv"
	"wolffia/internal/test/wait"
)

// asks returns the tree's answer to git: a token, and the paths that may have changed.
func (c *client) asks(t *testing.T, token string) (now string, names []string) {
	t.Helper()
	return c.asksIn(t, ".", token)
}

// asksIn is asks for the repository in the directory dir.
func (c *client) asksIn(t *testing.T, dir, token string) (now string, names []string) {
	t.Helper()
	text, err := os.ReadFile(c.at(filepath.Join(dir, AskName+token)))
	if err != nil {
		t.Fatal(err)
	}
	for i, name := range bytes.Split(bytes.TrimSuffix(text, []byte{0}), []byte{0}) {
		if i == 0 {
			now = string(name)
		} else {
			names = append(names, string(name))
		}
	}
	return now, names
}

// status returns what git inside says of the tree, when it asks what has changed.
func (c *client) status(t *testing.T) string {
	t.Helper()
	hook := filepath.Join(c.state, "hook")
	if err := os.WriteFile(hook, []byte("#!/bin/sh\ncat \""+AskName+"$2\""), 0o755); err != nil {
		t.Fatal(err)
	}
	return inGit(t, c.dir, "-c", "core.fsmonitor="+hook, "-c", "core.fsmonitorHookVersion=2",
		"-c", "core.untrackedCache=true", "-c", "core.checkStat=minimal", "status", "--porcelain")
}

// looks is status by a git that looks at each file.
func (c *client) looks(t *testing.T) string {
	t.Helper()
	return inGit(t, c.dir, "--no-optional-locks", "-c", "core.fsmonitor=", "-c", "core.untrackedCache=false",
		"-c", "core.checkStat=minimal", "status", "--porcelain")
}

// adds has git inside take all there is, which is as old as it can be told from new.
func (c *client) adds(t *testing.T) {
	t.Helper()
	err := filepath.WalkDir(c.dir, func(name string, d os.DirEntry, err error) error {
		if err == nil && d.Name() == gitName {
			return filepath.SkipDir
		}
		old := time.Unix(1e9, 0)
		return os.Chtimes(name, old, old)
	})
	if err != nil {
		t.Fatal(err)
	}
	inGit(t, c.dir, "add", "-A")
	inGit(t, c.dir, "update-index", "-q", "--refresh")
}

// A sandbox that has many directories of many files in its index, and makes and removes them, has
// few of them followed. Beyond the limit all is looked at, so that no change is missed.
func TestHostileIndex(t *testing.T) {
	testenv.Tools(t, "git")
	const marks = 8
	after := func(t *testing.T, s *Server, _ []Denial) {
		if w := s.tree.watch; w != nil && (len(w.follows) == 0 || len(w.follows) > marks || w.files > marks) {
			t.Errorf("%d directories and %d files are watched", len(w.follows), w.files)
		}
	}
	s := setup{Git: true, Monitor: true, Marks: marks, Policy: writable, Host: hostRepository, After: after}
	mounted(t, s, func(t *testing.T, c *client) {
		for round := range 3 {
			all := fmt.Sprint("round", round)
			var files []string
			for i := range 5 * marks {
				file := fmt.Sprintf("%s/%d/f", all, i)
				write(t, c.dir, file, "x")
				if i%4 == 0 {
					ok(t, "link", os.Link(c.at(file), c.at(file+"2")))
				}
				files = append(files, file)
			}
			c.adds(t)
			token, _ := c.asks(t, "")
			if _, names := c.asks(t, token); slices.Contains(names, files[0]) {
				t.Errorf("unchanged: %q", names)
			}
			for _, file := range files {
				write(t, c.dir, file, "changed")
				if _, names := c.asks(t, token); !slices.Contains(names, file) {
					t.Fatalf("round %d: the change of %s is not known: %q", round, file, names)
				}
			}
			if round%2 == 0 {
				ok(t, "remove", os.RemoveAll(c.at(all)))
			}
		}
	})
}

// The host links a file that git has as it is, and changes it by that name: neither is an event of
// the file's directory.
func TestMonitorSeesNewLinks(t *testing.T) {
	testenv.Tools(t, "git")
	s := setup{Git: true, Monitor: true, Policy: writable, Host: hostRepository}
	mounted(t, s, func(t *testing.T, c *client) {
		c.adds(t)
		token, _ := c.asks(t, "")
		if _, names := c.asks(t, token); slices.Contains(names, "sub/deep/c") {
			t.Fatalf("it has not changed yet: %q", names)
		}
		outside := outsideOf(c.host)
		ok(t, "link", os.Link(filepath.Join(c.host, "sub/deep/c"), outside))
		ok(t, "write", os.WriteFile(outside, []byte("changed"), 0o644))
		wait.Until(t, "git inside is told of it", func() bool {
			_, names := c.asks(t, token)
			return slices.Contains(names, "sub/deep/c")
		})
	})
}

// Two repositories have the same files, and one has them no more: its directories are still
// followed for the other one, and for as long.
func TestRepositoriesShareDirectories(t *testing.T) {
	testenv.Tools(t, "git")
	after := func(t *testing.T, s *Server, _ []Denial) {
		if w := s.tree.watch; w != nil && len(w.follows) != 2 {
			t.Errorf("%d directories are followed, want the two tops", len(w.follows))
		}
	}
	s := setup{Git: true, Monitor: true, Policy: writable, Host: hostRepository, After: after}
	mounted(t, s, func(t *testing.T, c *client) {
		c.adds(t)
		token, _ := c.asks(t, "")
		c.asks(t, token)
		inGit(t, c.at("sub"), "init", "-q", "-b", "main")
		inGit(t, c.at("sub"), "add", "deep")
		if _, names := c.asks(t, token); slices.Contains(names, "sub/deep/c") {
			t.Errorf("it has not changed yet: %q", names)
		}
		c.asksIn(t, "sub", token)
		inGit(t, c.at("sub"), "rm", "-q", "-r", "--cached", "deep")
		c.asksIn(t, "sub", token)
		c.asks(t, token)
		write(t, c.dir, "sub/deep/c", "changed")
		if _, names := c.asks(t, token); !slices.Contains(names, "sub/deep/c") {
			t.Errorf("the change is not known: %q", names)
		}
		inGit(t, c.dir, "rm", "-q", "-r", "--cached", "sub")
		c.asks(t, token)
	})
}

// By new rules the tree has other names, in directories that have the times of before. git lists
// these again, however many names it knows.
func TestNewRulesInLargeRepository(t *testing.T) {
	testenv.Tools(t, "git")
	name := func(i int) string { return fmt.Sprintf("d%d/%0200d", i%10, i) }
	rules := []string{"**=write", "*.key=none"} // something may be hidden anywhere
	mounted(t, setup{Git: true, Monitor: true, Parse: rules, Host: func(t *testing.T, dir string) {
		inGit(t, dir, "init", "-q")
		for i := range 2 * maxChanged / 200 {
			write(t, dir, name(i), "")
		}
		inGit(t, dir, "add", ".")
		write(t, dir, "d1/untracked", "")
		old := time.Unix(1e9, 0)
		for i := range 10 {
			ok(t, "utimes", os.Chtimes(filepath.Dir(filepath.Join(dir, name(i))), old, old))
		}
	}}, func(t *testing.T, c *client) {
		for range 3 {
			for range 2 {
				if got, want := c.status(t), "?? d1/untracked"; strings.Count(got, "??") != 1 || !strings.Contains(got, want) {
					t.Fatalf("got %.300q, want %q", got, want)
				}
			}
			c.setRules(t, append(rules[:2:2], "/d1/untracked=none")...)
			if got := c.status(t); strings.Contains(got, "??") {
				t.Fatalf("with a rule that hides it: %.300q", got)
			}
			c.setRules(t, rules...)
		}
	})
}

// Few names, descriptors and watches are kept, so that what git knows, what the kernel knows and
// what is followed are never of the same time.
func TestMonitorInLittleMemory(t *testing.T) {
	testenv.Tools(t, "git")
	const files, dirs = minNodes * 5 / 4, 40
	name := func(i int) string { return fmt.Sprintf("d%d/f%d", i%dirs, i%files) }
	mounted(t, setup{
		Git: true, Monitor: true, Memory: 1, FDs: 16, Marks: dirs / 2, Timeout: time.Hour, Policy: writable,
		Host: func(t *testing.T, dir string) {
			inGit(t, dir, "init", "-q")
			for i := range files {
				write(t, dir, name(i), "old")
			}
			inGit(t, dir, "add", ".")
			inGit(t, dir, "commit", "-qm", "all")
		},
	}, func(t *testing.T, c *client) {
		seed := rand.Uint64()
		t.Logf("seed %d", seed)
		r := rand.New(rand.NewPCG(seed, 1))
		for step := range 30 {
			at := []string{c.dir, c.host}[r.IntN(2)]
			file, other := filepath.Join(at, name(r.Int())), filepath.Join(at, name(r.Int()))
			switch op := r.IntN(6); op { // what fails is as good
			case 0:
				_ = os.WriteFile(file, fmt.Append(nil, step), 0o644)
			case 1:
				_ = os.Rename(file, other)
			case 2:
				_ = os.Remove(file)
			case 3:
				_ = os.Rename(filepath.Dir(file), filepath.Dir(other)+"moved")
			case 4:
				_ = os.Chmod(file, 0o755)
			case 5:
				_ = os.Link(file, other+"link")
			}
			if at == c.host {
				c.awaitEvents(t)
				ok(t, "remove", os.Remove(c.at("mark")))
			}
			got, want := c.status(t), c.looks(t)
			if got != want {
				t.Fatalf("step %d: got %.2000q, want %.2000q", step, got, want)
			}
		}
	})
}
