package programs

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"wolffia/runtime"
)

const other = "wolffia-oci"

// packed makes a wolffia that carries echo as its guest and as another companion, and opens
// it. Beside it lies a guest that must not be used.
func packed(t *testing.T) *Set {
	t.Helper()
	dir := t.TempDir()
	echo, err := os.ReadFile("/bin/echo")
	if err != nil {
		t.Fatal(err)
	}
	from := filepath.Join(dir, "from")
	err = errors.Join(os.Mkdir(from, 0o755), os.Mkdir(filepath.Join(dir, "state"), 0o700), os.WriteFile(filepath.Join(dir, Guest), []byte("old"), 0o755))
	for name, content := range map[string][]byte{"wolffia": []byte("ELF"), Guest: echo, other: echo} {
		err = errors.Join(err, os.WriteFile(filepath.Join(from, name), content, 0o755))
	}
	wolffia := filepath.Join(dir, "wolffia")
	err = errors.Join(err, Pack(wolffia, filepath.Join(from, "wolffia"), filepath.Join(from, Guest), filepath.Join(from, other)))
	if err != nil {
		t.Fatal(err)
	}
	return open(t, wolffia, filepath.Join(dir, "state"))
}

func open(t *testing.T, wolffia, state string) *Set {
	t.Helper()
	s, err := Open(wolffia, state)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// works gets a program, checks that it is echo, and returns its path.
func works(t *testing.T, s *Set, name string) string {
	t.Helper()
	p, err := s.Program(name)
	if err != nil {
		t.Error(err)
		return ""
	}
	defer p.Close()
	out, err := exec.Command(p.ExecPath(), "hello").Output()
	if err != nil || string(out) != "hello\n" {
		t.Errorf("%s: got %q, %v; want %q, nil", name, out, err, "hello\n")
	}
	if (p.Path == "") != (p.Reason != nil) {
		t.Errorf("path %q, in memory because of %v", p.Path, p.Reason)
	}
	return p.Path
}

func TestCarried(t *testing.T) {
	s := packed(t)
	for _, name := range []string{Guest, other} {
		path := works(t, s, name)
		if want := filepath.Join(s.dir, "programs", s.build, name); path != want {
			t.Errorf("%s, want %s", path, want)
		}
		before, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		works(t, s, name)
		if after, err := os.Stat(path); err != nil || !os.SameFile(before, after) {
			t.Errorf("%s is unpacked again (%v)", name, err)
		}
	}
	if err := s.Check("missing"); runtime.Class(err) != runtime.ErrUnavailable {
		t.Error(err)
	}
}

// What has been changed or put in the place of an unpacked program is replaced, and never
// executed.
func TestChangedIsReplaced(t *testing.T) {
	s := packed(t)
	path := works(t, s, Guest)
	evil := filepath.Join(t.TempDir(), "evil")
	if err := os.WriteFile(evil, []byte("#!/bin/sh\necho evil\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	as := func(content []byte, at time.Time) error {
		return errors.Join(os.Remove(path), os.WriteFile(path, content, 0o600), os.Chmod(path, 0o555), os.Chtimes(path, at, at))
	}
	for name, change := range map[string]func() error{
		"removed":         func() error { return os.Remove(path) },
		"cut, as written": func() error { return as([]byte("#!/bin/sh\necho evil\n"), unchanged) },
		"zeros":           func() error { return as(make([]byte, s.entries[Guest].Size), time.Now()) },
		"a link":          func() error { return errors.Join(os.Remove(path), os.Symlink(evil, path)) },
		"a FIFO":          func() error { return errors.Join(os.Remove(path), unix.Mkfifo(path, 0o555)) },
		"writable":        func() error { return os.Chmod(path, 0o755) },
		"a second name":   func() error { return os.Link(path, filepath.Join(filepath.Dir(path), "second")) },
		"half unpacked":   func() error { return os.Rename(path, path+".new") },
		"a byte": func() error {
			f, err := os.OpenFile(path, os.O_WRONLY, 0)
			if errors.Is(err, os.ErrPermission) {
				if err = os.Chmod(path, 0o755); err == nil {
					f, err = os.OpenFile(path, os.O_WRONLY, 0)
				}
			}
			if err != nil {
				return err
			}
			_, err = f.WriteAt([]byte{0}, 100)
			return errors.Join(err, f.Close(), os.Chmod(path, 0o555))
		},
	} {
		t.Run(name, func(t *testing.T) {
			if err := change(); err != nil {
				t.Fatal(err)
			}
			if got := works(t, s, Guest); got != path {
				t.Errorf("at %q", got)
			}
		})
	}
}

// Where nothing can be unpacked, the program is in memory, where it cannot be changed.
func TestMemory(t *testing.T) {
	s := packed(t)
	if err := os.WriteFile(filepath.Join(s.dir, "programs"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{Guest, other} {
		if path := works(t, s, name); path != "" {
			t.Errorf("%s is at %s", name, path)
		}
	}
	p, err := s.Program(Guest)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if _, err := p.WriteAt([]byte{0}, 0); !errors.Is(err, unix.EPERM) {
		t.Errorf("written to: %v", err)
	}
	if b, err := io.ReadAll(p); err != nil || int64(len(b)) != s.entries[Guest].Size {
		t.Errorf("%d bytes can be read, %v", len(b), err)
	}
}

// Of several first starts one unpacks; all get a whole program.
func TestAtOnce(t *testing.T) {
	s := packed(t)
	var wg sync.WaitGroup
	for range 8 {
		own := open(t, s.path, s.dir)
		wg.Go(func() { works(t, own, other) })
	}
	wg.Wait()
	left, err := os.ReadDir(filepath.Join(s.dir, "programs", s.build))
	if err != nil || len(left) != 1 {
		t.Errorf("os.ReadDir: got left %v, err %v; want err == nil and len(left) == 1", left, err)
	}
}

// A wolffia that is damaged is not used.
func TestDamaged(t *testing.T) {
	s := packed(t)
	whole, err := os.ReadFile(s.path)
	if err != nil {
		t.Fatal(err)
	}
	damaged := func(at int64) *Set {
		b := bytes.Clone(whole)
		b[at] ^= 1
		path := filepath.Join(t.TempDir(), "wolffia")
		if err := os.WriteFile(path, b, 0o755); err != nil {
			t.Fatal(err)
		}
		d, err := Open(path, s.dir)
		if err != nil {
			return nil
		}
		t.Cleanup(func() { _ = d.Close() })
		return d
	}
	for _, name := range []string{Guest, other} {
		d := damaged(s.entries[name].Offset + 1000)
		works(t, d, map[string]string{Guest: other, other: Guest}[name])
		d = damaged(s.entries[name].Offset + 1000)
		d.dir = t.TempDir()
		if _, err := d.Program(name); runtime.Class(err) != runtime.ErrUnavailable || !strings.Contains(err.Error(), "carries") {
			t.Errorf(`%s: got err %v; want runtime.Class(err) == runtime.ErrUnavailable and err.Error() contains "carries"`, name, err)
		}
	}
	if damaged(int64(len(whole)-tailSize)) != nil {
		t.Error("an index of an impossible size is accepted")
	}
}

// Each build has its own; the others' go with Prune.
func TestPrune(t *testing.T) {
	s := packed(t)
	if err := s.Prune(); err != nil { // nothing is there
		t.Error(err)
	}
	works(t, s, Guest)
	second := packed(t)
	if err := os.WriteFile(filepath.Join(filepath.Dir(second.path), "from", other), []byte("x"), 0o755); err != nil {
		t.Fatal(err)
	}
	from := filepath.Join(filepath.Dir(second.path), "from")
	if err := Pack(second.path, filepath.Join(from, "wolffia"), filepath.Join(from, Guest), filepath.Join(from, other)); err != nil {
		t.Fatal(err)
	}
	second = open(t, second.path, s.dir)
	works(t, second, Guest)
	if second.build == s.build {
		t.Fatal("two builds have one name")
	}
	if err := second.Prune(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(s.dir, "programs", s.build)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("still there: %v", err)
	}
	works(t, second, Guest)
	works(t, s, Guest) // again
}

// A wolffia that carries nothing looks beside itself, then in PATH.
func TestBeside(t *testing.T) {
	dir, elsewhere := t.TempDir(), t.TempDir()
	wolffia := filepath.Join(dir, "wolffia")
	if err := os.WriteFile(wolffia, []byte("ELF"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", elsewhere)
	s := open(t, wolffia, dir)
	if _, err := s.Program(Guest); runtime.Class(err) != runtime.ErrUnavailable || !strings.Contains(err.Error(), "neither in "+wolffia) {
		t.Error(err)
	}
	for _, at := range []string{elsewhere, dir} {
		if err := os.Symlink("/bin/echo", filepath.Join(at, Guest)); err != nil {
			t.Fatal(err)
		}
		if got := works(t, s, Guest); got != filepath.Join(at, Guest) {
			t.Errorf("%s, want the one in %s", got, at)
		}
	}
	if _, err := Open(filepath.Join(dir, "missing"), dir); runtime.Class(err) != runtime.ErrUnavailable {
		t.Error(err)
	}
}

// What a start pays for it.
func BenchmarkProgram(b *testing.B) {
	dir := b.TempDir()
	from := filepath.Join(dir, "from")
	err := os.Mkdir(from, 0o755)
	for _, name := range []string{"wolffia", Guest, other} {
		err = errors.Join(err, os.WriteFile(filepath.Join(from, name), []byte(name), 0o755))
	}
	err = errors.Join(err, Pack(filepath.Join(dir, "wolffia"), filepath.Join(from, "wolffia"), filepath.Join(from, Guest), filepath.Join(from, other)))
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		s, err := Open(filepath.Join(dir, "wolffia"), dir)
		if err != nil {
			b.Fatal(err)
		}
		p, err := s.Program(Guest)
		if err != nil {
			b.Fatal(err)
		}
		_ = errors.Join(p.Close(), s.Close())
	}
}
