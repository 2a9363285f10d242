package store_test

import (
	"errors"
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

type file = testimage.File

// fresh returns a store in a state directory of its own.
func fresh(t *testing.T) (*store.Store, *statedir.Dir) {
	t.Helper()
	dir, err := statedir.Open(filepath.Join(t.TempDir(), "state"))
	if err != nil {
		t.Fatal(err)
	}
	return store.Open(dir.Path()), dir
}

// add puts an image there.
func add(t *testing.T, s *store.Store, name, body string) *store.Image {
	t.Helper()
	src := testimage.Source(t, store.Config{}, testimage.Layer(t, file{Name: "d/", Mode: 0o500}, file{Name: "d/file", Body: body}))
	src.As = name
	img, err := s.Add(t.Context(), src, store.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	return img
}

// left lists what is in the store's directory but for the lock and names.
func left(t *testing.T, dir *statedir.Dir) []string {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(dir.Path(), "images"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	names := []string{}
	for _, e := range entries {
		if n := e.Name(); n != "lock" && n != "names.json" {
			names = append(names, n)
		}
	}
	return names
}

func wrong(t *testing.T, what string, err, class error) {
	t.Helper()
	if runtime.Class(err) != class {
		t.Errorf("%s: %v, want one of class %v", what, err, class)
	}
}

func TestAddAndFind(t *testing.T) {
	s, dir := fresh(t)
	if all, err := s.List(); err != nil || len(all) != 0 {
		t.Fatal(all, err)
	}
	_, err := s.Find("busybox")
	wrong(t, "find in an empty store", err, runtime.ErrNotFound)
	a := add(t, s, "docker.io/library/busybox:latest", "a")
	b := add(t, s, "docker.io/library/other:1", "b")
	if a.Size != 1 || a.Files != 2 || len(a.Layers) != 1 {
		t.Errorf(`add "docker.io/library/busybox:latest" "a": got a %+v; want a.Size == 1 and a.Files == 2 and len(a.Layers) == 1`, a)
	}
	for ref, id := range map[string]string{
		"busybox": a.ID, "docker.io/library/busybox": a.ID, "busybox:latest": a.ID, "index.docker.io/library/busybox": a.ID,
		"other:1": b.ID, a.ID: a.ID, store.Short(b.ID): b.ID, "sha256:" + store.Short(b.ID): b.ID,
	} {
		if got, err := s.Find(ref); got != id || err != nil {
			t.Errorf("%s: got %s, %v; want %s, nil", ref, got, err, id)
		}
	}
	for ref, class := range map[string]error{
		"other": runtime.ErrNotFound, "": runtime.ErrInvalid, "sha256:": runtime.ErrInvalid, "sha256:zz": runtime.ErrNotFound,
		"a\x00": runtime.ErrInvalid, "ffffffffffffffffffffff": runtime.ErrNotFound,
		store.Short(a.ID)[:11]: runtime.ErrNotFound,
	} {
		_, err := s.Find(ref)
		wrong(t, ref, err, class)
	}
	if body, err := os.ReadFile(filepath.Join(s.Rootfs(a.ID), "d", "file")); string(body) != "a" || err != nil {
		t.Error(body, err)
	}
	// A name that comes to mean another image leaves the old one without.
	if c := add(t, s, "docker.io/library/busybox:latest", "b"); c.ID != b.ID {
		t.Errorf("%s and %s are the same image", c.ID, b.ID)
	}
	all, err := s.List()
	if err != nil || len(all) != 2 {
		t.Fatal(all, err)
	}
	for _, e := range all {
		if want := map[string]int{a.ID: 0, b.ID: 2}[e.ID]; len(e.Names) != want {
			t.Errorf("%s has the names %v", e.ID, e.Names)
		}
	}
	deleted, err := s.Prune(t.Context(), false)
	if err != nil || len(deleted) != 1 || deleted[0].ID != a.ID {
		t.Errorf("Prune: got deleted %+v, err %v; want err == nil and len(deleted) == 1 and deleted[0].ID == %v", deleted, err, a.ID)
	}
	// One of two names; then, by the id, the image with the other.
	if err := s.Remove(t.Context(), "busybox"); err != nil {
		t.Error(err)
	}
	if got := left(t, dir); len(got) != 1 {
		t.Error(got)
	}
	if err := s.Remove(t.Context(), store.Short(b.ID)); err != nil {
		t.Error(err)
	}
	if got := left(t, dir); len(got) != 0 {
		t.Error(got)
	}
	_, err = s.Find("other:1")
	wrong(t, "a name whose image is gone", err, runtime.ErrNotFound)
}

// Only the owner reaches an image, root or a user: trees have
// directories that everybody may write to.
func TestPrivate(t *testing.T) {
	s, dir := fresh(t)
	add(t, s, "", "a")
	st, err := os.Stat(filepath.Join(dir.Path(), "images"))
	if err != nil || st.Mode().Perm() != 0o700 {
		t.Errorf("Mode: got %v, err %v; want err == nil and st.Mode().Perm() == 0o700", st.Mode(), err)
	}
	if err := os.Chmod(filepath.Join(dir.Path(), "images"), 0o755); err != nil {
		t.Fatal(err)
	}
	src := testimage.Source(t, store.Config{}, testimage.Layer(t, file{Name: "x"}))
	_, err = s.Add(t.Context(), src, store.Limits{})
	wrong(t, "a store that others may read", err, runtime.ErrUnavailable)
}

// An image that a sandbox uses, in whatever state, stays until that is gone;
// one that somebody is about to use too.
func TestUsedImagesStay(t *testing.T) {
	s, dir := fresh(t)
	img := add(t, s, "docker.io/library/busybox:latest", "a")
	c := &statedir.Config{SandboxConfig: runtime.SandboxConfig{ID: "abcdefghijkl", ImageID: img.ID}}
	rec, _, err := dir.Create(statedir.Draft{Config: c}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, ref := range []string{"busybox", img.ID} {
		wrong(t, "remove "+ref, s.Remove(t.Context(), ref), runtime.ErrConflict)
	}
	if deleted, err := s.Prune(t.Context(), true); err != nil || len(deleted) != 0 {
		t.Error(deleted, err)
	}
	if id, err := s.Find("busybox"); id != img.ID || err != nil {
		t.Error("it has lost its name:", err)
	}
	all, err := s.List()
	if err != nil || len(all) != 1 || len(all[0].Sandboxes) != 1 {
		t.Errorf("List: got all %+v, err %v; want err == nil and len(all) == 1 and len(all[0].Sandboxes) == 1", all, err)
	}
	if err := rec.Remove(); err != nil {
		t.Fatal(err)
	}
	pinned, release, err := s.Pin(t.Context(), img.ID)
	if err != nil || pinned.ID != img.ID {
		t.Fatal(err)
	}
	_, again, err := s.Pin(t.Context(), img.ID) // several may
	if err != nil {
		t.Fatal(err)
	}
	again()
	wrong(t, "remove what is pinned", s.Remove(t.Context(), img.ID), runtime.ErrConflict)
	if deleted, err := s.Prune(t.Context(), true); err != nil || len(deleted) != 0 {
		t.Error(deleted, err)
	}
	release()
	if deleted, err := s.Prune(t.Context(), true); err != nil || len(deleted) != 1 {
		t.Error(deleted, err)
	}
	_, _, err = s.Pin(t.Context(), img.ID)
	wrong(t, "pin what is gone", err, runtime.ErrNotFound)
}

// If it cannot be told of one sandbox what it uses, all images are listed and nothing is deleted.
func TestDamagedSandboxKeepsImages(t *testing.T) {
	s, dir := fresh(t)
	img := add(t, s, "", "a")
	const damaged, healthy = "abcdefghijkl", "bbcdefghijkl"
	for _, id := range []string{damaged, healthy} {
		c := &statedir.Config{SandboxConfig: runtime.SandboxConfig{ID: id, ImageID: img.ID}}
		if _, _, err := dir.Create(statedir.Draft{Config: c}, nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(dir.Record(damaged).ConfigFile(), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	all, err := s.List()
	wrong(t, "list", err, runtime.ErrUnavailable)
	if err == nil || !strings.Contains(err.Error(), damaged) || len(all) != 1 || !slices.Equal(all[0].Sandboxes, []string{healthy}) {
		t.Errorf("%+v, %v; want the image with the sandbox that can be read, and the other as the error", all, err)
	}
	if err := s.Remove(t.Context(), img.ID); err == nil {
		t.Error("it was deleted")
	}
	if deleted, err := s.Prune(t.Context(), true); err == nil || len(deleted) > 0 {
		t.Error(deleted, err)
	}
	if _, err := s.Get(img.ID); err != nil {
		t.Error(err)
	}
}

// Files of ours that are damaged are errors that say what to do; the image can
// be removed and had again.
func TestDamagedFiles(t *testing.T) {
	s, dir := fresh(t)
	img := add(t, s, "docker.io/library/busybox:latest", "a")
	hex := strings.TrimPrefix(img.ID, "sha256:")
	for name, content := range map[string]string{"empty": "", "cut": `{"id":"sha`, "other": `{"id":"sha256:00"}`} {
		if err := os.WriteFile(filepath.Join(dir.Path(), "images", hex, "image.json"), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := s.Get(img.ID)
		wrong(t, name, err, runtime.ErrUnavailable)
	}
	if all, err := s.List(); err != nil || len(all) != 1 || all[0].Problem == "" {
		t.Errorf(`List: got all %+v, err %v; want err == nil and len(all) == 1 and all[0].Problem != ""`, all, err)
	}
	if err := s.Remove(t.Context(), img.ID); err != nil {
		t.Error(err)
	}
	names := filepath.Join(dir.Path(), "images", "names.json")
	if err := os.WriteFile(names, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := s.List()
	wrong(t, "damaged names", err, runtime.ErrUnavailable)
	if err := os.Remove(names); err != nil {
		t.Fatal(err)
	}
	add(t, s, "docker.io/library/busybox:latest", "a")
}

// A tag of a layout can be a whole name. What was a layout with a plain tag stays one.
func TestCanonicalLayout(t *testing.T) {
	top := t.TempDir()
	for _, dir := range []string{"a", "b:c", "b"} {
		if err := os.Mkdir(filepath.Join(top, dir), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(top, dir, store.LayoutIndex), []byte("{}"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(top)
	for name, want := range map[string][2]string{
		"a":                                  {top + "/a", ""},
		"a:1":                                {top + "/a", "1"},
		"a:localhost/foo:latest":             {top + "/a", "localhost/foo:latest"},
		"./a/:localhost:5000/foo":            {top + "/a", "localhost:5000/foo"},
		top + "/a:x/../y:1":                  {top + "/a", "x/../y:1"},
		"b:c":                                {top + "/b", "c"},
		"b:c:1":                              {top + "/b:c", "1"},
		"b:c:x/y:1":                          {top + "/b", "c:x/y:1"},
		"none:localhost/foo:1":               {top + "/none:localhost/foo", "1"},
		":x/y:1":                             {top + "/:x/y", "1"},
		strings.Repeat("n", 5000) + ":a:b/c": {top + "/" + strings.Repeat("n", 5000) + ":a:b/c", ""},
	} {
		got, err := store.Canonical(store.LayoutPrefix + name)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if again, err := store.Canonical(got); again != got || err != nil {
			t.Errorf("%s: %s, then %s, %v", name, got, again, err)
		}
		rest, _ := strings.CutPrefix(got, store.LayoutPrefix)
		if dir, tag := store.SplitLayout(rest); dir != want[0] || tag != want[1] {
			t.Errorf("%s: directory %s, tag %s; want %s", name, dir, tag, want)
		}
	}
}

// The forms of names, and what they mean.
func TestCanonical(t *testing.T) {
	const digest = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	wd, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"busybox":                           "docker.io/library/busybox:latest",
		"busybox:1.36":                      "docker.io/library/busybox:1.36",
		"team/tool":                         "docker.io/team/tool:latest",
		"docker.io/busybox":                 "docker.io/library/busybox:latest",
		"index.docker.io/library/busybox:1": "docker.io/library/busybox:1",
		"busybox@" + digest:                 "docker.io/library/busybox@" + digest,
		"busybox:1.36@" + digest:            "docker.io/library/busybox@" + digest,
		"localhost/x":                       "localhost/x:latest",
		"localhost:5000/a/b:c":              "localhost:5000/a/b:c",
		"127.0.0.1:5000/x":                  "127.0.0.1:5000/x:latest",
		"ghcr.io/a/b":                       "ghcr.io/a/b:latest",
		"oci:dir":                           "oci:" + wd + "/dir",
		"oci:/a/../b:tag":                   "oci:/b:tag",
		"oci:/a:b/c":                        "oci:/a:b/c",
		"docker-archive:f.tar":              "docker-archive:" + wd + "/f.tar",
	} {
		if got, err := store.Canonical(name); got != want || err != nil {
			t.Errorf("%s: %s, %v; want %s", name, got, err, want)
		}
	}
	for _, name := range []string{"", "LOCALHOST/x", "Registry/x", "busybox:", "a/", "oci:", "oci::tag", "docker-archive:", "a\nb", "a@sha256:12", "a@" + strings.ToUpper(digest), "a\xff", "http://registry.example/a"} {
		_, err := store.Canonical(name)
		wrong(t, name, err, runtime.ErrInvalid)
	}
}
