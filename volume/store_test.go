package volume

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"wolffia/internal/host/statedir"
	"wolffia/internal/sys/filelock"
	"wolffia/runtime"
)

// newStore returns the volumes of an empty state directory.
func newStore(t *testing.T) (*Store, *statedir.Dir) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "state")
	dir, err := statedir.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	return Open(path), dir
}

var me = &User{UID: os.Geteuid(), GID: os.Getegid()}

// use is Use of one volume, and releases it.
func use(t *testing.T, s *Store, m runtime.VolumeMount, u *User) error {
	t.Helper()
	release, err := s.Use(t.Context(), []runtime.VolumeMount{m}, u)
	if err == nil {
		release()
	}
	return err
}

func names(t *testing.T, s *Store) string {
	t.Helper()
	all, err := s.List()
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, e := range all {
		list = append(list, e.Name)
	}
	return strings.Join(list, " ")
}

// left are the names below the directory, the lock aside.
func left(t *testing.T, s *Store) string {
	t.Helper()
	entries, err := os.ReadDir(s.path)
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, e := range entries {
		if e.Name() != lockFile {
			list = append(list, e.Name())
		}
	}
	return strings.Join(list, " ")
}

func TestUse(t *testing.T) {
	s, _ := newStore(t)
	if got := names(t, s); got != "" {
		t.Error(got)
	}
	if err := use(t, s, runtime.VolumeMount{Name: "a"}, me); err != nil {
		t.Fatal(err)
	}
	st, err := os.Stat(s.Data("a"))
	if err != nil || st.Mode().Perm() != 0o700 {
		t.Error(st, err)
	}
	long := time.Now().Add(-time.Hour)
	if err := os.Chtimes(filepath.Join(s.path, "a", record), long, long); err != nil {
		t.Fatal(err)
	}
	if err := use(t, s, runtime.VolumeMount{Name: "a"}, me); err != nil {
		t.Fatal(err)
	}
	e, err := s.Get("a")
	if err != nil || time.Since(e.UsedAt) > time.Minute || e.UID != me.UID || e.Kind() != "volume" {
		t.Error(e, err)
	}
	if err := use(t, s, runtime.VolumeMount{Name: "a"}, &User{UID: me.UID + 1}); !errors.Is(err, runtime.ErrConflict) {
		t.Error("another user's volume:", err)
	}
	root := &User{UID: me.UID, GID: me.GID, Root: true}
	if err := use(t, s, runtime.VolumeMount{Name: "a"}, root); !errors.Is(err, runtime.ErrConflict) {
		t.Error("root inside, a volume of sandboxes without:", err)
	}
	if err := use(t, s, runtime.VolumeMount{Name: "r"}, root); err != nil {
		t.Error(err)
	}
	if err := use(t, s, runtime.VolumeMount{Name: "r"}, me); !errors.Is(err, runtime.ErrConflict) {
		t.Error("no root inside, a volume of sandboxes with:", err)
	}
	if err := s.Remove(t.Context(), "r"); err != nil {
		t.Error(err)
	}
	// A name that leads elsewhere is never a path.
	for _, name := range []string{"", "..", ".new-a", "a/b", "../x"} {
		if err := use(t, s, runtime.VolumeMount{Name: name}, me); !errors.Is(err, runtime.ErrInvalid) {
			t.Error(name, err)
		}
		if err := s.Remove(t.Context(), name); !errors.Is(err, runtime.ErrNotFound) {
			t.Error(name, err)
		}
	}
	if got := left(t, s); got != "a" {
		t.Error(got)
	}
}

// A cache is for one codebase, whatever name a sandbox asks by: names are hashes, for which
// a path with the same one could be made up.
func TestUseOtherCodebase(t *testing.T) {
	s, _ := newStore(t)
	m := runtime.VolumeMount{Name: CacheName("go", "/one", false), Cache: "go"}
	if err := use(t, s, m, &User{Codebase: "/one", UID: me.UID, GID: me.GID}); err != nil {
		t.Fatal(err)
	}
	for _, codebase := range []string{"", "/two"} {
		if err := use(t, s, m, &User{Codebase: codebase, UID: me.UID, GID: me.GID}); !errors.Is(err, runtime.ErrConflict) {
			t.Errorf("codebase %q: %v", codebase, err)
		}
	}
	m.Name = CacheName("go", "", false)
	for _, codebase := range []string{"/one", "/two", ""} {
		if err := use(t, s, m, &User{Codebase: codebase, UID: me.UID, GID: me.GID}); err != nil {
			t.Error(err)
		}
	}
}

