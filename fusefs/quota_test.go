package fusefs

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"testing"

	"wolffia/fusefs/backing"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// No way to use the disk goes past the quota, what is full can still be read,
// overwritten and deleted, and what is deleted makes room.
func TestQuota(t *testing.T) {
	const mega = 1 << 20
	block := bytes.Repeat([]byte("x"), mega)
	mounted(t, setup{
		Quota: 4 * mega,
		Host: func(t *testing.T, dir string) {
			write(t, dir, "before", string(block))
		},
	}, func(t *testing.T, c *client) {
		full := func(what string, err error) {
			t.Helper()
			wantErrno(t, what, err, unix.EDQUOT)
		}
		put := func(name string, n int) error {
			for i := range n {
				f, err := os.OpenFile(c.at(name), os.O_CREATE|os.O_WRONLY, 0o644)
				if err == nil {
					_, err = f.WriteAt(block, int64(i)*mega)
					f.Close()
				}
				if err != nil {
					return err
				}
			}
			return nil
		}
		room := func(what, name string) {
			t.Helper()
			becomes(t, what, "<nil>", func() string {
				err := put(name, 3)
				if err != nil {
					os.Remove(c.at(name))
				}
				return fmt.Sprint(err)
			})
		}
		ok(t, "three of four", put("a", 3))
		full("two more", put("b", 2))
		ok(t, "overwrite what is there", put("a", 3))
		f, err := os.OpenFile(c.at("a"), os.O_RDWR, 0)
		ok(t, "open", err)
		defer f.Close()
		full("fallocate", unix.Fallocate(int(f.Fd()), 0, 4*mega, 4*mega))
		ok(t, "a hole", f.Truncate(1<<40))
		_, err = f.WriteAt(block, 1<<39)
		full("write into the hole", err)
		ok(t, "cut off", f.Truncate(mega))
		_, err = f.WriteAt(block, 1<<39)
		ok(t, "write into the hole", err)
		ok(t, "cut off", f.Truncate(0))
		ok(t, "delete", os.Remove(c.at("b")))
		room("the room of what was deleted", "c")

		// What is deleted and still open takes its room until it is closed.
		c3, err := os.OpenFile(c.at("c"), os.O_RDWR, 0)
		ok(t, "open", err)
		ok(t, "delete what is open", os.Remove(c.at("c")))
		full("in the place of what is open", put("d", 2))
		ok(t, "delete", os.Remove(c.at("d")))
		c3.Close()
		room("the room of what was closed", "e")

		// Nor is it free if it had another name, which was deleted last.
		ok(t, "delete", os.Remove(c.at("e")))
		var open []*os.File
		linked := func() error {
			f, err := os.OpenFile(c.at("f"), os.O_CREATE|os.O_RDWR, 0o644)
			if err != nil {
				return err
			}
			open = append(open, f)
			if _, err = f.WriteAt(block, 0); err == nil {
				err = os.Link(c.at("f"), c.at("g"))
			}
			os.Remove(c.at("f"))
			os.Remove(c.at("g"))
			return err
		}
		becomes(t, "open files that had another name", unix.EDQUOT.Error(), func() string {
			if len(open) > 20 {
				return "more than the quota"
			}
			if err := linked(); err != nil {
				return errnoIn(err).Error()
			}
			return ""
		})
		if len(open) > 6 {
			t.Errorf("%d files of 1 MB in 4", len(open)-1)
		}
		full("more than there can be", unix.Fallocate(int(open[0].Fd()), 0, 0, 1<<63-1))
		for _, f := range open {
			f.Close()
		}
		room("the room of what was closed", "e")

		// A great many objects without content.
		var err2 error
		n := 0
		for ; err2 == nil && n < 1000; n++ {
			err2 = os.Mkdir(c.at(fmt.Sprint("dir", n)), 0o755)
		}
		full(fmt.Sprint("directory ", n), err2)
		if n < 200 || n > 256 {
			t.Errorf("%d directories in a megabyte", n)
		}
		full("file", os.WriteFile(c.at("new"), nil, 0o644))
		full("link", os.Symlink("x", c.at("link")))
		ok(t, "open with O_CREAT what is there", put("e", 1))
		full("another name", os.Link(c.at("e"), c.at("e2")))
		var st unix.Statfs_t
		ok(t, "statfs", unix.Statfs(c.dir, &st))
		if st.Blocks*uint64(st.Frsize) != 4*mega || st.Bavail*uint64(st.Frsize) >= backing.ObjectCost {
			t.Errorf("statfs: %d blocks of %d, %d free", st.Blocks, st.Frsize, st.Bavail)
		}
		ok(t, "rmdir", os.Remove(c.at("dir0")))
		ok(t, "another name", os.Link(c.at("e"), c.at("e2")))
		ok(t, "rmdir", os.Remove(c.at("dir1")))
		ok(t, "file", os.WriteFile(c.at("new"), nil, 0o644))
		ok(t, "rename over", os.Rename(c.at("new"), c.at("e2")))

		// Copies in the kernel.
		ok(t, "delete", os.Remove(c.at("e")))
		src, err := os.Open(c.at("before"))
		ok(t, "open", err)
		defer src.Close()
		copies := 0
		becomes(t, "copies", "some", func() string {
			dst, err := os.Create(c.at("copy"))
			ok(t, "create", err)
			defer dst.Close()
			copies = 0
			for i := range int64(8) {
				from, to := int64(0), i*mega
				if n, err := unix.CopyFileRange(int(src.Fd()), &from, int(dst.Fd()), &to, mega, 0); err != nil || n < mega {
					break
				}
				copies++
			}
			if copies < 2 || copies > 3 { // of 3 MB that become free when e is backing.Forgotten
				return fmt.Sprint(copies)
			}
			return "some"
		})
	})
}

