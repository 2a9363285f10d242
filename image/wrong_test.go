package image_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"wolffia/image"
	"wolffia/image/store"
	"wolffia/internal/test/testimage"
	"wolffia/runtime"
)

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
		"not found":    {status(404), runtime.ErrNotFound, "not found in the registry"},
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
				t.Errorf("List: got all %+v, err %v; want err == nil and len(all) <= 0", all, err)
			}
			reg.instead = nil // and now it goes well
			if img, err := image.Pull(t.Context(), s, reg.name("x:1"), nil); err != nil || img.Files != 1 {
				t.Errorf("image.Pull: got img %+v, err %v; want err == nil and img.Files == 1", img, err)
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
