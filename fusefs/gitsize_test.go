package fusefs

import (
	"os"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// A file that git on the host reads as a whole does not become longer than a limit, by whatever
// way, and other files do.
func TestGitReadsNoLongFile(t *testing.T) {
	mountedBoth(t, setup{
		Git: true, Policy: writable,
		Host: func(t *testing.T, dir string) {
			for _, name := range []string{".gitignore", "x", "sub/.gitattributes", "small", "other"} {
				write(t, dir, name, name)
			}
			write(t, dir, "long", strings.Repeat("x", maxGitRead+1))
		},
		After: func(t *testing.T, _ *Server, denied []Denial) {
			for _, d := range denied {
				if d.Errno == syscall.EFBIG && d.Reason == fillsGit && d.Path == ".gitignore" && d.Op == "write" {
					return
				}
			}
			t.Errorf("the denials are %v", denied)
		},
	}, func(t *testing.T, c *client) {
		open := func(name string, flags int) *os.File {
			f, err := os.OpenFile(c.at(name), flags, 0)
			ok(t, "open", err)
			t.Cleanup(func() { f.Close() })
			return f
		}
		pwrite := func(f *os.File, at int64) error { _, err := f.WriteAt([]byte("x"), at); return err }
		f := open(".gitignore", os.O_RDWR)
		ok(t, "write the last byte", pwrite(f, maxGitRead-1))
		wantErrno(t, "write one more", pwrite(f, maxGitRead), syscall.EFBIG)
		_, err := open(".gitignore", os.O_WRONLY|os.O_APPEND).Write([]byte("x"))
		wantErrno(t, "append", err, syscall.EFBIG)
		wantErrno(t, "truncate", f.Truncate(1<<33), syscall.EFBIG)
		wantErrno(t, "truncate by name", os.Truncate(c.at("sub/.gitattributes"), 1<<33), syscall.EFBIG)
		wantErrno(t, "allocate", unix.Fallocate(int(f.Fd()), 0, 0, maxGitRead+1), syscall.EFBIG)
		_, err = unix.CopyFileRange(int(open("long", os.O_RDONLY).Fd()), nil, int(open("sub/.gitattributes", os.O_WRONLY).Fd()), nil, 1<<30, 0)
		wantErrno(t, "copy", err, syscall.EFBIG)
		_, err = unix.CopyFileRange(int(open("small", os.O_RDONLY).Fd()), nil, int(open("sub/.gitattributes", os.O_WRONLY).Fd()), nil, 1<<30, 0)
		ok(t, "copy a small file", err)
		wantErrno(t, "rename", rename(c.at("long"), c.at("sub/.gitmodules")), syscall.EFBIG)
		wantErrno(t, "rename over it", rename(c.at("long"), c.at(".gitignore")), syscall.EFBIG)
		wantErrno(t, "exchange", unix.Renameat2(unix.AT_FDCWD, c.at(".gitignore"), unix.AT_FDCWD, c.at("long"), unix.RENAME_EXCHANGE), syscall.EFBIG)
		wantErrno(t, "link", os.Link(c.at("long"), c.at("sub/.mailmap")), syscall.EFBIG)
		ok(t, "link a small one", os.Link(c.at("small"), c.at("sub/.mailmap")))
		ok(t, "shorten", f.Truncate(3))
		ok(t, "lengthen another file", os.Truncate(c.at("x"), 1<<33))
		ok(t, "move it", rename(c.at(".gitignore"), c.at("ignored")))
		ok(t, "then it is another file", pwrite(f, maxGitRead))
		wantErrno(t, "and is too long to come back", rename(c.at("ignored"), c.at(".gitignore")), syscall.EFBIG)
		if !c.copied {
			wantErrno(t, "by another name of it", os.Truncate(c.at("small"), 1<<33), syscall.EFBIG)
		}
	})
}
