package main

import (
	"context"
	"encoding/json"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/rogpeppe/go-internal/testscript"

	"wolffia/image/store"
	"wolffia/internal/test/testenv"
	"wolffia/internal/test/testimage"
)

// Images, from a registry on loopback and from files, and sandboxes on them.
func TestImageScripts(t *testing.T) {
	testenv.Busybox(t)
	p := scripts(t, "testdata/image")
	for name, cmd := range map[string]func(*testing.T, *testscript.TestScript, bool, []string){"registry": serveImages, "save": saveImage} {
		p.Cmds[name] = func(ts *testscript.TestScript, neg bool, args []string) { cmd(t, ts, neg, args) }
	}
	testscript.Run(t, p)
}

// serveImages is the script command registry: it starts one on loopback, with a
// busybox as bb:1 and bb:2, which are the same but for a file, and sets REGISTRY.
func serveImages(t *testing.T, ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 0 {
		ts.Fatalf("usage: registry")
	}
	s := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	ts.Defer(s.Close)
	host := strings.TrimPrefix(s.URL, "http://")
	system := testimage.Layer(t, testimage.Busybox(t)...)
	for _, tag := range []string{"1", "2"} {
		layers := [][]byte{system, testimage.Layer(t, testimage.File{Name: "tag", Body: tag + "\n"})}
		img := mutate.MediaType(empty.Image, types.OCIManifestSchema1)
		var err error
		for _, l := range layers {
			img, err = mutate.AppendLayers(img, static.NewLayer(l, types.OCIUncompressedLayer))
			ts.Check(err)
		}
		c, err := img.ConfigFile()
		ts.Check(err)
		c = c.DeepCopy()
		c.OS, c.Architecture = "linux", "amd64"
		c.Config.Entrypoint, c.Config.Cmd = []string{"/bin/cat"}, []string{"/tag"}
		c.Config.Env = []string{"PATH=/bin", "OF_THE_IMAGE=yes"}
		c.Config.User = "nobody"
		img, err = mutate.ConfigFile(img, c)
		ts.Check(err)
		ref, err := name.ParseReference(host + "/bb:" + tag)
		ts.Check(err)
		ts.Check(remote.Write(ref, img, remote.WithContext(context.Background())))
	}
	ts.Setenv("REGISTRY", host)
}

// saveImage is the script command save: it writes what docker save does, of an
// image with one file.
func saveImage(t *testing.T, ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: save FILE CONTENT")
	}
	l := testimage.Layer(t, append(testimage.Busybox(t), testimage.File{Name: "saved", Body: args[1] + "\n"})...)
	manifest, err := json.Marshal([]any{map[string]any{"Config": "c.json", "Layers": []string{"layer.tar"}}})
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), testimage.Layer(t,
		testimage.File{Name: "c.json", Body: string(testimage.Config(t, store.Config{}, l))},
		testimage.File{Name: "layer.tar", Body: string(l)}, testimage.File{Name: "manifest.json", Body: string(manifest)},
	), 0o600))
}
