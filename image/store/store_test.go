package store_test

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"wolffia/image/store"
	"wolffia/internal/statedir"
	"wolffia/internal/testenv"
	"wolffia/internal/testimage"
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
		t.Errorf("%+v", a)
	}
	for ref, id := range map[string]string{
		"busybox": a.ID, "docker.io/library/busybox": a.ID, "busybox:latest": a.ID, "index.docker.io/library/busybox": a.ID,
		"other:1": b.ID, a.ID: a.ID, store.Short(b.ID): b.ID, "sha256:" + store.Short(b.ID): b.ID,
	} {
		if got, err := s.Find(ref); got != id || err != nil {
			t.Errorf("%s: %s, %v", ref, got, err)
		}
	}
	for ref, class := range map[string]error{
		"other": runtime.ErrNotFound, "": runtime.ErrInvalid, "sha256:": runtime.ErrInvalid, "sha256:zz": runtime.ErrNotFound,
		"a\x00": runtime.ErrInvalid, "ffffffffffffffffffffff": runtime.ErrNotFound,
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
		t.Errorf("%+v, %v", deleted, err)
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

// Nobody but the owner reaches an image, whoever that is: trees have
// directories that everybody may write to.
func TestPrivate(t *testing.T) {
	s, dir := fresh(t)
	add(t, s, "", "a")
	st, err := os.Stat(filepath.Join(dir.Path(), "images"))
	if err != nil || st.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", st.Mode(), err)
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
	box, err := dir.Create(c)
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
		t.Errorf("%+v, %v", all, err)
	}
	if err := box.Remove(); err != nil {
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

// If it cannot be told of one sandbox what it uses, nothing is deleted.
func TestDamagedSandboxKeepsImages(t *testing.T) {
	s, dir := fresh(t)
	img := add(t, s, "", "a")
	box, err := dir.Create(&statedir.Config{SandboxConfig: runtime.SandboxConfig{ID: "abcdefghijkl"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(box.ConfigFile(), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
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
		t.Errorf("%+v, %v", all, err)
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

// Each is refused, by its name, and leaves nothing.
func TestAddRefuses(t *testing.T) {
	layer := testimage.Layer(t, file{Name: "f", Body: "x"})
	good := func() *store.Source { return testimage.Source(t, store.Config{}, layer) }
	of := func(config string) *store.Source {
		return &store.Source{ID: testimage.Digest([]byte(config)), Config: []byte(config)}
	}
	for name, c := range map[string]struct {
		src   *store.Source
		class error
		say   string
	}{
		"wrong id":         {&store.Source{ID: good().ID, Config: []byte("{}")}, runtime.ErrInvalid, "its digest is"},
		"no json":          {of("x"), runtime.ErrInvalid, "configuration is damaged"},
		"no layers":        {of(`{}`), runtime.ErrInvalid, "0 layers"},
		"many layers":      {of(`{"rootfs":{"diff_ids":["` + strings.Repeat(`x","`, 600) + `"]}}`), runtime.ErrInvalid, "601 layers"},
		"other digest":     {of(`{"rootfs":{"diff_ids":["sha512:12"]}}`), runtime.ErrUnsupported, "only sha256"},
		"digest is a path": {of(`{"rootfs":{"diff_ids":["sha256:../../etc"]}}`), runtime.ErrUnsupported, "only sha256"},
		"arm":              {of(`{"architecture":"arm64","os":"linux","rootfs":{"diff_ids":["` + testimage.Digest(layer) + `"]}}`), runtime.ErrUnsupported, "arm64"},
		"windows":          {of(`{"architecture":"amd64","os":"windows","rootfs":{"diff_ids":["` + testimage.Digest(layer) + `"]}}`), runtime.ErrUnsupported, "windows"},
		"vast environment": {testimage.Source(t, store.Config{Env: []string{"A=" + strings.Repeat("x", 1<<20)}}, layer), runtime.ErrInvalid, "environment"},
		"other content": {func() *store.Source {
			s := good()
			s.Layer = func(context.Context, int) (io.ReadCloser, error) {
				return io.NopCloser(strings.NewReader(string(testimage.Layer(t, file{Name: "g"})))), nil
			}
			return s
		}(), runtime.ErrInvalid, "not what it claims"},
		"more after the end": {func() *store.Source {
			s := good()
			s.Layer = func(context.Context, int) (io.ReadCloser, error) {
				return io.NopCloser(strings.NewReader(string(layer) + "more")), nil
			}
			return s
		}(), runtime.ErrInvalid, "not what it claims"},
		"layer that fails": {func() *store.Source {
			s := good()
			s.Layer = func(context.Context, int) (io.ReadCloser, error) { return nil, errors.New("no luck") }
			return s
		}(), runtime.ErrUnavailable, "no luck"},
	} {
		t.Run(name, func(t *testing.T) {
			s, dir := fresh(t)
			c.src.As = "docker.io/library/x:latest"
			_, err := s.Add(t.Context(), c.src, store.Limits{})
			wrong(t, "add", err, c.class)
			if err == nil || !strings.Contains(err.Error(), c.say) {
				t.Errorf("%v, want %q", err, c.say)
			}
			if got := left(t, dir); len(got) > 0 {
				t.Errorf("it leaves %q", got)
			}
			if _, err := s.Find("x"); err == nil {
				t.Error("it has a name")
			}
		})
	}
}

// A bomb: a little that becomes a lot, in zeros behind the archive's end.
func TestAddEndlessLayer(t *testing.T) {
	s, dir := fresh(t)
	src := testimage.Source(t, store.Config{}, testimage.Layer(t, file{Name: "f"}))
	src.Layer = func(context.Context, int) (io.ReadCloser, error) { return io.NopCloser(zeros{}), nil }
	_, err := s.Add(t.Context(), src, store.Limits{Size: 10 << 20})
	if err == nil || !strings.Contains(err.Error(), "too large") {
		t.Error(err)
	}
	if got := left(t, dir); len(got) > 0 {
		t.Errorf("it leaves %q", got)
	}
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) {
	clear(b)
	return len(b), nil
}

// Ten add one image: one does the work, all have it.
func TestAddRace(t *testing.T) {
	s, dir := fresh(t)
	layer := testimage.Layer(t, file{Name: "f", Body: strings.Repeat("x", 1<<20)})
	var opened atomic.Int32
	var all sync.WaitGroup
	for range 10 {
		all.Go(func() {
			src := testimage.Source(t, store.Config{}, layer)
			open := src.Layer
			src.As = "docker.io/library/x:latest"
			src.Layer = func(ctx context.Context, n int) (io.ReadCloser, error) {
				opened.Add(1)
				return open(ctx, n)
			}
			if img, err := s.Add(t.Context(), src, store.Limits{}); err != nil || img.ID != src.ID {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if n := opened.Load(); n != 1 {
		t.Errorf("the layer was read %d times", n)
	}
	if got := left(t, dir); len(got) != 1 {
		t.Errorf("%q", got)
	}
}

// A caller that gives up while another unpacks does so at once; one that gives
// up unpacking leaves nothing.
func TestAddCancelled(t *testing.T) {
	s, dir := fresh(t)
	src := testimage.Source(t, store.Config{}, testimage.Layer(t, file{Name: "f", Body: "x"}))
	reading := make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	src.Layer = func(ctx context.Context, _ int) (io.ReadCloser, error) {
		close(reading)
		<-ctx.Done()
		return nil, ctx.Err()
	}
	first := make(chan error)
	go func() {
		_, err := s.Add(ctx, src, store.Limits{})
		first <- err
	}()
	<-reading
	other, give := context.WithCancel(t.Context())
	give()
	_, err := s.Add(other, src, store.Limits{})
	if !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if deleted, err := s.Prune(t.Context(), true); err != nil || len(deleted) != 0 {
		t.Error(deleted, err)
	}
	if got := left(t, dir); len(got) != 1 || !strings.HasSuffix(got[0], ".new") {
		t.Errorf("prune took away what is being made: %q", got)
	}
	cancel()
	if err := <-first; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if got := left(t, dir); len(got) != 0 {
		t.Errorf("it leaves %q", got)
	}
}

// What those who were killed have left goes with the next pull of the image, or
// with prune.
func TestLeftovers(t *testing.T) {
	s, dir := fresh(t)
	img := add(t, s, "", "a")
	hex := strings.TrimPrefix(img.ID, "sha256:")
	leave := func() {
		for _, name := range []string{hex + ".new", hex + ".old"} {
			if err := os.MkdirAll(filepath.Join(dir.Path(), "images", name, "rootfs", "d"), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(filepath.Join(dir.Path(), "images", name, "rootfs"), 0o500); err != nil {
				t.Fatal(err)
			}
		}
	}
	leave()
	if deleted, err := s.Prune(t.Context(), false); err != nil || len(deleted) != 1 {
		t.Error(deleted, err)
	}
	if got := left(t, dir); len(got) != 0 {
		t.Errorf("%q", got)
	}
	leave()
	add(t, s, "x", "a")
	if err := s.Remove(t.Context(), img.ID); err != nil {
		t.Error(err)
	}
	if got := left(t, dir); len(got) != 0 {
		t.Errorf("%q", got)
	}
}

// A full disk is an error that says so, and leaves nothing on it.
func TestDiskFull(t *testing.T) {
	if !testenv.InNamespace(t) {
		return
	}
	disk := t.TempDir()
	if err := unix.Mount("none", disk, "tmpfs", 0, "size=2m"); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := unix.Unmount(disk, 0); err != nil {
			t.Error(err)
		}
	}()
	dir, err := statedir.Open(filepath.Join(disk, "state"))
	if err != nil {
		t.Fatal(err)
	}
	s := store.Open(dir.Path())
	small := add(t, s, "small", "a")
	src := testimage.Source(t, store.Config{}, testimage.Layer(t, file{Name: "d/a", Body: "x"}, file{Name: "d/f", Body: strings.Repeat("x", 4<<20)}))
	_, err = s.Add(t.Context(), src, store.Limits{})
	wrong(t, "add", err, runtime.ErrUnavailable)
	if !errors.Is(err, unix.ENOSPC) || !strings.Contains(err.Error(), "image prune") {
		t.Error(err)
	}
	if got := left(t, dir); len(got) != 1 {
		t.Errorf("it leaves %q", got)
	}
	if _, err := s.Get(small.ID); err != nil {
		t.Error(err)
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
	for _, name := range []string{"", "busybox:", "a/", "oci:", "oci::tag", "docker-archive:", "a\nb", "a@sha256:12", "a@" + strings.ToUpper(digest), "a\xff"} {
		_, err := store.Canonical(name)
		wrong(t, name, err, runtime.ErrInvalid)
	}
}
