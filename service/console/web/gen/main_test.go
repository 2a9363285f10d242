package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"wolffia/internal/test/packaged"
)

// modules returns a copy of the sources, with the packages of npm.
func modules(t *testing.T) (web string) {
	t.Helper()
	return packaged.Node(t, "..")
}

// The files in dist are what the sources make.
func TestBundleIsGenerated(t *testing.T) {
	web := modules(t)
	want, err := bundle(web, filepath.Join(web, "node_modules"))
	if err != nil {
		t.Fatal(err)
	}
	committed, err := filepath.Glob("../dist/*")
	if err != nil {
		t.Fatal(err)
	}
	if len(committed) != len(want) {
		t.Errorf("dist has %d files, want %d: go generate ./service/console/web/gen", len(committed), len(want))
	}
	for name, text := range want {
		if got, err := os.ReadFile(filepath.Join("..", "dist", name)); err != nil || !bytes.Equal(got, text) {
			t.Errorf("dist/%s is not what the sources make (%v): go generate ./service/console/web/gen", name, err)
		}
	}
}

// esbuild removes types and does not check them.
func TestTypes(t *testing.T) {
	web := modules(t)
	if text, err := packaged.Run(t, web, nil, "node", "node_modules/typescript/bin/tsc", "-p", ".", "--preserveSymlinks"); err != nil {
		t.Errorf("tsc: %v\n%s", err, text)
	}
}
