package fusefs

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"wolffia/internal/test/mounttest"
	"wolffia/internal/test/testenv"
)

// raceTime is how long a race runs: a minute in a full run, else a moment. WOLFFIA_RACE is
// another time.
func raceTime(t *testing.T) time.Duration {
	if s := os.Getenv("WOLFFIA_RACE"); s != "" {
		d, err := time.ParseDuration(s)
		if err != nil || d > mounttest.Limit-10*time.Second {
			t.Fatalf("WOLFFIA_RACE=%s: want a duration below %v", s, mounttest.Limit-10*time.Second)
		}
		return d
	}
	if testenv.Full() {
		return time.Minute
	}
	return time.Second
}

// While a directory is exchanged for a link that leads out, nothing outside is
// ever read, listed, changed, made or removed through the mount. The host
// exchanges them, or the sandbox does.
func TestSwapsNeverEscape(t *testing.T) {
	for name, root := range map[string]func(*client) string{
		"ByHost":    func(c *client) string { return c.host },
		"BySandbox": func(c *client) string { return c.dir },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			mounted(t, setup{
				Timeout: time.Millisecond,
				FDs:     16, // so that names are walked again and again
				Host:    plantSwap,
			}, func(t *testing.T, c *client) { swaps(t, c, root(c)) })
		})
	}
}

func plantSwap(t *testing.T, dir string) {
	for _, f := range []string{"file", "a/file", "a/b/file", "moved"} {
		write(t, dir, "dir/"+f, "inside")
		write(t, dir, "../outside/"+f, secret)
	}
	write(t, dir, "../outside/only", secret)
	if err := os.Symlink("../outside", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
}

// swaps exchanges dir and link below root, while others use them.
func swaps(t *testing.T, c *client, root string) {
	outside := filepath.Join(filepath.Dir(c.host), "outside")
	before := snapshot(t, outside)
	// The client would follow the link itself; NO_SYMLINKS leaves it to the
	// server to be fooled.
	top, err := unix.Open(c.dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(top)
	open := func(name string, flags uint64) (int, error) {
		how := unix.OpenHow{Flags: flags | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS}
		if flags&unix.O_CREAT != 0 {
			how.Mode = 0o644
		}
		return unix.Openat2(top, name, &how)
	}
	// in calls f with the directory called dir or link, if it is one now.
	in := func(name string, f func(fd int)) {
		if fd, err := open(name, unix.O_RDONLY|unix.O_DIRECTORY); err == nil {
			f(fd)
			unix.Close(fd)
		}
	}
	end := time.Now().Add(raceTime(t))
	var good, swapped atomic.Int64
	var group sync.WaitGroup
	during := func(f func() error) {
		group.Go(func() {
			for time.Now().Before(end) {
				if err := f(); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	during(func() error {
		err := unix.Renameat2(unix.AT_FDCWD, filepath.Join(root, "dir"), unix.AT_FDCWD, filepath.Join(root, "link"), unix.RENAME_EXCHANGE)
		if err == nil {
			swapped.Add(1)
		}
		if errors.Is(err, unix.ESTALE) || root == c.host {
			return err
		}
		return nil
	})
	during(func() error {
		buf := make([]byte, 100)
		for _, name := range []string{"dir/file", "link/file", "dir/a/b/file", "link/a/file"} {
			fd, err := open(name, unix.O_RDONLY)
			if err != nil {
				continue
			}
			n, _ := unix.Read(fd, buf)
			unix.Close(fd)
			switch s := string(buf[:max(n, 0)]); {
			case strings.HasPrefix(s, "inside"):
				good.Add(1)
			case s != "":
				return fmt.Errorf("%s: read %q", name, s)
			}
		}
		return nil
	})
	during(func() error {
		var all []string
		for _, name := range []string{"dir", "link"} {
			in(name, func(fd int) {
				names, _ := entries(fd, -1)
				all = append(all, names...)
			})
		}
		if strings.Contains(strings.Join(all, " "), "only") {
			return fmt.Errorf("what is outside is listed: %q", all)
		}
		return nil
	})
	during(func() error {
		for _, name := range []string{"dir/made", "link/made", "dir/a/made", "link/a/b/made"} {
			if fd, err := open(name, unix.O_WRONLY|unix.O_CREAT); err == nil {
				unix.Write(fd, []byte("inside"))
				unix.Close(fd)
			}
		}
		for _, name := range []string{"dir", "link"} {
			in(name, func(fd int) {
				unix.Mkdirat(fd, "madedir", 0o755)
				unix.Symlinkat("x", fd, "madelink")
				unix.Linkat(fd, "file", fd, "madename", 0)
				unix.Fchmodat(fd, "a/file", 0o600, 0)
			})
		}
		return nil
	})
	during(func() error {
		for _, name := range []string{"dir", "link"} {
			in(name, func(fd int) {
				unix.Renameat(fd, "moved", fd, "a/moved")
				unix.Renameat(fd, "a/moved", fd, "moved")
				unix.Unlinkat(fd, "made", 0)
				unix.Unlinkat(fd, "only", 0)
				unix.Unlinkat(fd, "madename", 0)
				unix.Unlinkat(fd, "madedir", unix.AT_REMOVEDIR)
			})
			if fd, err := open(name+"/file", unix.O_RDWR|unix.O_APPEND); err == nil {
				unix.Write(fd, []byte("."))
				unix.Ftruncate(fd, 6)
				unix.Close(fd)
			}
		}
		return nil
	})
	group.Wait()
	if after := snapshot(t, outside); after != before {
		t.Errorf("what is outside was changed:\n%s\nwas\n%s", after, before)
	}
	if good.Load() == 0 || swapped.Load() == 0 {
		t.Errorf("%d reads and %d exchanges: this was no race", good.Load(), swapped.Load())
	}
	t.Logf("%d reads, %d exchanges", good.Load(), swapped.Load())
}

// snapshot returns all that a directory holds.
func snapshot(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(dir, func(p string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		fi, err := d.Info()
		if err != nil {
			return err
		}
		fmt.Fprintf(&b, "%s %v %v", p, fi.Mode(), fi.ModTime())
		if d.Type().IsRegular() {
			data, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			fmt.Fprintf(&b, " %q", data)
		}
		b.WriteByte('\n')
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}