// A volume that was made as something else, by whatever codebase, is not used as a cache.
func TestUseMadeOtherwise(t *testing.T) {
	one := &User{Codebase: "/one", UID: me.UID, GID: me.GID}
	two := &User{Codebase: "/two", UID: me.UID, GID: me.GID}
	name := CacheName("go", one.Codebase, false)
	own := runtime.VolumeMount{Name: name, Cache: "go"}
	shared := runtime.VolumeMount{Name: CacheName("go", "", false), Cache: "go"}
	for what, c := range map[string]struct{ made, used runtime.VolumeMount }{
		"no cache":                {runtime.VolumeMount{Name: name}, own},
		"shared, of the name":     {runtime.VolumeMount{Name: name, Cache: "go"}, own},
		"shared, of longer kind":  {runtime.VolumeMount{Name: name, Cache: strings.TrimPrefix(name, runtime.CachePrefix)}, own},
		"no cache, then shared":   {runtime.VolumeMount{Name: shared.Name}, shared},
		"other cache than shared": {runtime.VolumeMount{Name: shared.Name, Cache: "npm"}, shared},
	} {
		s, _ := newStore(t)
		if err := use(t, s, c.made, two); err != nil {
			t.Fatal(what, err)
		}
		if err := use(t, s, c.used, one); !errors.Is(err, runtime.ErrConflict) || !strings.Contains(err.Error(), "was not made as this cache") {
			t.Errorf(`%s: got err %v; want err is runtime.ErrConflict and err.Error() contains "was not made as this cache"`, what, err)
		}
	}
}

