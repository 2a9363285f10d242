package fusefs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"wolffia/fusefs/backing"
	"wolffia/perm"
)

// beatRules are Rules that call do at the question number at, and count the questions.
type beatRules struct {
	Rules
	asked, at int
	do        func()
}

func (r *beatRules) beat() {
	if r.asked++; r.asked == r.at {
		r.do()
	}
}

func (r *beatRules) Enter(s perm.State, name string) perm.State {
	r.beat()
	return r.Rules.Enter(s, name)
}

func (r *beatRules) Child(s perm.State, name string, dir bool) perm.Level {
	r.beat()
	return r.Rules.Child(s, name, dir)
}

// Whenever another sandbox over the codebase puts a directory where a file was, which its rules
// allow, a rename of the file takes nothing to where it is not hidden.
func TestRenameMovesWhatWasJudged(t *testing.T) {
	others := map[string]func(dir string) error{
		"exchange": func(dir string) error {
			return unix.Renameat2(unix.AT_FDCWD, dir+"/d", unix.AT_FDCWD, dir+"/sub/x", unix.RENAME_EXCHANGE)
		},
		"make and move": func(dir string) error {
			return errors.Join(os.Remove(dir+"/sub/x"), os.Mkdir(dir+"/sub/x", 0o755), os.Rename(dir+"/d", dir+"/sub/x/d"))
		},
		"make": func(dir string) error {
			return errors.Join(os.Remove(dir+"/sub/x"), os.Mkdir(dir+"/sub/x", 0o755))
		},
	}
	for _, to := range []string{"y", "new"} {
		for _, flags := range []uint32{0, unix.RENAME_NOREPLACE, unix.RENAME_EXCHANGE} {
			for what, other := range others {
				t.Run(fmt.Sprintf("%s to %s with %d", what, to, flags), func(t *testing.T) {
					for at := 1; ; at++ {
						dir := t.TempDir()
						for _, name := range []string{"d/.env", "sub/x", "shown/y", "shown/z"} {
							write(t, dir, name, name)
						}
						rules := &beatRules{Rules: compiled(t, "**=write", ".env=none", "shown/**=write")}
						tr := testTree(t, dir, rules)
						sub, shown := known(t, tr, rootID, "sub"), known(t, tr, rootID, "shown")
						known(t, tr, sub, "x")
						rules.asked, rules.at, rules.do = 0, at, func() { ok(t, "the other sandbox", other(dir)) }
						in := fuse.RenameIn{InHeader: fuse.InHeader{NodeId: sub}, Newdir: shown, Flags: flags}
						answering(tr, func() fuse.Status { return tr.Rename(nil, &in, "x", to) })
						wrong := filepath.WalkDir(dir+"/shown", func(p string, e fs.DirEntry, err error) error {
							if err == nil && e.Name() == ".env" {
								err = fmt.Errorf("it moved %s", p)
							}
							return err
						})
						if wrong != nil {
							t.Errorf("at question %d: %v", at, wrong)
						}
						if left := temporaries(t, dir); left != "" {
							t.Errorf("at question %d: %s is left", at, left)
						}
						if n := tr.table.child(tr.table.get(shown), to); n != nil && n.isDir() {
							if st, err := os.Lstat(dir + "/shown/" + to); err != nil || !st.IsDir() {
								t.Errorf("at question %d: the tree takes %s for a directory", at, to)
							}
						}
						if rules.asked < at {
							break
						}
					}
				})
			}
		}
	}
}

// What the kernel knows by a name may be a directory that another sandbox has exchanged for a file
// since then. The rename of the file takes it nowhere.
func TestRenameOfWhatIsGone(t *testing.T) {
	for _, to := range []string{"y", "new"} {
		dir := t.TempDir()
		for _, name := range []string{"d/.env", "sub/x", "shown/y"} {
			write(t, dir, name, name)
		}
		other := func() {
			ok(t, "exchange", unix.Renameat2(unix.AT_FDCWD, dir+"/d", unix.AT_FDCWD, dir+"/sub/x", unix.RENAME_EXCHANGE))
		}
		tr := testTree(t, dir, compiled(t, "**=write", ".env=none", "shown/**=write"))
		sub, shown := known(t, tr, rootID, "sub"), known(t, tr, rootID, "shown")
		other()
		x := known(t, tr, sub, "x")
		other()
		in := fuse.RenameIn{InHeader: fuse.InHeader{NodeId: sub}, Newdir: shown}
		if status := answering(tr, func() fuse.Status { return tr.Rename(nil, &in, "x", to) }); syscall.Errno(status) != unix.ESTALE { // the kernel looks x up, and asks again
			t.Errorf("the rename to %s: %v", to, status)
		}
		var out fuse.EntryOut
		if tr.Lookup(nil, &fuse.InHeader{NodeId: x}, ".env", &out); out.NodeId != 0 {
			t.Errorf("after the rename to %s the hidden file can be found", to)
		}
		known(t, tr, sub, "x")
		if status := answering(tr, func() fuse.Status { return tr.Rename(nil, &in, "x", to) }); !status.Ok() {
			t.Errorf("the rename to %s again: %v", to, status)
		}
	}
}

