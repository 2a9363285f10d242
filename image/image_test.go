package image_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
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
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/klauspost/compress/zstd"

	"wolffia/image"
	"wolffia/image/store"
	"wolffia/internal/statedir"
	"wolffia/internal/testimage"
	"wolffia/runtime"
)

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

// Every compression, by tag and by digest; what is there is not read again.
func TestPullFromRegistry(t *testing.T) {
	for what, compress := range map[string]func([]byte) []byte{"gzip": gz, "zstd": zst, "plain": plain} {
		t.Run(what, func(t *testing.T) {
			s, reg := fresh(t), serve(t)
			img := build(t, compress, "linux/amd64", layers(t)...)
			reg.push(t, "team/tool:1", img)
			var done, total int64
			got, err := image.Pull(t.Context(), s, reg.name("team/tool:1"), &image.Options{Progress: func(d, t int64) { done, total = d, t }})
			if err != nil {
				t.Fatal(err)
			}
			holds(t, s, got.ID, merged)
			if done != total || total == 0 {
				t.Errorf("%d of %d bytes", done, total)
			}
			id, err := img.ConfigName()
			if err != nil || got.ID != id.String() || got.Config.Cmd[0] != "/bin/sh" {
				t.Errorf("%+v, %v", got, err)
			}
			read := reg.blobs.Load()
			digest, err := img.Digest()
			if err != nil {
				t.Fatal(err)
			}
			if again, err := image.Pull(t.Context(), s, reg.name("team/tool@"+digest.String()), nil); err != nil || again.ID != got.ID {
				t.Error(again, err)
			}
			if n := reg.blobs.Load() - read; n > 1 { // the configuration
				t.Errorf("%d blobs were read again", n)
			}
			all, err := s.List()
			if err != nil || len(all) != 1 || len(all[0].Names) != 2 {
				t.Fatal(all, err)
			}
			for name, n := range all[0].Names {
				if n.Digest != digest.String() {
					t.Errorf("%s stood for %s, want %s", name, n.Digest, digest)
				}
			}
		})
	}
}

// Of an index with many platforms, in an index, ours is taken.
func TestPullPlatform(t *testing.T) {
	s, reg := fresh(t), serve(t)
	add := func(index v1.ImageIndex, what mutate.Appendable, os, arch, variant string) v1.ImageIndex {
		a := mutate.IndexAddendum{Add: what}
		if os != "" {
			a.Platform = &v1.Platform{OS: os, Architecture: arch, Variant: variant}
		}
		return mutate.AppendManifests(index, a)
	}
	ours := build(t, gz, "linux/amd64", layers(t)...)
	other := build(t, gz, "linux/arm64", layers(t)[:1]...)
	inner := add(empty.Index, other, "linux", "arm64", "")
	inner = add(inner, other, "unknown", "unknown", "")
	inner = add(inner, other, "linux", "amd64", "v3")
	inner = add(inner, ours, "linux", "amd64", "")
	reg.push(t, "x:inner", inner)
	reg.push(t, "x:outer", add(empty.Index, inner, "", "", ""))
	reg.push(t, "x:none", add(add(empty.Index, other, "linux", "arm64", ""), other, "windows", "amd64", ""))
	reg.push(t, "x:liar", add(empty.Index, other, "linux", "amd64", ""))
	reg.push(t, "x:arm", other)
	want, err := ours.ConfigName()
	if err != nil {
		t.Fatal(err)
	}
	for _, tag := range []string{"inner", "outer"} {
		if img, err := image.Pull(t.Context(), s, reg.name("x:"+tag), nil); err != nil || img.ID != want.String() {
			t.Errorf("%s: %+v, %v", tag, img, err)
		}
	}
	for tag, say := range map[string]string{"none": "none for linux/amd64", "liar": "arm64", "arm": "arm64"} {
		_, err := image.Pull(t.Context(), s, reg.name("x:"+tag), nil)
		wrong(t, err, runtime.ErrUnsupported, say)
	}
}