// Sandboxes keep their volumes; also one whose configuration cannot be read.
func TestRemoveUsed(t *testing.T) {
	s, dir := newStore(t)
	c := &statedir.Config{SandboxConfig: runtime.SandboxConfig{ID: runtime.NewID(), Name: "box", Volumes: []runtime.VolumeMount{{Name: "a", Target: "/a"}}}}
	release, err := s.Use(t.Context(), c.Volumes, me)
	if err != nil {
		t.Fatal(err)
	}
	// Until the sandbox is recorded, it waits.
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := s.Remove(ctx, "a"); !errors.Is(err, runtime.ErrUnavailable) {
		t.Error("removed between Use and its release:", err)
	}
	rec, _, err := dir.Create(statedir.Draft{Config: c}, nil)
	if err != nil {
		t.Fatal(err)
	}
	release()
	if err := s.Remove(t.Context(), "a"); !errors.Is(err, runtime.ErrConflict) || !strings.Contains(err.Error(), "box") {
		t.Error(err)
	}
	if gone, err := s.Prune(t.Context(), &PruneOptions{All: true}); err != nil || len(gone) > 0 {
		t.Error(gone, err)
	}
	if err := os.WriteFile(rec.ConfigFile(), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.Remove(t.Context(), "a"); err == nil {
		t.Error("removed while it is unknown whether a sandbox has it")
	}
	if err := rec.Remove(); err != nil {
		t.Fatal(err)
	}
	if err := s.Remove(t.Context(), "a"); err != nil {
		t.Error(err)
	}
	if err := s.Remove(t.Context(), "a"); !errors.Is(err, runtime.ErrNotFound) {
		t.Error(err)
	}
	if got := left(t, s); got != "" {
		t.Error(got)
	}
}

// What is in a volume does not lead deletion out of it, nor stop it.
func TestRemoveHostile(t *testing.T) {
	s, _ := newStore(t)
	keep := t.TempDir()
	if err := os.WriteFile(filepath.Join(keep, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := use(t, s, runtime.VolumeMount{Name: "a"}, me); err != nil {
		t.Fatal(err)
	}
	data := s.Data("a")
	deep := filepath.Join(data, strings.Repeat("d/", 100))
	if err := os.MkdirAll(deep, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, target := range map[string]string{filepath.Join(data, "out"): keep, filepath.Join(deep, "up"): "../../../../..", filepath.Join(data, record): "/etc/passwd"} {
		if err := os.Symlink(target, name); err != nil {
			t.Fatal(err)
		}
	}
	if err := unix.Mkfifo(filepath.Join(data, "fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{deep, filepath.Join(data, "d"), data} {
		if err := os.Chmod(dir, 0); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Usage("a"); err != nil && os.Geteuid() == 0 {
		t.Error(err)
	}
	if err := s.Remove(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(keep, "file")); err != nil || left(t, s) != "" {
		t.Error(err, left(t, s))
	}
}

// What a process that was killed has left is no volume, is not in the way, and is removed;
// what a living one is deleting is left to it.
func TestSweep(t *testing.T) {
	s, _ := newStore(t)
	if err := use(t, s, runtime.VolumeMount{Name: "other"}, me); err != nil {
		t.Fatal(err)
	}
	half := func(name string, complete bool) {
		t.Helper()
		if err := os.MkdirAll(filepath.Join(s.path, name, "data", "x"), 0o700); err != nil {
			t.Fatal(err)
		}
		if complete {
			if err := os.WriteFile(filepath.Join(s.path, name, record), []byte("{}"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	half(coming+"a", false)
	half(coming+"b", true)
	half(going+"aaaaaaaaaaaa", true)
	half(going+"bbbbbbbbbbbb", false)
	half(going+"cccccccccccc", true)
	living, err := os.OpenFile(filepath.Join(s.path, going+"cccccccccccc", record), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	release, err := filelock.Try(living, 0, 1)
	if err != nil {
		t.Fatal(err)
	}
	if got := names(t, s); got != "other" {
		t.Error(got)
	}
	if err := use(t, s, runtime.VolumeMount{Name: "a"}, me); err != nil {
		t.Error(err)
	}
	if entries, err := os.ReadDir(s.Data("a")); err != nil || len(entries) > 0 {
		t.Error("what a killed process made is used:", entries, err)
	}
	if gone, err := s.Prune(t.Context(), &PruneOptions{DryRun: true}); err != nil || len(gone) > 0 || !strings.Contains(left(t, s), coming) {
		t.Error(gone, err, left(t, s))
	}
	if gone, err := s.Prune(t.Context(), nil); err != nil || len(gone) > 0 {
		t.Error(gone, err)
	}
	if got := left(t, s); got != ".old-cccccccccccc a other" {
		t.Error(got)
	}
	release()
	if _, err := s.Prune(t.Context(), nil); err != nil || left(t, s) != "a other" {
		t.Error(err, left(t, s))
	}
}

// A damaged record is a volume that can only be removed.
func TestDamaged(t *testing.T) {
	for name, damage := range map[string]func(path string) error{
		"empty":   func(path string) error { return os.Truncate(path, 0) },
		"other":   func(path string) error { return os.WriteFile(path, []byte(`{"name":"b"}`), 0o600) },
		"missing": os.Remove,
		"link": func(path string) error {
			return errors.Join(os.Remove(path), os.Symlink("/etc/passwd", path))
		},
		"directory": func(path string) error { return errors.Join(os.Remove(path), os.Mkdir(path, 0o700)) },
	} {
		s, _ := newStore(t)
		if err := use(t, s, runtime.VolumeMount{Name: "a"}, me); err != nil {
			t.Fatal(err)
		}
		if err := damage(filepath.Join(s.path, "a", record)); err != nil {
			t.Fatal(err)
		}
		if err := use(t, s, runtime.VolumeMount{Name: "a"}, me); !errors.Is(err, runtime.ErrUnavailable) || !strings.Contains(err.Error(), "wolffia volume rm a") {
			t.Error(name, err)
		}
		if e, err := s.Get("a"); err != nil || e.Problem == "" {
			t.Error(name, e, err)
		}
		if gone, err := s.Prune(t.Context(), &PruneOptions{Older: time.Nanosecond}); err != nil || len(gone) > 0 {
			t.Error(name, gone, err)
		}
		if err := s.Remove(t.Context(), "a"); err != nil || left(t, s) != "" {
			t.Error(name, err, left(t, s))
		}
	}
}

// A sandbox whose configuration is damaged hides no volume, and keeps all.
func TestDamagedSandbox(t *testing.T) {
	s, dir := newStore(t)
	if err := use(t, s, runtime.VolumeMount{Name: "a"}, me); err != nil {
		t.Fatal(err)
	}
	c := &statedir.Config{SandboxConfig: runtime.SandboxConfig{ID: "abcdefghijkl"}}
	rec, _, err := dir.Create(statedir.Draft{Config: c}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(rec.ConfigFile(), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if all, err := s.List(); !errors.Is(err, runtime.ErrUnavailable) || len(all) != 1 {
		t.Errorf("%+v, %v; want the volume, and the sandbox as the error", all, err)
	}
	if e, err := s.Get("a"); !errors.Is(err, runtime.ErrUnavailable) || e == nil || e.Name != "a" {
		t.Errorf("%+v, %v; want the volume, and the sandbox as the error", e, err)
	}
	if gone, err := s.Prune(t.Context(), &PruneOptions{Older: time.Nanosecond}); err == nil || len(gone) > 0 {
		t.Error(gone, err)
	}
	if err := s.Remove(t.Context(), "a"); !errors.Is(err, runtime.ErrUnavailable) || left(t, s) != "a" {
		t.Error(err, left(t, s))
	}
}

func TestSelects(t *testing.T) {
	now := time.Now()
	entry := func(cache string, unused time.Duration) *Entry {
		return &Entry{Volume: Volume{Name: "a", Cache: cache}, UsedAt: now.Add(-unused)}
	}
	for _, test := range []struct {
		o      PruneOptions
		e      *Entry
		orphan bool
		want   bool
	}{
		{PruneOptions{}, entry("go", time.Hour), false, false},
		{PruneOptions{}, entry("go", time.Hour), true, true},
		{PruneOptions{Older: time.Minute}, entry("go", time.Hour), false, true},
		{PruneOptions{Older: time.Hour}, entry("go", time.Minute), false, false},
		{PruneOptions{Older: time.Minute}, entry("", time.Hour), false, false},
		{PruneOptions{All: true}, entry("", 0), false, true},
	} {
		if got := test.o.selects(test.e, test.orphan, now); got != test.want {
			t.Errorf("%+v %+v orphan %v: %v", test.o, test.e, test.orphan, got)
		}
	}
}

// Volumes that several make and remove at the same time are whole, or not there.
func TestConcurrent(t *testing.T) {
	s, _ := newStore(t)
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			other := Open(s.state)
			for range 10 {
				release, err := other.Use(t.Context(), []runtime.VolumeMount{{Name: "a"}, {Name: "b"}}, me)
				if err != nil {
					t.Error(err)
					return
				}
				err = os.WriteFile(filepath.Join(other.Data("a"), fmt.Sprint(i)), nil, 0o600)
				release()
				if err != nil {
					t.Error("a volume in use was removed:", err)
				}
				if err := other.Remove(t.Context(), "a"); err != nil && !errors.Is(err, runtime.ErrNotFound) {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if got := left(t, s); got != "b" {
		t.Error(got)
	}
}

func TestUsage(t *testing.T) {
	s, _ := newStore(t)
	if err := use(t, s, runtime.VolumeMount{Name: "a"}, me); err != nil {
		t.Fatal(err)
	}
	for i := range 10 {
		if err := os.WriteFile(filepath.Join(s.Data("a"), fmt.Sprint(i)), make([]byte, 8192), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Link(filepath.Join(s.Data("a"), "1"), filepath.Join(s.Data("a"), "again")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/", filepath.Join(s.Data("a"), "out")); err != nil {
		t.Fatal(err)
	}
	u, err := s.Usage("a")
	if err != nil || u.Files != 12 || u.Bytes < 80000 || u.Bytes > 95000 || u.More {
		t.Errorf(`Usage "a": got u %+v, err %v; want err == nil and u.Files == 12 and u.Bytes >= 80000 and u.Bytes <= 95000 and not u.More`,
			u, err)
	}
	if err := os.MkdirAll(filepath.Join(s.Data("a"), strings.Repeat("d/", usageDepth+3)), 0o700); err != nil {
		t.Fatal(err)
	}
	if u, err := s.Usage("a"); err != nil || !u.More {
		t.Errorf(`Usage "a": got u %+v, err %v; want err == nil and u.More`, u, err)
	}
}
