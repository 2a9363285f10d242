package store_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"wolffia/image/store"
	"wolffia/internal/host/statedir"
	"wolffia/internal/test/suite"
	"wolffia/internal/test/testenv"
	"wolffia/internal/test/testimage"
	"wolffia/runtime"
)

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
		}(), runtime.ErrInvalid, "damaged: the digest is"},
		"more after the end": {func() *store.Source {
			s := good()
			s.Layer = func(context.Context, int) (io.ReadCloser, error) {
				return io.NopCloser(strings.NewReader(string(layer) + "more")), nil
			}
			return s
		}(), runtime.ErrInvalid, "damaged: the digest is"},
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
		t.Errorf("left: got %q; want len(got) == 1", got)
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

// A slow source delays no caller that gets the same image by another name; when it is done, it finds the image there.
func TestAddSlowSource(t *testing.T) {
	s, dir := fresh(t)
	source := func(name string) *store.Source {
		src := testimage.Source(t, store.Config{}, testimage.Layer(t, file{Name: "f", Body: "x"}))
		src.As = name
		return src
	}
	reading, proceed := make(chan struct{}), make(chan struct{})
	slow := source("slow.example/x:latest")
	open := slow.Layer
	slow.Layer = func(ctx context.Context, n int) (io.ReadCloser, error) {
		close(reading)
		<-proceed
		return open(ctx, n)
	}
	first := make(chan error)
	go func() {
		_, err := s.Add(t.Context(), slow, store.Limits{})
		first <- err
	}()
	<-reading
	ctx, cancel := context.WithTimeout(t.Context(), suite.Limit)
	defer cancel()
	img, err := s.Add(ctx, source("docker.io/library/x:latest"), store.Limits{})
	if err != nil {
		close(proceed)
		t.Fatal(err)
	}
	_, release, err := s.Pin(ctx, img.ID)
	if err != nil {
		t.Fatal(err)
	}
	release()
	close(proceed)
	if err := <-first; err != nil {
		t.Error(err)
	}
	for _, name := range []string{"x", "slow.example/x"} {
		if id, err := s.Find(name); id != img.ID {
			t.Errorf("%s: got id %q, err %v; want id == %q", name, id, err, img.ID)
		}
	}
	if got := left(t, dir); len(got) != 1 {
		t.Errorf("left: got %q; want len(got) == 1", got)
	}
}

// What those who were killed have left goes with the next pull of the image, or
// with prune.
func TestLeftovers(t *testing.T) {
	s, dir := fresh(t)
	img := add(t, s, "", "a")
	hex := strings.TrimPrefix(img.ID, "sha256:")
	place := sha256.Sum256([]byte("x"))
	leave := func(more ...string) {
		for _, name := range append(more, fmt.Sprintf("%s.%x.new", hex, place[:8]), hex+".old") {
			if err := os.MkdirAll(filepath.Join(dir.Path(), "images", name, "rootfs", "d"), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(filepath.Join(dir.Path(), "images", name, "rootfs"), 0o500); err != nil {
				t.Fatal(err)
			}
		}
	}
	leave(hex + ".new") // of an earlier version
	if deleted, err := s.Prune(t.Context(), false); err != nil || len(deleted) != 1 {
		t.Error(deleted, err)
	}
	if got := left(t, dir); len(got) != 0 {
		t.Errorf("left: got %q; want len(got) == 0", got)
	}
	leave()
	add(t, s, "x", "a")
	if err := s.Remove(t.Context(), img.ID); err != nil {
		t.Error(err)
	}
	if got := left(t, dir); len(got) != 0 {
		t.Errorf("left: got %q; want len(got) == 0", got)
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