// An OCI image layout, with and without a tag.
func TestPullLayout(t *testing.T) {
	s := fresh(t)
	dir := t.TempDir()
	p, err := layout.Write(dir, empty.Index)
	if err != nil {
		t.Fatal(err)
	}
	_, err = image.Pull(t.Context(), s, "oci:"+dir, nil)
	wrong(t, err, runtime.ErrNotFound, "no image")
	one := build(t, zst, "linux/amd64", layers(t)...)
	if err := p.AppendImage(one, layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": "one"})); err != nil {
		t.Fatal(err)
	}
	got, err := image.Pull(t.Context(), s, "oci:"+dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	holds(t, s, got.ID, merged)
	two, err := random.Image(1000, 3)
	if err == nil {
		err = p.AppendImage(two, layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": "two"}))
	}
	if err != nil {
		t.Fatal(err)
	}
	for tag, want := range map[string]v1.Image{"one": one, "two": two} {
		id, err := want.ConfigName()
		if err != nil {
			t.Fatal(err)
		}
		if img, err := image.Pull(t.Context(), s, "oci:"+dir+":"+tag, nil); err != nil || img.ID != id.String() {
			t.Errorf("%s: %+v, %v", tag, img, err)
		}
	}
	_, err = image.Pull(t.Context(), s, "oci:"+dir, nil)
	wrong(t, err, runtime.ErrInvalid, "say which")
	_, err = image.Pull(t.Context(), s, "oci:"+dir+":three", nil)
	wrong(t, err, runtime.ErrNotFound, `no tag "three"`)
	_, err = image.Pull(t.Context(), s, "oci:"+dir+"/missing", nil)
	wrong(t, err, runtime.ErrNotFound, "no such file")
	// A pipe would keep the reader for ever.
	digest, err := one.ConfigName()
	if err != nil {
		t.Fatal(err)
	}
	blob := filepath.Join(dir, "blobs", "sha256", digest.Hex)
	if err := os.Remove(blob); err != nil {
		t.Fatal(err)
	}
	if err := mkfifo(blob); err != nil {
		t.Fatal(err)
	}
	_, err = image.Pull(t.Context(), s, "oci:"+dir+":one", nil)
	wrong(t, err, runtime.ErrInvalid, "no regular file")
}

// What docker save writes, with layers compressed and not.
func TestPullArchive(t *testing.T) {
	s := fresh(t)
	file := filepath.Join(t.TempDir(), "f.tar")
	tag, err := name.NewTag("x:1")
	if err != nil {
		t.Fatal(err)
	}
	img := build(t, gz, "linux/amd64", layers(t)...)
	if err := tarball.WriteToFile(file, tag, img); err != nil {
		t.Fatal(err)
	}
	got, err := image.Pull(t.Context(), s, "docker-archive:"+file, nil)
	if err != nil {
		t.Fatal(err)
	}
	holds(t, s, got.ID, merged)
	if id, err := img.ConfigName(); err != nil || got.ID != id.String() {
		t.Errorf("%+v, %v", got, err)
	}

	// As older engines write it: plain layers, one of them a link to another.
	l := layers(t)[0]
	config := testimage.Config(t, store.Config{}, l, l)
	old := filepath.Join(t.TempDir(), "old.tar")
	manifest, err := json.Marshal([]any{map[string]any{"Config": "c.json", "Layers": []string{"1/layer.tar", "2/layer.tar"}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(old, testimage.Layer(t,
		testimage.File{Name: "1/layer.tar", Body: string(l)}, testimage.File{Name: "2/layer.tar", Link: "../1/layer.tar"},
		testimage.File{Name: "c.json", Body: string(config)}, testimage.File{Name: "manifest.json", Body: string(manifest)},
	), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err = image.Pull(t.Context(), s, "docker-archive:"+old, nil); err != nil {
		t.Fatal(err)
	}
	holds(t, s, got.ID, map[string]string{"a": "1"})

	config = testimage.Config(t, store.Config{User: "other"}, l, l) // or it would be there
	manifestOf := func(m string) []byte { return testimage.Layer(t, testimage.File{Name: "manifest.json", Body: m}) }
	for what, c := range map[string]struct {
		content []byte
		say     string
	}{
		"nothing":      {nil, "manifest.json"},
		"no archive":   {bytes.Repeat([]byte("x"), 2000), "no archive"},
		"cut":          {testimage.Layer(t, testimage.File{Name: "x", Body: strings.Repeat("x", 5000)})[:2000], "EOF"},
		"no manifest":  {testimage.Layer(t, testimage.File{Name: "x"}), "manifest.json"},
		"no json":      {manifestOf("x"), "manifest.json"},
		"two images":   {manifestOf("[{},{}]"), "2 images"},
		"no config":    {manifestOf(`[{"Config":"../../etc/passwd"}]`), "not in it"},
		"link in ring": {testimage.Layer(t, testimage.File{Name: "manifest.json", Link: "manifest.json"}), "not in it"},
		"no layer":     {testimage.Layer(t, testimage.File{Name: "c", Body: "{}"}, testimage.File{Name: "manifest.json", Body: `[{"Config":"c","Layers":["/etc/passwd"]}]`}), "not in it"},
		"vast manifest": {func() []byte {
			var b bytes.Buffer
			_ = tar.NewWriter(&b).WriteHeader(&tar.Header{Name: "manifest.json", Size: 1 << 40, Mode: 0o600, Format: tar.FormatPAX})
			return b.Bytes()
		}(), ""},
		"fewer layers": {testimage.Layer(t, testimage.File{Name: "c", Body: string(config)}, testimage.File{Name: "l", Body: string(l)}, testimage.File{Name: "manifest.json", Body: `[{"Config":"c","Layers":["l"]}]`}), "1 layers"},
		"other layers": {testimage.Layer(t, testimage.File{Name: "c", Body: string(config)}, testimage.File{Name: "l", Body: "x"}, testimage.File{Name: "manifest.json", Body: `[{"Config":"c","Layers":["l","l"]}]`}), "layer 1 of 2"},
	} {
		if err := os.WriteFile(old, c.content, 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := image.Pull(t.Context(), s, "docker-archive:"+old, nil)
		if runtime.Class(err) != runtime.ErrInvalid || !strings.Contains(fmt.Sprint(err), c.say) {
			t.Errorf("%s: %v, want %q", what, err, c.say)
		}
	}
}

// What a registry can do wrong, or has been made to: each is an error of its
// class that says what it is, and leaves nothing.
func TestPullWrong(t *testing.T) {
	big := testimage.Layer(t, testimage.File{Name: "a", Body: strings.Repeat("some text ", 50_000)})
	img := build(t, gz, "linux/amd64", big)
	ls, err := img.Layers()
	if err != nil {
		t.Fatal(err)
	}
	digest, err := ls[0].Digest()
	if err != nil {
		t.Fatal(err)
	}
	config, err := img.ConfigName()
	if err != nil {
		t.Fatal(err)
	}
	packed := gz(big)
	blob := func(d v1.Hash, answer func(w http.ResponseWriter)) func(http.ResponseWriter, *http.Request) bool {
		return func(w http.ResponseWriter, r *http.Request) bool {
			if r.Method != http.MethodGet || !strings.HasSuffix(r.URL.Path, "/blobs/"+d.String()) {
				return false
			}
			answer(w)
			return true
		}
	}
	body := func(b []byte) func(http.ResponseWriter) {
		return func(w http.ResponseWriter) { _, _ = w.Write(b) }
	}
	status := func(code int) func(http.ResponseWriter, *http.Request) bool {
		return func(w http.ResponseWriter, r *http.Request) bool {
			if !strings.Contains(r.URL.Path, "/manifests/") {
				return false
			}
			w.WriteHeader(code)
			return true
		}
	}
	manifest := func(change func(m *v1.Manifest)) func(http.ResponseWriter, *http.Request) bool {
		return func(w http.ResponseWriter, r *http.Request) bool {
			if !strings.Contains(r.URL.Path, "/manifests/") {
				return false
			}
			m, err := img.Manifest()
			if err != nil {
				t.Error(err)
			}
			m = m.DeepCopy()
			change(m)
			w.Header().Set("Content-Type", string(types.OCIManifestSchema1))
			_ = json.NewEncoder(w).Encode(m)
			return true
		}
	}
	for what, c := range map[string]struct {
		instead func(http.ResponseWriter, *http.Request) bool
		class   error
		say     string
	}{
		"corrupt layer":   {blob(digest, body(append(append(bytes.Clone(packed[:500]), packed[500]^1), packed[501:]...))), runtime.ErrInvalid, ""},
		"other layer":     {blob(digest, body(gz(testimage.Layer(t, testimage.File{Name: "b"})))), runtime.ErrInvalid, ""},
		"truncated layer": {blob(digest, body(packed[:len(packed)/2])), runtime.ErrInvalid, ""},
		"empty layer":     {blob(digest, body(nil)), runtime.ErrInvalid, ""},
		"layer with more": {blob(digest, body(append(bytes.Clone(packed), "more"...))), runtime.ErrInvalid, ""},
		"no layer":        {blob(digest, func(w http.ResponseWriter) { w.WriteHeader(404) }), runtime.ErrNotFound, ""},
		"layer hangs up": {blob(digest, func(w http.ResponseWriter) {
			w.Header().Set("Content-Length", fmt.Sprint(len(packed)))
			_, _ = w.Write(packed[:900])
		}), runtime.ErrInvalid, "cut off"},
		"corrupt configuration":  {blob(config, body([]byte(`{}`))), runtime.ErrInvalid, ""},
		"no configuration":       {blob(config, func(w http.ResponseWriter) { w.WriteHeader(404) }), runtime.ErrNotFound, ""},
		"vast configuration":     {manifest(func(m *v1.Manifest) { m.Config.Size = 1 << 40 }), runtime.ErrInvalid, "at most"},
		"negative size":          {manifest(func(m *v1.Manifest) { m.Layers[0].Size = -1 }), runtime.ErrUnsupported, "-1 bytes"},
		"smaller size":           {manifest(func(m *v1.Manifest) { m.Layers[0].Size-- }), runtime.ErrInvalid, ""},
		"no layers":              {manifest(func(m *v1.Manifest) { m.Layers = nil }), runtime.ErrInvalid, "0 layers, and a configuration for more"},
		"layers in another name": {manifest(func(m *v1.Manifest) { m.Layers[0].Digest = config; m.Layers[0].Size = m.Config.Size }), runtime.ErrInvalid, ""},
		"manifest is no json": {func(w http.ResponseWriter, r *http.Request) bool {
			if strings.Contains(r.URL.Path, "/manifests/") {
				w.Header().Set("Content-Type", string(types.OCIManifestSchema1))
				_, _ = w.Write([]byte("\x1b[2J"))
				return true
			}
			return false
		}, runtime.ErrInvalid, "manifest is damaged"},
		"index of itself": {func(w http.ResponseWriter, r *http.Request) bool {
			if !strings.Contains(r.URL.Path, "/manifests/") {
				return false
			}
			w.Header().Set("Content-Type", string(types.OCIImageIndex))
			_, _ = fmt.Fprintf(w, `{"schemaVersion":2,"mediaType":%q,"manifests":[{"mediaType":%q,"digest":%q,"size":10}]}`, types.OCIImageIndex, types.OCIImageIndex, digest)
			return true
		}, nil, ""},
		"not found":    {status(404), runtime.ErrNotFound, "no such image"},
		"unauthorized": {status(401), runtime.ErrDenied, "credentials"},
		"forbidden":    {status(403), runtime.ErrDenied, "credentials"},
		"too many":     {status(429), runtime.ErrUnavailable, ""},
		"redirected out of TLS": {func(w http.ResponseWriter, r *http.Request) bool {
			if strings.HasSuffix(r.URL.Path, "/blobs/"+digest.String()) {
				http.Redirect(w, r, "http://192.0.2.1/secret", http.StatusTemporaryRedirect)
				return true
			}
			return false
		}, runtime.ErrUnsupported, "without TLS is refused"},
	} {
		t.Run(what, func(t *testing.T) {
			s, reg := fresh(t), serve(t)
			reg.push(t, "x:1", img)
			reg.instead = c.instead
			_, err := image.Pull(t.Context(), s, reg.name("x:1"), nil)
			if c.class == nil && err == nil {
				t.Error("no error")
			} else if c.class != nil {
				wrong(t, err, c.class, c.say)
			}
			t.Log(err)
			if all, err := s.List(); err != nil || len(all) > 0 {
				t.Errorf("%+v, %v", all, err)
			}
			reg.instead = nil // and now it goes well
			if img, err := image.Pull(t.Context(), s, reg.name("x:1"), nil); err != nil || img.Files != 1 {
				t.Errorf("%+v, %v", img, err)
			}
		})
	}
}

// By digest nothing else is taken, whatever the registry says.
func TestPullByDigestIsThat(t *testing.T) {
	s, reg := fresh(t), serve(t)
	asked, given := build(t, gz, "linux/amd64", layers(t)...), build(t, gz, "linux/amd64", layers(t)[0])
	reg.push(t, "x:1", asked)
	reg.push(t, "x:2", given)
	digest, err := asked.Digest()
	if err != nil {
		t.Fatal(err)
	}
	reg.instead = func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, "/manifests/"+digest.String()) {
			return false
		}
		raw, _ := given.RawManifest()
		w.Header().Set("Content-Type", string(types.OCIManifestSchema1))
		w.Header().Set("Docker-Content-Digest", digest.String())
		_, _ = w.Write(raw)
		return true
	}
	if img, err := image.Pull(t.Context(), s, reg.name("x@"+digest.String()), nil); err == nil {
		t.Errorf("got %+v", img)
	}
}

// A few kilobytes that become gigabytes are refused in time.
func TestPullBomb(t *testing.T) {
	s, reg := fresh(t), serve(t)
	var bomb bytes.Buffer
	w := gzip.NewWriter(&bomb)
	tw := tar.NewWriter(w)
	const size = 1 << 30
	if err := tw.WriteHeader(&tar.Header{Name: "zeros", Size: size, Mode: 0o600}); err != nil {
		t.Fatal(err)
	}
	chunk := make([]byte, 1<<20)
	for range 64 { // all of it need not be there
		_, _ = tw.Write(chunk)
	}
	_ = w.Close()
	l := static.NewLayer(bomb.Bytes(), types.OCILayer)
	img, err := mutate.AppendLayers(mutate.MediaType(empty.Image, types.OCIManifestSchema1), l)
	if err != nil {
		t.Fatal(err)
	}
	reg.push(t, "x:1", img)
	_, err = image.Pull(t.Context(), s, reg.name("x:1"), &image.Options{Limits: store.Limits{Size: 16 << 20}})
	wrong(t, err, runtime.ErrInvalid, "too large")
}

// Names that are none are refused before anybody is asked.
func TestPullBadNames(t *testing.T) {
	s := fresh(t)
	for _, n := range []string{"", "UPPER/case", "a b", "x:" + strings.Repeat("t", 200), "http://x/y", "x@sha256:12"} {
		_, err := image.Pull(t.Context(), s, n, nil)
		if runtime.Class(err) != runtime.ErrInvalid {
			t.Errorf("%q: %v", n, err)
		}
	}
	_, err := image.Pull(t.Context(), s, "127.0.0.1:1/x", nil)
	wrong(t, err, runtime.ErrUnavailable, "refused")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err = image.Pull(ctx, s, "127.0.0.1:1/x", nil); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// The store's forms of names are those of the registry's client.
func TestCanonicalAgrees(t *testing.T) {
	const digest = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	for _, n := range []string{"busybox", "busybox:1", "a/b", "a/b:1", "localhost/a", "localhost:5000/a:1", "127.0.0.1:1/a", "ghcr.io/a/b/c", "docker.io/x", "index.docker.io/x/y", "x@" + digest, "r.example/x:1@" + digest} {
		canonical, err := store.Canonical(n)
		if err != nil {
			t.Fatal(err)
		}
		want, err := name.ParseReference(n)
		if err != nil {
			t.Fatal(err)
		}
		got, err := name.ParseReference(canonical)
		if err != nil || got.Name() != want.Name() {
			t.Errorf("%s is %s, which is %v, want %v (%v)", n, canonical, got, want, err)
		}
	}
}
