package fusefs

import (
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"wolffia/perm"
)

// levelRules give each level to a name, a directory of that name and what is
// in it.
var levelRules = []fakeRule{
	{"/none", perm.None},
	{"/view", perm.View},
	{"/read", perm.Read},
	{".env", perm.None},
	{"list.txt", perm.View},
	{"ro.txt", perm.Read},
}

func levelHost(t *testing.T, dir string) {
	for _, d := range []string{"none", "view", "read", "write"} {
		write(t, dir, d+"/file", d+" content")
		write(t, dir, d+"/sub/deep", d+" deep")
	}
	for _, f := range []string{".env", "list.txt", "ro.txt", "rw.txt"} {
		write(t, dir, f, f+" content")
	}
}

func TestLevels(t *testing.T) {
	mountedBoth(t, setup{Rules: levelRules, Host: levelHost}, func(t *testing.T, c *client) {
		t.Run("before", func(t *testing.T) { useLevels(t, c) })
		t.Run("later", func(t *testing.T) {
			for _, f := range []string{".env", "list.txt", "ro.txt", "rw.txt"} {
				write(t, filepath.Join(c.host, "write/new/dir"), f, f+" content")
			}
			useNames(t, c, "write/new/dir")
		})
	})
}

func useLevels(t *testing.T, c *client) {
	useNames(t, c, "")
	names, err := readNames(c.dir)
	ok(t, "list the root", err)
	want := []string{"list.txt", "read", "ro.txt", "rw.txt", "view", "write"}
	if !slices.Equal(names, want) {
		t.Errorf("root lists %q, want %q", names, want)
	}
	_, err = readNames(c.at("none"))
	wantErrno(t, "list none", err, syscall.ENOENT)
	for _, d := range []string{"view", "read", "write"} {
		names, err := readNames(c.at(d))
		ok(t, "list "+d, err)
		if !slices.Equal(names, []string{"file", "sub"}) {
			t.Errorf("%s lists %q", d, names)
		}
	}
	for _, tt := range []struct {
		name string
		read syscall.Errno
		made syscall.Errno
	}{
		{"none", syscall.ENOENT, syscall.ENOENT},
		{"view", syscall.EACCES, syscall.EACCES},
		{"read", 0, syscall.EACCES},
		{"write", 0, 0},
	} {
		_, err := os.ReadFile(c.at(tt.name + "/sub/deep"))
		wantErrno(t, "read in "+tt.name, err, tt.read)
		wantErrno(t, "create in "+tt.name, os.WriteFile(c.at(tt.name+"/sub/made"), nil, 0o644), tt.made)
		wantErrno(t, "mkdir in "+tt.name, os.Mkdir(c.at(tt.name+"/sub/madedir"), 0o755), tt.made)
		wantErrno(t, "symlink in "+tt.name, os.Symlink("x", c.at(tt.name+"/sub/madelink")), tt.made)
		wantErrno(t, "fifo in "+tt.name, unix.Mkfifo(c.at(tt.name+"/sub/madefifo"), 0o644), tt.made)
		wantErrno(t, "link into "+tt.name, os.Link(c.at("rw.txt"), c.at(tt.name+"/sub/linked")), tt.made)
		wantErrno(t, "rename into "+tt.name, rename(c.at("write/file"), c.at(tt.name+"/sub/file")), tt.made)
		if tt.made == 0 {
			ok(t, "rename back", rename(c.at(tt.name+"/sub/file"), c.at("write/file")))
		}
	}
	ok(t, "create a hidden name", os.WriteFile(c.at("none2"), nil, 0o644))
	wantErrno(t, "create none", os.WriteFile(c.at("none"), nil, 0o644), syscall.EACCES)
	wantErrno(t, "mkdir none", os.Mkdir(c.at("none"), 0o755), syscall.EACCES)
}

// useNames does everything to a file of each level in dir.
func useNames(t *testing.T, c *client, dir string) {
	for _, tt := range []struct {
		name                     string
		stat, read, write, moved syscall.Errno
	}{
		{".env", syscall.ENOENT, syscall.ENOENT, syscall.EACCES, syscall.ENOENT},
		{"list.txt", 0, syscall.EACCES, syscall.EACCES, syscall.EACCES},
		{"ro.txt", 0, 0, syscall.EACCES, syscall.EACCES},
		{"rw.txt", 0, 0, 0, 0},
	} {
		p := c.at(filepath.Join(dir, tt.name))
		other := c.at(filepath.Join(dir, "other"))
		_, err := os.Lstat(p)
		wantErrno(t, "stat "+tt.name, err, tt.stat)
		_, err = os.ReadFile(p)
		wantErrno(t, "read "+tt.name, err, tt.read)
		f, err := os.OpenFile(p, os.O_WRONLY|os.O_CREATE, 0o644)
		wantErrno(t, "open to write "+tt.name, err, tt.write)
		if err == nil {
			_, err = f.WriteString("changed")
			ok(t, "write "+tt.name, err)
			ok(t, "close "+tt.name, f.Close())
		}
		wantErrno(t, "chmod "+tt.name, os.Chmod(p, 0o600), tt.moved)
		wantErrno(t, "truncate "+tt.name, os.Truncate(p, 1), tt.moved)
		wantErrno(t, "link "+tt.name, os.Link(p, other), tt.moved)
		os.Remove(other)
		wantErrno(t, "rename "+tt.name, rename(p, other), tt.moved)
		if tt.moved == 0 {
			ok(t, "rename back "+tt.name, rename(other, p))
		}
		made := c.at(filepath.Join(dir, "made"))
		ok(t, "make a file", os.WriteFile(made, []byte("made"), 0o644))
		wantErrno(t, "rename onto "+tt.name, rename(made, p), tt.write)
		os.Remove(made)
		wantErrno(t, "remove "+tt.name, unix.Unlink(p), tt.moved)
		if tt.moved == 0 {
			ok(t, "make again "+tt.name, os.WriteFile(p, []byte("again"), 0o644))
		}
	}
}

// rename is rename(2): os.Rename looks first.
func rename(from, to string) error { return unix.Rename(from, to) }

func readNames(dir string) ([]string, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	names, err := f.Readdirnames(-1)
	slices.Sort(names)
	return names, err
}
