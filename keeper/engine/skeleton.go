package engine

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"path"
	"slices"
	"strings"

	"wolffia/runtime/launch"
)

// skeletonRepo is the name of the images that consist of places to mount on.
const skeletonRepo = "wolffia-skeleton"

// skeleton returns an image for spec.Root: a tar stream with empty directories, empty
// files and symbolic links. The name contains a hash of it, so that an engine imports
// each image only once.
func skeleton(spec *launch.Spec, isFile func(path string) bool) (name string, image []byte, err error) {
	entries := map[string]*tar.Header{}
	var directory func(name string)
	directory = func(name string) {
		if name = strings.Trim(name, "/"); name == "" || name == "." || entries[name] != nil {
			return
		}
		directory(path.Dir(name))
		entries[name] = &tar.Header{Typeflag: tar.TypeDir, Name: name + "/", Mode: 0o755}
	}
	for _, name := range []string{"proc", "dev", "sys", "tmp", "run/wolffia", "var", "etc"} {
		directory(name)
	}
	entries["tmp"].Mode = 0o1777 // runc gives a tmpfs the mode of what it covers
	for _, m := range spec.Root {
		name := strings.Trim(m.Target, "/")
		directory(path.Dir(name))
		switch {
		case m.Kind == launch.Symlink:
			entries[name] = &tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: m.Source, Mode: 0o777}
		case isFile(m.Source):
			entries[name] = &tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644}
		default:
			directory(name)
		}
	}
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, name := range slices.Sorted(maps.Keys(entries)) { // parents come first
		if err := w.WriteHeader(entries[name]); err != nil {
			return "", nil, err
		}
	}
	if err := w.Close(); err != nil {
		return "", nil, err
	}
	sum := sha256.Sum256(b.Bytes())
	return skeletonRepo + ":" + hex.EncodeToString(sum[:8]), b.Bytes(), nil
}
