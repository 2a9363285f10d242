package store_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"wolffia/image/store"
	"wolffia/internal/host/statedir"
	"wolffia/internal/test/testimage"
	"wolffia/runtime"
)

// child puts an image with a layer of one file over another one.
func child(t *testing.T, s *store.Store, parent, name, body string, ids *store.IDs) *store.Image {
	t.Helper()
	st, err := s.Stage(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	}()
	if body != "" {
		if err := os.Mkdir(st.Layer(), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(st.Layer(), "file"), []byte(body), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	var names []string
	if name != "" {
		names = []string{name}
	}
	c := &store.Child{
		Config: testimage.Config(t, store.Config{User: body}, []byte(parent+body)), Parent: parent, Size: int64(len(body)), Names: names, IDs: ids,
	}
	img, err := st.Add(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return img
}

// A parent stays as long as an image lies over it; without its last name it has none.
func TestParents(t *testing.T) {
	s, dir := fresh(t)
	base := add(t, s, "docker.io/library/base:latest", "a")
	a := child(t, s, base.ID, "", "x", &store.IDs{Owner: 1, UID: 2, GID: 3, Count: 4})
	b := child(t, s, a.ID, "docker.io/library/b:latest", "", nil)
	if again := child(t, s, base.ID, "", "x", a.IDs); again.ID != a.ID {
		t.Errorf("the same image again is %s, want %s", again.ID, a.ID)
	}
	lowers, err := s.Lowers(b.ID)
	if want := []string{s.Rootfs(a.ID), s.Rootfs(base.ID)}; err != nil || !slices.Equal(lowers, want) {
		t.Errorf("Lowers: got %v, %v; want %v", lowers, err, want)
	}
	if b.IDs == nil || *b.IDs != *a.IDs || !b.Empty || a.Empty {
		t.Errorf("got %+v over %+v; want the parent's ids, and only the first to be empty", b, a)
	}
	wrong(t, "remove a parent by its id", s.Remove(t.Context(), base.ID), runtime.ErrConflict)
	if err := s.Remove(t.Context(), "base"); err != nil {
		t.Error(err)
	}
	_, err = s.Find("base")
	wrong(t, "find the removed name", err, runtime.ErrNotFound)
	if deleted, err := s.Prune(t.Context(), false); err != nil || len(deleted) != 0 {
		t.Errorf("Prune deletes the parents of an image with a name: %v, %v", deleted, err)
	}
	draft := statedir.Draft{Config: &statedir.Config{SandboxConfig: runtime.SandboxConfig{ID: runtime.NewID(), ImageID: b.ID}}}
	if _, _, err := dir.Create(draft, func(*statedir.Record) error { return nil }); err != nil {
		t.Fatal(err)
	}
	if deleted, err := s.Prune(t.Context(), true); err != nil || len(deleted) != 0 {
		t.Errorf("Prune deletes the parents of a sandbox's image: %v, %v", deleted, err)
	}
	wrong(t, "remove a sandbox's image", s.Remove(t.Context(), b.ID), runtime.ErrConflict)
}

// What no image with a name needs is pruned with its parents.
func TestPruneParents(t *testing.T) {
	s, dir := fresh(t)
	base := add(t, s, "", "a")
	a := child(t, s, base.ID, "", "x", nil)
	child(t, s, a.ID, "docker.io/library/b:latest", "", nil)
	child(t, s, a.ID, "", "y", nil)
	deleted, err := s.Prune(t.Context(), false)
	if err != nil || len(deleted) != 1 {
		t.Errorf("Prune: got %d, %v; want the one without a name and a child", len(deleted), err)
	}
	deleted, err = s.Prune(t.Context(), true)
	if err != nil || len(deleted) != 3 || len(left(t, dir)) != 0 {
		t.Errorf("Prune of all: got %d, %v, left %v; want 3, and nothing left", len(deleted), err, left(t, dir))
	}
}

// A stage that was not added is not listed, and Close or Prune removes it.
func TestStageLeft(t *testing.T) {
	s, dir := fresh(t)
	st, err := s.Stage(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(st.Layer(), "d"), 0o755); err != nil {
		t.Fatal(err)
	}
	all, err := s.List()
	if err != nil || len(all) != 0 || len(left(t, dir)) != 1 {
		t.Error(all, err, left(t, dir))
	}
	if _, err := s.Prune(context.Background(), true); err != nil || len(left(t, dir)) != 1 {
		t.Errorf("Prune removes a stage in use: %v, %v", left(t, dir), err)
	}
	killed := filepath.Join(dir.Path(), "images", strings.Repeat("0", 64)+".new")
	if err := os.Mkdir(killed, 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Prune(context.Background(), true); err != nil || len(left(t, dir)) != 1 {
		t.Errorf("Prune leaves a killed process's stage: %v, %v", left(t, dir), err)
	}
	if err := st.Close(); err != nil || len(left(t, dir)) != 0 {
		t.Error(left(t, dir), err)
	}
}

// More layers than the kernel takes are refused.
func TestMaxParents(t *testing.T) {
	s, _ := fresh(t)
	id := add(t, s, "", "a").ID
	for range store.MaxParents - 1 {
		id = child(t, s, id, "", "x", nil).ID
	}
	st, err := s.Stage(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	if err := os.Mkdir(st.Layer(), 0o755); err != nil {
		t.Fatal(err)
	}
	_, err = st.Add(t.Context(), &store.Child{Config: testimage.Config(t, store.Config{}, nil), Parent: id})
	wrong(t, "too many parents", err, runtime.ErrInvalid)
}
