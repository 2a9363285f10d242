package fusefs

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// A directory is renamed to where other rules hold if no name in it changes its level by that.
// What is open in it stays open, and what is made in it from then on has the rules of the new place.
func TestRenameToOtherRules(t *testing.T) {
	rules := []string{"**=write", ".env=none", "*.lock=read", "/shown/**=write", "/guarded/*/keep=read"}
	mounted(t, setup{Parse: rules, After: func(t *testing.T, _ *Server, denied []Denial) {
		for _, want := range []string{
			"rename shown/s/sub/.env write none", "rename guarded/m/keep read write", "rename k/keep write read",
		} {
			if !slices.ContainsFunc(denied, func(d Denial) bool {
				return d.Errno == syscall.EXDEV && fmt.Sprintf("%s %s %v %v", d.Op, d.Path, d.Level, d.Need) == want
			}) {
				t.Errorf("it is not reported: %s, but %v", want, denied)
			}
		}
	}, Host: func(t *testing.T, dir string) {
		for _, name := range []string{"a/f", "a/sub/f", "a/sub/deep/f", "secret/sub/.env", "secret/f", "shown/.env/x", "locked/go.lock", "many/keep", "guarded/k/keep"} {
			write(t, dir, name, "content of "+name)
		}
		ok(t, "chmod", os.Chmod(filepath.Join(dir, "a/sub"), 0o2750))
		ok(t, "symlink", os.Symlink("f", filepath.Join(dir, "a/link")))
		ok(t, "link", os.Link(filepath.Join(dir, "a/f"), filepath.Join(dir, "a/sub/other")))
		ok(t, "times", os.Chtimes(filepath.Join(dir, "a/sub"), time.Unix(1e9, 7), time.Unix(1e9, 7)))
		ok(t, "fifo", unix.Mkfifo(filepath.Join(dir, "a/fifo"), 0o600))
	}}, func(t *testing.T, c *client) {
		f, err := os.OpenFile(c.at("a/sub/f"), os.O_RDWR, 0)
		ok(t, "open", err)
		defer f.Close()
		d, err := unix.Open(c.at("a/sub"), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		ok(t, "open", err)
		defer unix.Close(d)
		wantErrno(t, "hidden before", os.WriteFile(c.at("a/sub/.env"), nil, 0o600), syscall.EACCES)
		ok(t, "rename", os.Rename(c.at("a"), c.at("shown/a")))
		wantErrno(t, "the former name", unix.Access(c.at("a"), unix.F_OK), syscall.ENOENT)
		for name, want := range map[string]string{"f": "a/f", "sub/f": "a/sub/f", "sub/other": "a/f", "link": "a/f", "sub/deep/f": "a/sub/deep/f"} {
			if got, err := os.ReadFile(c.at("shown/a/" + name)); string(got) != "content of "+want {
				t.Errorf("%s has %q, %v", name, got, err)
			}
		}
		for _, root := range []string{c.dir, c.host} {
			st, err := os.Stat(filepath.Join(root, "shown/a/sub"))
			ok(t, "stat", err)
			if st.Mode().Perm() != 0o750 || !st.ModTime().Equal(time.Unix(1e9, 7)) {
				t.Errorf("in %s it has %v and %v", root, st.Mode(), st.ModTime())
			}
		}
		_, err = f.WriteAt([]byte("C"), 0)
		ok(t, "write what was open", err)
		if got, _ := os.ReadFile(c.at("shown/a/sub/f")); string(got) != "Content of a/sub/f" {
			t.Errorf("after the write: %q", got)
		}
		ok(t, "make in an open directory", unix.Mkdirat(d, "made", 0o755))
		ok(t, "make what was hidden", os.WriteFile(c.at("shown/a/sub/.env"), nil, 0o600))
		wantErrno(t, "and would be again", os.Rename(c.at("shown/a"), c.at("a")), syscall.EXDEV)
		ok(t, "remove", os.Remove(c.at("shown/a/sub/.env")))
		ok(t, "rename back", os.Rename(c.at("shown/a"), c.at("a")))
		ok(t, "remove in an open directory", unix.Unlinkat(d, "made", unix.AT_REMOVEDIR))

		wantErrno(t, "a hidden name below", os.Rename(c.at("secret"), c.at("shown/s")), syscall.EXDEV)
		ok(t, "the same level below", os.Rename(c.at("locked"), c.at("guarded/l")))
		wantErrno(t, "a name that could be written", os.Rename(c.at("many"), c.at("guarded/m")), syscall.EXDEV)
		wantErrno(t, "a name that could not", os.Rename(c.at("guarded/k"), c.at("k")), syscall.EXDEV)
		if left := temporaries(t, c.host); left != "" {
			t.Errorf("%s is left", left)
		}
	})
}

// Whenever another sandbox over the codebase moves a directory with a hidden name to one that gets
// other rules, the hidden name is hidden afterwards, and no name is lost.
func TestRenameToOtherRulesAtOnce(t *testing.T) {
	for _, place := range []string{"x/n", "x/sub/n", "x/sub/deep/n", "x"} {
		for at := 1; ; at++ {
			dir := t.TempDir()
			names := []string{"d/.env", "d/f", "x/a", "x/sub/a", "x/sub/deep/a", "x/z", "shown/y"}
			for _, name := range names {
				write(t, dir, name, name)
			}
			rules := &beatRules{Rules: compiled(t, "**=write", ".env=none", "/shown/**=write")}
			tr := testTree(t, dir, rules)
			shown, x := known(t, tr, rootID, "shown"), known(t, tr, rootID, "x")
			known(t, tr, known(t, tr, x, "sub"), "deep")
			rules.asked, rules.at = 0, at
			rules.do = func() {
				flags := uint(0)
				if place == "x" {
					flags = unix.RENAME_EXCHANGE
				}
				// It can have moved already.
				_ = unix.Renameat2(unix.AT_FDCWD, dir+"/d", unix.AT_FDCWD, filepath.Join(dir, place), flags)
			}
			in := fuse.RenameIn{InHeader: fuse.InHeader{NodeId: rootID}, Newdir: shown}
			status := answering(tr, func() fuse.Status { return tr.Rename(nil, &in, "x", "x") })
			var found []string
			ok(t, "walk", filepath.WalkDir(dir, func(p string, e fs.DirEntry, err error) error {
				if err == nil && !e.IsDir() {
					content, _ := os.ReadFile(p)
					found = append(found, string(content))
				}
				if rel, _ := filepath.Rel(dir, p); err == nil && e.Name() == ".env" && strings.HasPrefix(rel, "shown/") {
					t.Errorf("%s at question %d: %s is shown, %v", place, at, rel, status)
				}
				return err
			}))
			slices.Sort(found)
			slices.Sort(names)
			if !slices.Equal(found, names) {
				t.Errorf("%s at question %d: files %q, want %q, %v", place, at, found, names, status)
			}
			if left := temporaries(t, dir); left != "" {
				t.Errorf("%s at question %d: %s is left", place, at, left)
			}
			if rules.asked < at {
				if !status.Ok() {
					t.Errorf("%s alone: %v", place, status)
				}
				break
			}
		}
	}
}

// answering calls f as the answer of a request, which holds locks.
func answering(t *tree, f func() fuse.Status) fuse.Status {
	t.changeMu.RLock()
	defer t.changeMu.RUnlock()
	t.levels.rulesMu.RLock()
	defer t.levels.rulesMu.RUnlock()
	return f()
}

// While a directory moves between places with other rules, a second sandbox over the codebase, which
// has its directories open, moves one with a hidden name into them and out. The hidden name is never
// shown, and no name is lost.
func TestRenamesNeverShow(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"d/.env", "x/sub/f", "shown/y"} {
		write(t, dir, name, name)
	}
	rules := []string{"**=write", ".env=none", "/shown/**=write"}
	one, two := testTree(t, dir, compiled(t, rules...)), testTree(t, dir, compiled(t, rules...))
	end := time.Now().Add(raceTime(t))
	moved, filled := 0, 0
	rename := func(tr *tree, from uint64, a string, to uint64, b string) bool {
		in := fuse.RenameIn{InHeader: fuse.InHeader{NodeId: from}, Newdir: to}
		return answering(tr, func() fuse.Status { return tr.Rename(nil, &in, a, b) }).Ok()
	}
	node := func(tr *tree, dir uint64, name string) uint64 {
		var out fuse.EntryOut
		answering(tr, func() fuse.Status { return tr.Lookup(nil, &fuse.InHeader{NodeId: dir}, name, &out) })
		return out.NodeId
	}
	var group sync.WaitGroup
	group.Go(func() {
		for time.Now().Before(end) {
			shown := node(one, rootID, "shown")
			if rename(one, rootID, "x", shown, "x") || rename(one, shown, "x", rootID, "x") {
				moved++
			}
			if _, err := os.Lstat(dir + "/x"); err == nil { // what came into it meanwhile has stayed there
				_ = os.RemoveAll(dir + "/shown/x")
				_ = os.MkdirAll(dir+"/x/sub", 0o755)
				_ = os.WriteFile(dir+"/x/sub/f", []byte("x/sub/f"), 0o644)
			}
		}
	})
	group.Go(func() {
		for time.Now().Before(end) {
			x := node(two, rootID, "x")
			sub := node(two, x, "sub")
			for range 20 { // by what it has found once
				if rename(two, rootID, "d", sub, "n") {
					filled++
					rename(two, sub, "n", rootID, "d")
				}
			}
			for _, at := range []string{"x/sub/n", "shown/x/sub/n"} {
				_ = os.Rename(filepath.Join(dir, at), dir+"/d")
			}
		}
	})
	group.Go(func() {
		for time.Now().Before(end) {
			for _, name := range []string{"shown/x/sub/n/.env", "shown/x/n/.env"} {
				if _, err := os.Lstat(filepath.Join(dir, name)); err == nil {
					t.Errorf("%s is shown", name)
					return
				}
			}
		}
	})
	group.Wait()
	if moved == 0 || filled == 0 {
		t.Errorf("%d renames and %d into it: this was no race", moved, filled)
	}
	t.Logf("%d renames, %d into it", moved, filled)
}
