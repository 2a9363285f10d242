package replica

import (
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// open returns a Peer of a copy in dir.
func open(t *testing.T, dir string, most int64) *Peer {
	t.Helper()
	ours, theirs := net.Pipe()
	served := make(chan error, 1)
	go func() { // ends with the test
		err := Serve(dir, theirs, theirs)
		served <- errors.Join(err, theirs.Close())
	}()
	t.Cleanup(func() {
		_ = ours.Close()
		<-served
	})
	return NewPeer(ours, ours, most)
}

func write(t *testing.T, name, content string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

// What a program has changed since it was looked at is neither replaced nor removed.
func TestOldIsKept(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "f"), "old")
	p := open(t, dir, 1<<20)
	all, err := p.List()
	if err != nil || len(all) != 1 {
		t.Fatalf("%+v, %v", all, err)
	}
	old := all[0].Stat
	write(t, filepath.Join(dir, "f"), "a program's")
	e := Entry{Path: "f", Stat: Stat{Type: unix.S_IFREG, Mode: 0o600, Mtime: 1e9}}
	want := func(what string, want unix.Errno) func(Stat, unix.Errno) error {
		return func(st Stat, errno unix.Errno) error {
			if errno != want || want == 0 && st.Type != 0 && (st.Mtime != 1e9 || st.Mode != 0o600) {
				t.Errorf("%s: %v, %+v", what, errno, st)
			}
			return nil
		}
	}
	if err := p.Many(func(a *Asker) error {
		return errors.Join(
			a.Put(e, old, strings.NewReader("new"), want("put", unix.ESTALE)), a.Put(e, Stat{}, strings.NewReader("new"), want("put in place of nothing", unix.ESTALE)),
			a.Remove("f", old, want("remove", unix.ESTALE)), a.Remove("../x", Stat{}, want("remove above", unix.EINVAL)),
			a.Put(Entry{Path: "g", Stat: e.Stat}, Stat{}, strings.NewReader("new"), want("put", 0)))
	}); err != nil {
		t.Fatal(err)
	}
	if b, _ := os.ReadFile(filepath.Join(dir, "f")); string(b) != "a program's" {
		t.Errorf("%q", b)
	}
	names, _ := filepath.Glob(filepath.Join(dir, "*"))
	hidden, _ := filepath.Glob(filepath.Join(dir, ".*"))
	if len(names)+len(hidden) != 2 {
		t.Errorf("left: %q %q", names, hidden)
	}
}

// No link inside leads a request elsewhere.
func TestServeFollowsNoLink(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	if err := os.Symlink(other, filepath.Join(dir, "l")); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(other, "f"), "other")
	p := open(t, dir, 1<<20)
	if err := p.Many(func(a *Asker) error {
		return errors.Join(
			a.Put(Entry{Path: "l/new", Stat: Stat{Type: unix.S_IFREG}}, Stat{}, strings.NewReader("new"), func(_ Stat, errno unix.Errno) error {
				if errno == 0 {
					t.Error("it was made")
				}
				return nil
			}),
			a.Get("l/f", func(_ Stat, content io.Reader, _ unix.Errno) error {
				if content != nil {
					t.Error("it was read")
				}
				return nil
			}))
	}); err != nil {
		t.Fatal(err)
	}
}

// More content than is accepted is an error, and a file that nobody may read is read.
func TestContents(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "f"), strings.Repeat("x", 100))
	if err := os.Chmod(filepath.Join(dir, "f"), 0); err != nil {
		t.Fatal(err)
	}
	for most, want := range map[int64]error{100: nil, 99: ErrTooLarge} {
		p := open(t, dir, most)
		err := p.Many(func(a *Asker) error {
			return a.Get("f", func(st Stat, content io.Reader, errno unix.Errno) error {
				if errno != 0 || st.Mode != 0 {
					t.Errorf("%+v, %v", st, errno)
					return nil
				}
				_, err := io.Copy(io.Discard, content)
				return err
			})
		})
		if !errors.Is(err, want) {
			t.Errorf("%d bytes are accepted: %v", most, err)
		}
	}
}
