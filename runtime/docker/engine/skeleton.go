package engine

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"path"
	"slices"
	"strings"

	"wolffia/runtime/launch"
)

// skeletonRepo is the name of images that hold no more than places to mount on.
const skeletonRepo = "wolffia-skeleton"

// skeleton is an image for a root directory that is put together of the host's:
// a tar stream with empty directories, empty files and symbolic links. The name
// says what is in it, so that an engine needs each only once.
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
	for _, e := range spec.Root {
		directory(path.Dir(e.Name))
		switch {
		case e.Link != "":
			entries[e.Name] = &tar.Header{Typeflag: tar.TypeSymlink, Name: e.Name, Linkname: e.Link, Mode: 0o777}
		case isFile(e.Source):
			entries[e.Name] = &tar.Header{Typeflag: tar.TypeReg, Name: e.Name, Mode: 0o644}
		default:
			directory(e.Name)
		}
	}
	if entries["var/tmp"] == nil {
		entries["var/tmp"] = &tar.Header{Typeflag: tar.TypeSymlink, Name: "var/tmp", Linkname: "../tmp", Mode: 0o777}
	}
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	var names []string
	for name := range entries {
		names = append(names, name)
	}
	slices.Sort(names) // parents come first
	for _, name := range names {
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
