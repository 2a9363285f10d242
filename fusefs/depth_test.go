package fusefs

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"wolffia/fusefs/backing"

	"golang.org/x/sys/unix"
)

// descend makes a directory called name in the one open as dir, and opens it instead.
func descend(dir int, name string) (int, error) {
	err := unix.Mkdirat(dir, name, 0o755)
	if err != nil {
		return dir, err
	}
	below, err := unix.Openat(dir, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return dir, err
	}
	unix.Close(dir)
	return below, nil
}

// bottom makes directories called name below one another, n of them, and opens the last.
func bottom(t *testing.T, root, name string, n int) int {
	t.Helper()
	dir, err := unix.Open(root, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	for i := 0; i < n && err == nil; i++ {
		dir, err = descend(dir, name)
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// What a file without a name costs the server does not grow with the length of the
// path that it had.
func TestOrphansAreCheapInTheDeep(t *testing.T) {
	const files, most = 300, 16 << 20 // bytes; their paths have 150 MB
	mounted(t, setup{}, func(t *testing.T, c *client) {
		dir := bottom(t, c.dir, strings.Repeat("d", 250), 2000)
		defer unix.Close(dir)
		before := c.load(t)
		for i := range files {
			name := fmt.Sprint(i)
			fd, err := unix.Openat(dir, name, unix.O_RDWR|unix.O_CREAT|unix.O_CLOEXEC, 0o644)
			ok(t, "create", err)
			defer unix.Close(fd)
			ok(t, "unlink", unix.Unlinkat(dir, name, 0))
		}
		after := c.load(t)
		t.Logf("%d files without a name: from %d to %d bytes", files, before.Heap, after.Heap)
		if after.Heap > before.Heap+most || after.Heap > 2*most {
			t.Errorf("%d files without a name take the server from %d to %d bytes", files, before.Heap, after.Heap)
		}
	})
}

// A file that has lost its name is judged by the last it had, also when the directory
// that it was in has lost its own, and is backing.Forgotten.
func TestRulesOfOrphansInTheDeep(t *testing.T) {
	mounted(t, setup{Parse: []string{"/=write"}}, func(t *testing.T, c *client) {
		var files []*os.File
		for _, top := range []string{"a", "b"} {
			ok(t, "mkdir", os.MkdirAll(c.at(top+"/sub/deep"), 0o755))
			f, err := os.Create(c.at(top + "/sub/deep/file"))
			ok(t, "create", err)
			defer f.Close()
			files = append(files, f)
			ok(t, "remove", os.RemoveAll(c.at(top)))
		}
		c.setRules(t, "/=write", "a/sub/=read")
		_, err := files[0].Write([]byte("x"))
		wantErrno(t, "write to what was in a", err, unix.EACCES)
		_, err = files[1].Write([]byte("x"))
		ok(t, "write to what was in b", err)
	})
}

// There is a depth below which no name can be used; it is not got around by moving
// what is deep into what is deep, and whatever is too deep can be moved back.
func TestDepthIsBounded(t *testing.T) {
	const name = "d"
	mounted(t, setup{}, func(t *testing.T, c *client) {
		dir, err := unix.Open(c.dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		ok(t, "open", err)
		n := 0
		for ; n < 2*backing.MaxDepth; n++ {
			if dir, err = descend(dir, name); err != nil {
				break
			}
		}
		wantErrno(t, "mkdir", err, unix.ENAMETOOLONG)
		if n != backing.MaxDepth+1 { // the last is empty for ever
			t.Errorf("%d directories below one another, want %d", n, backing.MaxDepth+1)
		}
		wantErrno(t, "mkfifo", unix.Mkfifoat(dir, "x", 0o644), unix.ENAMETOOLONG)
		unix.Close(dir)

		// A tree of half the depth, and a file that is open in it, go below another.
		half := bottom(t, c.at("."), "half", backing.MaxDepth/2)
		defer unix.Close(half)
		f, err := unix.Openat(half, "file", unix.O_RDWR|unix.O_CREAT|unix.O_CLOEXEC, 0o644)
		ok(t, "create", err)
		defer unix.Close(f)
		other := bottom(t, c.at("."), "other", backing.MaxDepth-10)
		defer unix.Close(other)
		ok(t, "move it down", unix.Renameat(unix.AT_FDCWD, c.at("half"), other, "half"))
		var st unix.Stat_t
		wantErrno(t, "stat in it", unix.Fstatat(half, "nothing", &st, 0), unix.ENAMETOOLONG)
		_, err = unix.Write(f, []byte("x"))
		ok(t, "write", err)
		ok(t, "move it up", unix.Renameat(other, "half", unix.AT_FDCWD, c.at("again")))
		ok(t, "stat in it", unix.Fstatat(half, "file", &st, 0))
	})
}

// A lookup in a deep directory does not go all the way to the root. That others make,
// move and remove directories changes nothing in that.
func TestDeepLookupsAreCheap(t *testing.T) {
	const depth, lookups = 1000, 500
	mounted(t, setup{Timeout: time.Hour}, func(t *testing.T, c *client) {
		dir := bottom(t, c.dir, "d", depth)
		defer unix.Close(dir)
		ok(t, "mkdir", os.MkdirAll(c.at("busy/full"), 0o755))
		before := c.load(t)
		for i := range lookups {
			var st unix.Stat_t
			wantErrno(t, "stat", unix.Fstatat(dir, fmt.Sprint(i), &st, 0), unix.ENOENT)
			ok(t, "mkdir", os.Mkdir(c.at("busy/a"), 0o755))
			ok(t, "rename", os.Rename(c.at("busy/a"), c.at("busy/b")))
			ok(t, "rmdir", os.Remove(c.at("busy/b")))
		}
		if n := c.load(t).Walked - before.Walked; n > 2*(depth+lookups) {
			t.Errorf("%d lookups at depth %d went through %d directories", lookups, depth, n)
		}
	})
}

// The server notices that the host moves a directory far above away, whatever it validated
// before: by an event, or after the timeout. Moved back, it can be used again.
func TestMovedFarAbove(t *testing.T) {
	for _, noWatch := range []bool{false, true} {
		t.Run(fmt.Sprintf("NoWatch=%v", noWatch), func(t *testing.T) {
			mounted(t, setup{NoWatch: noWatch, Timeout: 100 * time.Millisecond, Host: func(t *testing.T, dir string) {
				write(t, dir, "a/b/c/d/e/file", "content")
				write(t, dir, "elsewhere/file", "content")
			}}, func(t *testing.T, c *client) {
				dir, err := unix.Open(c.at("a/b/c/d/e"), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
				ok(t, "open", err)
				defer unix.Close(dir)
				i := 0
				create := func() string {
					i++
					fd, err := unix.Openat(dir, fmt.Sprint(i), unix.O_RDWR|unix.O_CREAT|unix.O_CLOEXEC, 0o644)
					if err != nil {
						return "refused"
					}
					unix.Close(fd)
					return "done"
				}
				becomes(t, "create", "done", create)
				ok(t, "move away", os.Rename(c.host+"/a/b", c.host+"/elsewhere/b"))
				becomes(t, "create after the move", "refused", create)
				for range 100 {
					if create() != "refused" {
						t.Fatal("it is refused, and then is not")
					}
				}
			})
		})
	}
}
