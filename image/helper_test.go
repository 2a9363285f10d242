package image_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/klauspost/compress/zstd"
	"golang.org/x/sys/unix"

	"wolffia/image/store"
	"wolffia/internal/host/statedir"
	"wolffia/internal/test/testimage"
	"wolffia/runtime"
)

func mkfifo(path string) error { return unix.Mkfifo(path, 0o600) }

// A server is a registry on loopback that counts the blobs it hands out, and
// may be told to answer otherwise.
type server struct {
	*httptest.Server
	blobs atomic.Int32
	// instead, if it is not nil, answers a request and reports whether it has.
	instead func(w http.ResponseWriter, r *http.Request) bool
}

func serve(t *testing.T) *server {
	t.Helper()
	s := &server{}
	reg := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.instead != nil && s.instead(w, r) {
			return
		}
		if r.Method == http.MethodGet && strings.Contains(r.URL.Path, "/blobs/") {
			s.blobs.Add(1)
		}
		reg.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

// name is one in the registry.
func (s *server) name(n string) string { return strings.TrimPrefix(s.URL, "http://") + "/" + n }

func (s *server) push(t *testing.T, n string, what remote.Taggable) {
	t.Helper()
	ref, err := name.ParseReference(s.name(n))
	if err != nil {
		t.Fatal(err)
	}
	switch what := what.(type) {
	case v1.Image:
		err = remote.Write(ref, what)
	case v1.ImageIndex:
		err = remote.WriteIndex(ref, what)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// build makes an image of plain layers, compressed by compress.
func build(t *testing.T, compress func([]byte) []byte, platform string, layers ...[]byte) v1.Image {
	t.Helper()
	img := mutate.MediaType(empty.Image, types.OCIManifestSchema1)
	var err error
	for _, plain := range layers {
		img, err = mutate.AppendLayers(img, &testLayer{plain, compress(plain)})
		if err != nil {
			t.Fatal(err)
		}
	}
	c, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	c = c.DeepCopy()
	c.OS, c.Architecture, _ = strings.Cut(platform, "/")
	c.Config.Cmd = []string{"/bin/sh"}
	if img, err = mutate.ConfigFile(img, c); err != nil {
		t.Fatal(err)
	}
	return img
}

// A testLayer is a layer in two forms.
type testLayer struct{ plain, packed []byte }

func (l *testLayer) Digest() (v1.Hash, error) { return v1.NewHash(testimage.Digest(l.packed)) }
func (l *testLayer) DiffID() (v1.Hash, error) { return v1.NewHash(testimage.Digest(l.plain)) }
func (l *testLayer) Compressed() (io.ReadCloser, error) {
	return io.NopCloser(bytes.NewReader(l.packed)), nil
}

func (l *testLayer) Uncompressed() (io.ReadCloser, error) {
	return io.NopCloser(bytes.NewReader(l.plain)), nil
}
func (l *testLayer) Size() (int64, error)                { return int64(len(l.packed)), nil }
func (l *testLayer) MediaType() (types.MediaType, error) { return types.OCILayer, nil }

func gz(b []byte) []byte {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, _ = w.Write(b)
	_ = w.Close()
	return out.Bytes()
}

func zst(b []byte) []byte {
	w, err := zstd.NewWriter(nil)
	if err != nil {
		panic(err)
	}
	return w.EncodeAll(b, nil)
}

func plain(b []byte) []byte { return b }

// fresh returns an empty store.
func fresh(t *testing.T) *store.Store {
	t.Helper()
	// Nobody's credentials.
	t.Setenv("DOCKER_CONFIG", t.TempDir())
	dir, err := statedir.Open(filepath.Join(t.TempDir(), "state"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		left, err := filepath.Glob(filepath.Join(dir.Path(), "images", "*.*"))
		for _, l := range left {
			if filepath.Base(l) != "names.json" {
				t.Errorf("left in the store: %s (%v)", l, err)
			}
		}
	})
	return store.Open(dir.Path())
}

// holds fails unless the image's tree has exactly these files, by content.
func holds(t *testing.T, s *store.Store, id string, want map[string]string) {
	t.Helper()
	for name, body := range want {
		if b, err := os.ReadFile(filepath.Join(s.Rootfs(id), name)); string(b) != body {
			t.Errorf("%s: %q, %v; want %q", name, b, err, body)
		}
	}
}

func wrong(t *testing.T, err, class error, say string) {
	t.Helper()
	if runtime.Class(err) != class || !strings.Contains(fmt.Sprint(err), say) {
		t.Errorf("%v, want one of class %q that says %q", err, class, say)
	}
}

// layers are two whose files hide and add to one another.
func layers(t *testing.T) [][]byte {
	return [][]byte{
		testimage.Layer(t, testimage.File{Name: "a", Body: "1"}, testimage.File{Name: "d/b", Body: "2"}),
		testimage.Layer(t, testimage.File{Name: ".wh.a"}, testimage.File{Name: "d/c", Body: "3"}),
	}
}

var merged = map[string]string{"d/b": "2", "d/c": "3", "a": ""}
