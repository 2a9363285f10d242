package image_test

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"wolffia/image"
	"wolffia/image/store"
	"wolffia/internal/test/testimage"
	"wolffia/runtime"
)

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
				t.Errorf(`image.Pull: got %+v, err %v; want err == nil and got.ID == id.String() and got.Config.Cmd[0] == "/bin/sh"`, got, err)
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
			t.Errorf("%s: got img %+v, err %v; want err == nil and img.ID == want.String()", tag, img, err)
		}
	}
	for tag, say := range map[string]string{"none": "no image for linux/amd64", "liar": "arm64", "arm": "arm64"} {
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
	three, err := random.Image(1000, 3)
	if err == nil {
		err = p.AppendImage(three, layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": "localhost/foo:latest"}))
	}
	if err != nil {
		t.Fatal(err)
	}
	for tag, want := range map[string]v1.Image{"one": one, "two": two, "localhost/foo:latest": three} {
		id, err := want.ConfigName()
		if err != nil {
			t.Fatal(err)
		}
		if img, err := image.Pull(t.Context(), s, "oci:"+dir+":"+tag, nil); err != nil || img.ID != id.String() {
			t.Errorf("%s: got img %+v, err %v; want err == nil and img.ID == id.String()", tag, img, err)
		}
	}
	_, err = image.Pull(t.Context(), s, "oci:"+dir, nil)
	wrong(t, err, runtime.ErrInvalid, "name one")
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
	wrong(t, err, runtime.ErrInvalid, "not a regular file")
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
		t.Errorf("image.Pull: got %+v, err %v; want err == nil and got.ID == id.String()", got, err)
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
		"no archive":   {bytes.Repeat([]byte("x"), 2000), "not an archive"},
		"cut":          {testimage.Layer(t, testimage.File{Name: "x", Body: strings.Repeat("x", 5000)})[:2000], "EOF"},
		"no manifest":  {testimage.Layer(t, testimage.File{Name: "x"}), "manifest.json"},
		"no json":      {manifestOf("x"), "manifest.json"},
		"two images":   {manifestOf("[{},{}]"), "2 images"},
		"no config":    {manifestOf(`[{"Config":"../../etc/passwd"}]`), "is missing"},
		"link in ring": {testimage.Layer(t, testimage.File{Name: "manifest.json", Link: "manifest.json"}), "is missing"},
		"no layer":     {testimage.Layer(t, testimage.File{Name: "c", Body: "{}"}, testimage.File{Name: "manifest.json", Body: `[{"Config":"c","Layers":["/etc/passwd"]}]`}), "is missing"},
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

// Names that are none are refused before anybody is asked.
func TestPullBadNames(t *testing.T) {
	s := fresh(t)
	for _, n := range []string{"", "UPPER/case", "a b", "x:" + strings.Repeat("t", 200), "http://x/y", "x@sha256:12"} {
		_, err := image.Pull(t.Context(), s, n, nil)
		if runtime.Class(err) != runtime.ErrInvalid {
			t.Errorf("%q: got err %v; want runtime.Class(err) == runtime.ErrInvalid", n, err)
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
