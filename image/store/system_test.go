package store_test

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"wolffia/image/store"
	"wolffia/internal/host/statedir"
	"wolffia/runtime"
)

// What sandboxes get of the host's system is made once for each key, is listed only when it is whole,
// and goes when another key's is made, unless something uses it.
func TestSystem(t *testing.T) {
	s, dir := fresh(t)
	var made atomic.Int32
	fill := func(root string) ([]store.Owned, error) {
		made.Add(1)
		return []store.Owned{{Path: "a", UID: 1, Mode: 0o700}}, os.MkdirAll(filepath.Join(root, "a"), 0o755)
	}
	fail := errors.New("no room")
	_, _, err := s.System(t.Context(), "one", func(root string) ([]store.Owned, error) { return nil, errors.Join(fail, os.Mkdir(root, 0o755)) })
	if all, lerr := s.List(); !errors.Is(err, fail) || len(all) != 0 || lerr != nil {
		t.Errorf("one that was not made: %v; listed: %v, %v", err, all, lerr)
	}
	if left, _ := filepath.Glob(filepath.Join(dir.Path(), "images", "*.new")); len(left) != 0 {
		t.Error("left:", left)
	}
	var ids [4]string
	var all sync.WaitGroup
	var errs [len(ids)]error
	for i := range ids {
		all.Go(func() {
			img, release, err := s.System(t.Context(), "one", fill)
			if errs[i] = err; err == nil {
				ids[i] = img.ID
				release()
			}
		})
	}
	all.Wait()
	if err := errors.Join(errs[:]...); err != nil || made.Load() != 1 || ids[0] != ids[1] || ids[0] != ids[3] {
		t.Errorf("made %d times: %v, %v", made.Load(), ids, err)
	}
	owners, err := s.Owners(ids[0])
	if err != nil || len(owners) != 1 || owners[0].UID != 1 {
		t.Errorf("owners: %v, %v", owners, err)
	}
	system := func(key string) string {
		t.Helper()
		img, release, err := s.System(t.Context(), key, fill)
		if err != nil {
			t.Fatal(err)
		}
		release()
		if !img.System {
			t.Errorf("%s is an image like others", key)
		}
		return img.ID
	}
	use := statedir.Draft{Config: &statedir.Config{SandboxConfig: runtime.SandboxConfig{ID: runtime.NewID()}, SystemID: ids[0]}}
	if _, _, err := dir.Create(use, func(*statedir.Record) error { return nil }); err != nil {
		t.Fatal(err)
	}
	two, three := system("two"), system("three")
	for id, want := range map[string]error{ids[0]: nil, two: runtime.ErrNotFound, three: nil} {
		if _, err := s.Get(id); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", id, err, want)
		}
	}
	wrong(t, "remove what a sandbox uses", s.Remove(t.Context(), ids[0]), runtime.ErrConflict)
	for _, key := range []string{"three", "four"} {
		if err := s.PruneSystems(t.Context(), key); err != nil {
			t.Error(err)
		}
		if _, err := s.Get(three); (err == nil) != (key == "three") {
			t.Errorf("while %s is the host's, three: %v", key, err)
		}
	}
	three = system("three")
	if gone, err := s.Prune(t.Context(), false); err != nil || len(gone) != 1 || gone[0].ID != three {
		t.Errorf("pruned: %v, %v", gone, err)
	}
}