// No data exceeds the quota through two names of one file. To the kernel they are two files, and
// the size of one that it caches is the size before the other was written: it sends an append with
// an offset that lies within data.
func TestQuotaOfTwoNames(t *testing.T) {
	const mega, limit = 1 << 20, 4 << 20
	mounted(t, setup{
		Quota: limit,
		Host: func(t *testing.T, dir string) {
			write(t, dir, "source", string(bytes.Repeat([]byte("s"), mega)))
		},
	}, func(t *testing.T, c *client) {
		src, err := os.Open(c.at("source"))
		ok(t, "open", err)
		defer src.Close()
		block := bytes.Repeat([]byte("x"), 64<<10)
		for _, way := range []struct {
			name   string
			flags  int
			extend func(f *os.File, end int64) error
		}{
			{"append", os.O_APPEND, func(f *os.File, _ int64) error { _, err := f.Write(block); return err }},
			{"write", 0, func(f *os.File, end int64) error { _, err := f.WriteAt(block, end); return err }},
			{"mapped", 0, func(f *os.File, end int64) error {
				if err := f.Truncate(end + int64(len(block))); err != nil {
					return err
				}
				b, err := unix.Mmap(int(f.Fd()), end, len(block), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
				if err != nil {
					return err
				}
				copy(b, block)
				return errors.Join(unix.Msync(b, unix.MS_SYNC), unix.Munmap(b))
			}},
			{"allocated", 0, func(f *os.File, end int64) error {
				return unix.Fallocate(int(f.Fd()), 0, end, int64(len(block)))
			}},
			{"copied", 0, func(f *os.File, end int64) error {
				from := int64(0)
				_, err := unix.CopyFileRange(int(src.Fd()), &from, int(f.Fd()), &end, len(block), 0)
				return err
			}},
		} {
			a, b := c.at(way.name), c.at(way.name+"-too")
			ok(t, "create", os.WriteFile(a, nil, 0o644))
			ok(t, "link", os.Link(a, b))
			var files [2]*os.File
			for i, p := range []string{a, b} {
				files[i], err = os.OpenFile(p, os.O_RDWR|way.flags, 0)
				ok(t, "open", err)
				defer files[i].Close()
			}
			refused := 0
			for i := range int64(200) { // 12.5 MB
				if err := way.extend(files[i%2], i*int64(len(block))); err != nil {
					refused++
				}
			}
			var st unix.Stat_t
			ok(t, "stat", unix.Stat(a, &st))
			if room := st.Blocks * 512; refused == 0 || room > limit || room < limit/2 {
				t.Errorf("%s: %d of 200 refused, %d bytes allocated of %d", way.name, refused, room, limit)
			}
			ok(t, "cut off", files[0].Truncate(0))
		}
	})
}

// After files were deleted that existed before, the free blocks are not more than the blocks,
// which would make df(1) print nonsense.
func TestQuotaFreesNoMoreThanThereIs(t *testing.T) {
	tr := testTree(t, t.TempDir(), compiled(t, "**=write"))
	tr.Quota = backing.NewQuota(4 << 20)
	tr.Quota.Release(50 << 20)
	var out fuse.StatfsOut
	if status := tr.StatFs(nil, &fuse.InHeader{NodeId: rootID}, &out); !status.Ok() {
		t.Fatal(status)
	}
	if out.Blocks == 0 || out.Bfree > out.Blocks || out.Bavail > out.Blocks {
		t.Errorf("%d blocks, %d free, %d available", out.Blocks, out.Bfree, out.Bavail)
	}
	ok(t, "more than the limit, in place of what was deleted", errnoOrNil(tr.Quota.Reserve(20<<20)))
}

func errnoOrNil(errno unix.Errno) error {
	if errno != 0 {
		return errno
	}
	return nil
}
