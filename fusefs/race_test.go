package fusefs

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// While the host exchanges a directory for a link that leads out, nothing
// outside is ever read, listed or written through the mount.
func TestHostSwapsNeverEscape(t *testing.T) {
	mounted(t, setup{
		Timeout: time.Millisecond,
		FDs:     16, // so that names are walked again and again
		Host: func(t *testing.T, dir string) {
			for _, f := range []string{"file", "a/file", "a/b/file"} {
				write(t, dir, "dir/"+f, "inside")
				write(t, dir, "../outside/"+f, secret)
			}
			write(t, dir, "../outside/only", secret)
			if err := os.Symlink("../outside", filepath.Join(dir, "link")); err != nil {
				t.Fatal(err)
			}
		},
	}, func(t *testing.T, c *client) {
		end := time.Now().Add(2 * time.Second)
		host := func(name string) string { return filepath.Join(c.host, name) }
		// The client would follow the link itself; NO_SYMLINKS leaves it to
		// the server to be fooled.
		open := func(name string, flags int) (*os.File, error) {
			dir, err := unix.Open(c.dir, unix.O_PATH|unix.O_DIRECTORY, 0)
			if err != nil {
				return nil, err
			}
			defer unix.Close(dir)
			fd, err := unix.Openat2(dir, name, &unix.OpenHow{Flags: uint64(flags), Resolve: unix.RESOLVE_NO_SYMLINKS})
			if err != nil {
				return nil, err
			}
			return os.NewFile(uintptr(fd), name), nil
		}
		var wg sync.WaitGroup
		wg.Go(func() {
			for time.Now().Before(end) {
				err := unix.Renameat2(unix.AT_FDCWD, host("dir"), unix.AT_FDCWD, host("link"), unix.RENAME_EXCHANGE)
				fails(t, "exchange", err, 0)
			}
		})
		good := 0
		wg.Go(func() {
			buf := make([]byte, 100)
			for time.Now().Before(end) {
				for _, name := range []string{"dir/file", "link/file", "dir/a/b/file", "link/a/file"} {
					f, err := open(name, unix.O_RDONLY)
					if err != nil {
						continue
					}
					n, _ := f.Read(buf)
					f.Close()
					switch string(buf[:n]) {
					case "inside":
						good++
					case "":
					default:
						t.Fatalf("%s: read %q", name, buf[:n])
					}
				}
			}
		})
		wg.Go(func() {
			for time.Now().Before(end) {
				for _, name := range []string{"dir", "link"} {
					f, err := open(name, unix.O_RDONLY|unix.O_DIRECTORY)
					if err != nil {
						continue
					}
					names, _ := f.Readdirnames(-1)
					f.Close()
					if strings.Contains(strings.Join(names, " "), "only") {
						t.Fatalf("%s lists what is outside: %q", name, names)
					}
				}
				for _, name := range []string{"dir/made", "link/made"} {
					if f, err := open(name, unix.O_WRONLY|unix.O_CREAT); err == nil {
						f.WriteString("inside")
						f.Close()
					}
				}
			}
		})
		wg.Wait()
		if _, err := os.Lstat(filepath.Join(c.host, "../outside/made")); !errors.Is(err, os.ErrNotExist) {
			t.Error("a file was made outside")
		}
		if good == 0 {
			t.Error("nothing could be read at all")
		}
	})
}
