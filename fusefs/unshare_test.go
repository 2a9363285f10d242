package fusefs

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// linkedOut makes files in dir that have another name in dir's neighbour "outside",
// which no tree serves.
func linkedOut(t *testing.T, dir string, names ...string) {
	t.Helper()
	outside := filepath.Join(filepath.Dir(dir), "outside")
	for _, name := range names {
		write(t, dir, name, "original "+name)
		if err := os.MkdirAll(filepath.Join(outside, filepath.Dir(name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Link(filepath.Join(dir, name), filepath.Join(outside, name)); err != nil {
			t.Fatal(err)
		}
	}
}

// held is what a file holds.
func held(path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// linkChanges are the ways to change a file, and what it holds afterwards if it is theirs.
var linkChanges = []struct {
	name string
	do   func(path string) error
	want string // %s is what was there
}{
	{"write", func(p string) error { return overwrite(p, os.O_WRONLY, "W") }, "W%s"},
	{"append", func(p string) error { return overwrite(p, os.O_WRONLY|os.O_APPEND, "W") }, "%sW"},
	{"create", func(p string) error { return os.WriteFile(p, []byte("new"), 0o644) }, "new"},
	{"truncate", func(p string) error { return os.Truncate(p, 0) }, ""},
	{"lengthen", func(p string) error { return os.Truncate(p, 100) }, "%s\x00"},
	{"map", func(p string) error {
		return with(p, func(fd int) error {
			b, err := unix.Mmap(fd, 0, 1, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
			if err != nil {
				return err
			}
			b[0] = 'M'
			return errors.Join(unix.Msync(b, unix.MS_SYNC), unix.Munmap(b))
		})
	}, "M%s"},
	{"fallocate", func(p string) error {
		return with(p, func(fd int) error {
			return unix.Fallocate(fd, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, 0, 1)
		})
	}, "\x00%s"},
	{"copy to", func(p string) error {
		return with(p, func(fd int) error {
			from, to := int64(1), int64(0)
			_, err := unix.CopyFileRange(fd, &from, fd, &to, 1, 0)
			return err
		})
	}, "r%s"},
	{"chmod", func(p string) error { return os.Chmod(p, 0o600) }, "%s"},
	{"times", func(p string) error { return os.Chtimes(p, time.Unix(1, 0), time.Unix(1, 0)) }, "%s"},
	{"unlinked", func(p string) error {
		f, err := os.OpenFile(p, os.O_RDWR, 0)
		if err != nil {
			return err
		}
		defer f.Close()
		if err := os.Remove(p); err != nil {
			return err
		}
		if _, err = f.WriteAt([]byte("W"), 0); err != nil {
			return err
		}
		if err := f.Chmod(0o600); err != nil {
			return err
		}
		b := make([]byte, 100)
		n, _ := f.ReadAt(b, 0)
		return os.WriteFile(p, b[:n], 0o644) // the writer sees its own data
	}, "W%s"},
	{"replaced", func(p string) error {
		f, err := os.OpenFile(p, os.O_RDWR, 0)
		if err != nil {
			return err
		}
		defer f.Close()
		if err := os.WriteFile(p+".new", []byte("other"), 0o644); err != nil {
			return err
		}
		if err := os.Rename(p+".new", p); err != nil {
			return err
		}
		_, err = f.WriteAt([]byte("W"), 0)
		return err
	}, "other"},
}

func overwrite(path string, flags int, text string) error {
	f, err := os.OpenFile(path, flags, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.WriteString(text)
	return err
}

func with(path string, do func(fd int) error) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	return do(int(f.Fd()))
}

// Whatever is done to a file that has a name outside of the tree, the one outside
// stays what it is, in content, mode and times; inside it is done.
func TestLinksThatLeadOut(t *testing.T) {
	var host string
	before := map[string]unix.Stat_t{}
	mounted(t, setup{
		Host: func(t *testing.T, dir string) {
			host = dir
			for _, c := range linkChanges {
				linkedOut(t, dir, "sub/"+c.name)
				p := filepath.Join(dir, "sub", c.name)
				ok(t, "chmod", os.Chmod(p, 0o640))
				ok(t, "times", os.Chtimes(p, time.Unix(1e9, 5), time.Unix(1e9, 5)))
				var st unix.Stat_t
				ok(t, "stat", unix.Stat(p, &st))
				before[c.name] = st
			}
		},
		After: func(t *testing.T, _ *Server, _ []Denial) {
			for _, c := range linkChanges {
				name := "sub/" + c.name
				outside := filepath.Join(filepath.Dir(host), "outside", name)
				was := "original " + name
				if got := held(outside); got != was {
					t.Errorf("%s: outside there is %q now", c.name, got)
				}
				var st unix.Stat_t
				ok(t, "stat", unix.Stat(outside, &st))
				old := before[c.name]
				if st.Ino != old.Ino || st.Mode != old.Mode || st.Mtim != old.Mtim || st.Nlink != 1 {
					t.Errorf("%s: outside was %+v and is %+v", c.name, old, st)
				}
				inside := held(filepath.Join(host, name))
				if want := strings.Replace(c.want, "%s", was, 1); !strings.Contains(inside, strings.Trim(c.want, "%s")) || c.want == "%s" && inside != want {
					t.Errorf("%s: inside there is %q", c.name, inside)
				}
			}
			if names, _ := os.ReadDir(filepath.Join(host, "sub")); len(names) != len(linkChanges) {
				t.Errorf("left behind: %v", names)
			}
		},
	}, func(t *testing.T, c *client) {
		for _, change := range linkChanges {
			ok(t, change.name, change.do(c.at("sub/"+change.name)))
		}
		var st unix.Stat_t
		ok(t, "stat", unix.Stat(c.at("sub/write"), &st))
		if st.Mode&0o777 != 0o640 || st.Nlink != 1 {
			t.Errorf("what was copied has mode %#o and %d links", st.Mode, st.Nlink)
		}
	})
}

// A process that has such a file open or mapped sees the same file before and after.
func TestLinkThatLeadsOutStaysOneFile(t *testing.T) {
	mounted(t, setup{Timeout: time.Hour, Host: func(t *testing.T, dir string) {
		linkedOut(t, dir, "file")
	}}, func(t *testing.T, c *client) {
		var files []*os.File
		for _, flags := range []int{os.O_RDONLY, os.O_RDWR, os.O_WRONLY | os.O_APPEND} {
			f, err := os.OpenFile(c.at("file"), flags, 0)
			ok(t, "open", err)
			defer f.Close()
			files = append(files, f)
		}
		m, err := unix.Mmap(int(files[1].Fd()), 0, 8, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		ok(t, "map", err)
		defer unix.Munmap(m)
		seen := func(want string) {
			t.Helper()
			b := make([]byte, 100)
			n, _ := files[0].ReadAt(b, 0)
			if string(b[:n]) != want || string(m) != want[:8] || held(c.at("file")) != want {
				t.Errorf("read %q, mapped %q, by name %q; want %q", b[:n], m, held(c.at("file")), want)
			}
		}
		seen("original file")
		_, err = files[1].WriteAt([]byte("O"), 0)
		ok(t, "write", err)
		seen("Original file")
		m[1] = 'R'
		ok(t, "msync", unix.Msync(m, unix.MS_SYNC))
		seen("ORiginal file")
		_, err = files[2].WriteString("!")
		ok(t, "append", err)
		seen("ORiginal file!")
	})
}

// A file with all its names inside stays one file, unless one of them is not writable.
func TestLinksInside(t *testing.T) {
	var host string
	mounted(t, setup{
		Parse: []string{"/=write", "fixed/=read"},
		Host: func(t *testing.T, dir string) {
			host = dir
			for _, name := range []string{"a/both", "a/guarded", "fixed/other"} {
				write(t, dir, name, "original")
			}
			ok(t, "link", os.Link(filepath.Join(dir, "a/both"), filepath.Join(dir, "a/both-too")))
			ok(t, "link", os.Link(filepath.Join(dir, "a/guarded"), filepath.Join(dir, "fixed/guarded")))
		},
		After: func(t *testing.T, _ *Server, _ []Denial) {
			for name, want := range map[string]string{
				"a/both": "new", "a/both-too": "new", "a/made": "new", "a/made-too": "new",
				"a/guarded": "new", "fixed/guarded": "original",
			} {
				if got := held(filepath.Join(host, name)); got != want {
					t.Errorf("%s holds %q, want %q", name, got, want)
				}
			}
		},
	}, func(t *testing.T, c *client) {
		ok(t, "create", os.WriteFile(c.at("a/made"), nil, 0o644))
		ok(t, "link", os.Link(c.at("a/made"), c.at("a/made-too")))
		for _, name := range []string{"a/both-too", "fixed/guarded"} {
			held(c.at(name)) // is known
		}
		for _, name := range []string{"a/both", "a/made", "a/guarded"} {
			ok(t, "write", os.WriteFile(c.at(name), []byte("new"), 0o644))
		}
	})
}

// A copy is charged to the quota, and refused without room; holes are kept.
func TestLinkThatLeadsOutAndQuota(t *testing.T) {
	const mega = 1 << 20
	mounted(t, setup{
		Quota: 3 * mega,
		Host: func(t *testing.T, dir string) {
			linkedOut(t, dir, "a", "b", "sparse")
			for _, name := range []string{"a", "b"} {
				ok(t, "fill", overwrite(filepath.Join(dir, name), os.O_WRONLY, string(bytes.Repeat([]byte("x"), 2*mega))))
			}
			ok(t, "a hole", os.Truncate(filepath.Join(dir, "sparse"), 1<<40))
		},
	}, func(t *testing.T, c *client) {
		ok(t, "write to a hole's neighbour", overwrite(c.at("sparse"), os.O_WRONLY, "W"))
		ok(t, "write", overwrite(c.at("a"), os.O_WRONLY, "W"))
		wantErrno(t, "write", overwrite(c.at("b"), os.O_WRONLY, "W"), unix.EDQUOT)
		ok(t, "truncate, which needs no room", os.Truncate(c.at("b"), 1))
		ok(t, "write", overwrite(c.at("b"), os.O_WRONLY, "W"))
		if got := held(c.at("b")); got != "W" {
			t.Errorf("b holds %d bytes", len(got))
		}
	})
}

// Programs that write to one file at a time lose nothing by its being copied.
func TestLinkThatLeadsOutInARace(t *testing.T) {
	const rounds, writers = 30, 8
	var host string
	names := make([]string, rounds)
	for i := range names {
		names[i] = fmt.Sprint("file", i)
	}
	mounted(t, setup{
		Host: func(t *testing.T, dir string) {
			host = dir
			linkedOut(t, dir, names...)
		},
		After: func(t *testing.T, _ *Server, _ []Denial) {
			for _, name := range names {
				if got := held(filepath.Join(filepath.Dir(host), "outside", name)); got != "original "+name {
					t.Errorf("outside there is %q now", got)
				}
				if got, want := held(filepath.Join(host, name)), strings.Repeat("x", writers)+("original " + name)[writers:]; got != want {
					t.Errorf("inside there is %q, want %q", got, want)
				}
			}
		},
	}, func(t *testing.T, c *client) {
		for _, name := range names {
			ended := make(chan error, writers)
			for i := range writers {
				go func() { // ends when it has written
					ended <- with(c.at(name), func(fd int) error {
						_, err := unix.Pwrite(fd, []byte("x"), int64(i))
						return err
					})
				}()
			}
			for range writers {
				ok(t, "write", <-ended)
			}
		}
	})
}