// What the host has replaced, which the tree does not know yet, is renamed at the first try: a
// file as an editor saves it, a directory that is another one now, and both ends of an exchange.
func TestRenameOfWhatTheHostReplaced(t *testing.T) {
	mountedBoth(t, setup{NoWatch: true, Timeout: time.Hour, Parse: []string{"**=write"}, Host: func(t *testing.T, dir string) {
		for _, name := range []string{"a", "b", "c", "d/old"} {
			write(t, dir, name, "old")
		}
	}}, func(t *testing.T, c *client) {
		walk(t, c.dir)
		for _, name := range []string{"a", "b", "c"} {
			save(t, c.host, name, "new "+name)
		}
		ok(t, "rename on the host", os.Rename(filepath.Join(c.host, "d"), filepath.Join(c.host, "away")))
		write(t, c.host, "d/new", "new")
		ok(t, "rename", os.Rename(c.at("a"), c.at("x")))
		ok(t, "exchange", unix.Renameat2(unix.AT_FDCWD, c.at("b"), unix.AT_FDCWD, c.at("c"), unix.RENAME_EXCHANGE))
		ok(t, "rename the directory", os.Rename(c.at("d"), c.at("e")))
		for name, want := range map[string]string{"x": "5:new a", "b": "5:new c", "c": "5:new b", "e/new": "3:new"} {
			if got := content(c.at(name)); got != want {
				t.Errorf("%s has %s, want %s", name, got, want)
			}
		}
	})
}

// known returns the id of the node called name in the directory dir, as if the kernel had looked
// it up.
func known(t *testing.T, tr *tree, dir uint64, name string) uint64 {
	t.Helper()
	var out fuse.EntryOut
	if status := tr.Lookup(nil, &fuse.InHeader{NodeId: dir}, name, &out); !status.Ok() || out.NodeId == 0 {
		t.Fatalf("look %s up: %v", name, status)
	}
	return out.NodeId
}

// temporaries returns a name of the server's own below dir, "" if it finds none.
func temporaries(t *testing.T, dir string) (found string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(p string, e fs.DirEntry, err error) error {
		if err == nil && strings.HasPrefix(e.Name(), backing.OwnPrefix) {
			found = p
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	return found
}

// Between names that the rules tell apart a file moves as everywhere, but for exchanges.
func TestRenameBetweenRules(t *testing.T) {
	mounted(t, setup{Parse: []string{"**=write", ".env=none", "shown/**=write"}, Host: func(t *testing.T, dir string) {
		for _, name := range []string{"a", "b", "c", "link", "shown/b", "shown/link"} {
			write(t, dir, name, "content of "+name)
		}
		ok(t, "mkdir", os.Mkdir(filepath.Join(dir, "shown/d"), 0o755))
		ok(t, "remove", os.Remove(filepath.Join(dir, "shown/link")))
		ok(t, "link", os.Link(filepath.Join(dir, "link"), filepath.Join(dir, "shown/link")))
		ok(t, "symlink", os.Symlink("nowhere", filepath.Join(dir, "s")))
	}}, func(t *testing.T, c *client) {
		move := func(from, to string, flags uint, want syscall.Errno) {
			t.Helper()
			wantErrno(t, from+" to "+to, unix.Renameat2(unix.AT_FDCWD, c.at(from), unix.AT_FDCWD, c.at(to), flags), want)
		}
		f, err := os.OpenFile(c.at("a"), os.O_RDWR, 0)
		ok(t, "open", err)
		defer f.Close()
		move("a", "shown/a", 0, 0)
		_, err = f.WriteAt([]byte("C"), 0)
		ok(t, "write", err)
		move("b", "shown/b", unix.RENAME_NOREPLACE, syscall.EEXIST)
		move("c", "shown/b", unix.RENAME_EXCHANGE, syscall.EXDEV)
		move("b", "shown/b", 0, 0)
		move("c", "shown/d", 0, syscall.EISDIR)
		move("c", "shown/c", unix.RENAME_NOREPLACE, 0)
		move("link", "shown/link", 0, 0) // two names of one file: rename(2) does nothing
		move("s", "shown/s", 0, 0)
		for name, want := range map[string]string{
			"a": "", "shown/a": "Content of a", "b": "", "shown/b": "content of b", "c": "", "shown/c": "content of c",
			"link": "content of link", "shown/link": "content of link",
		} {
			if got, _ := os.ReadFile(c.at(name)); string(got) != want {
				t.Errorf("%s has %q, want %q", name, got, want)
			}
		}
		if to, err := os.Readlink(c.at("shown/s")); to != "nowhere" {
			t.Errorf("the link leads to %q, %v", to, err)
		}
		if left := temporaries(t, c.host); left != "" {
			t.Errorf("%s is left", left)
		}
	})
}
