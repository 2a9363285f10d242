// Package testimage makes images for tests. They hold files that the test names, or the
// host's busybox as a real system.
package testimage

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"wolffia/image/store"
	"wolffia/internal/test/testenv"
)

// A File is an entry of a layer; see [tar.Header]. A name that ends in a slash
// is a directory, one with a Link and no Type a symbolic link. Mode 0 means 0755.
type File struct {
	Name string
	Type byte
	Link string
	Body string
	Mode int64
}

// Layer returns a layer that is not compressed.
func Layer(t testing.TB, files ...File) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, f := range files {
		h := &tar.Header{Name: f.Name, Typeflag: f.Type, Linkname: f.Link, Mode: f.Mode, Size: int64(len(f.Body))}
		if h.Mode == 0 {
			h.Mode = 0o755
		}
		switch {
		case h.Typeflag != 0:
		case f.Link != "":
			h.Typeflag = tar.TypeSymlink
		case strings.HasSuffix(f.Name, "/"):
			h.Typeflag = tar.TypeDir
		default:
			h.Typeflag = tar.TypeReg
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, f.Body); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// Digest is the digest of b.
func Digest(b []byte) string {
	sum := sha256.Sum256(b)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// Config returns the configuration file of an image with these layers.
func Config(t testing.TB, c store.Config, layers ...[]byte) []byte {
	t.Helper()
	ids := []string{}
	for _, l := range layers {
		ids = append(ids, Digest(l))
	}
	b, err := json.Marshal(map[string]any{
		"architecture": "amd64", "os": "linux", "config": c,
		"rootfs": map[string]any{"type": "layers", "diff_ids": ids},
	})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Source returns an image to add to a store.
func Source(t testing.TB, c store.Config, layers ...[]byte) *store.Source {
	t.Helper()
	config := Config(t, c, layers...)
	return &store.Source{ID: Digest(config), Config: config, Layer: func(_ context.Context, n int) (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(layers[n])), nil
	}}
}

// Archive returns the path of an archive, as of docker save, with an image of one layer.
func Archive(t testing.TB, name string, c store.Config, layer []byte) (path string) {
	t.Helper()
	manifest, err := json.Marshal([]any{map[string]any{"Config": "c.json", "RepoTags": []string{name}, "Layers": []string{"l.tar"}}})
	path = filepath.Join(t.TempDir(), "image.tar")
	if err == nil {
		err = os.WriteFile(path, Layer(t,
			File{Name: "c.json", Body: string(Config(t, c, layer))},
			File{Name: "l.tar", Body: string(layer)}, File{Name: "manifest.json", Body: string(manifest)},
		), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// Busybox returns the files of a small system: the host's static busybox, and
// links for some of its programs.
func Busybox(t testing.TB) []File {
	t.Helper()
	path := testenv.Busybox(t)
	files := []File{{Name: "bin/"}, {Name: "tmp/", Mode: 0o1777}, {Name: "root/", Mode: 0o700}, read(t, path, "bin/busybox")}
	for _, name := range []string{"sh", "ls", "cat", "echo", "id", "env", "rm", "mv", "mkdir", "ln", "touch", "stat", "pwd", "true", "chmod", "sleep"} {
		files = append(files, File{Name: "bin/" + name, Link: "busybox"})
	}
	return append(files,
		File{Name: "etc/passwd", Body: "root:x:0:0:root:/root:/bin/sh\ndaemon:x:1:1::/:/bin/false", Mode: 0o644},
		File{Name: "etc/os-release", Body: "ID=testimage\n", Mode: 0o644},
	)
}

func read(t testing.TB, path, name string) File {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return File{Name: name, Body: string(b)}
}
