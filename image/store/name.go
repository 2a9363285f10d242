package store

import (
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"wolffia/runtime"
)

// The prefixes of names of images in files.
const (
	LayoutPrefix  = "oci:"            // oci:DIR[:TAG], an OCI image layout
	ArchivePrefix = "docker-archive:" // docker-archive:FILE, of docker save
)

// LayoutIndex is the file in an OCI image layout that names its images.
const LayoutIndex = "index.json"

// Canonical returns the canonical form of a name: busybox becomes
// docker.io/library/busybox:latest, files get absolute paths. A tag beside a digest is dropped. It
// looks for a layout's directory, but does not check that the image exists, nor all of the syntax
// of names of registries, which the registry client does. An error is of class ErrInvalid.
func Canonical(name string) (string, error) {
	bad := func(why string) (string, error) {
		return "", runtime.Errorf(runtime.ErrInvalid, "image %.300q: %s", name, why)
	}
	if strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r == 0x7f || r == '\ufffd' }) {
		return bad("a name has no control characters")
	}
	if file, ok := strings.CutPrefix(name, ArchivePrefix); ok {
		if file == "" {
			return bad("want docker-archive:FILE")
		}
		abs, err := filepath.Abs(file)
		return ArchivePrefix + abs, err
	}
	if rest, ok := strings.CutPrefix(name, LayoutPrefix); ok {
		dir, tag := SplitLayout(rest)
		if dir == "" {
			return bad("want oci:DIR or oci:DIR:TAG")
		}
		abs, err := filepath.Abs(dir)
		if tag != "" {
			abs += ":" + tag
		}
		return LayoutPrefix + abs, err
	}
	if strings.Contains(name, "://") {
		return bad("a name begins with the registry's host, without a scheme, such as registry.example/team/image:tag")
	}
	if strings.HasPrefix(name, "./") || strings.HasPrefix(name, "../") || strings.HasPrefix(name, "/") {
		return bad("files are docker-archive:FILE or oci:DIR")
	}
	return remote(name, bad)
}

// SplitLayout splits DIR[:TAG]. Beside a DIR that is a layout, a tag can be any text, such as
// localhost/foo:latest; else it has no slash. "" means none.
func SplitLayout(s string) (dir, tag string) {
	dir = s
	if i := strings.LastIndexByte(s, ':'); i >= 0 && !strings.Contains(s[i:], "/") {
		dir, tag = s[:i], s[i+1:]
	}
	if isLayout(dir) {
		return dir, tag
	}
	for i := range min(len(s), unix.PathMax) {
		if s[i] == ':' && isLayout(s[:i]) {
			return s[:i], s[i+1:]
		}
	}
	return dir, tag
}

// isLayout reports whether a directory has the index of an image layout.
func isLayout(dir string) bool {
	st, err := os.Stat(dir + "/" + LayoutIndex)
	return err == nil && st.Mode().IsRegular()
}

// remote is Canonical for an image in a registry: HOST/PATH:TAG or
// HOST/PATH@DIGEST.
func remote(name string, bad func(string) (string, error)) (string, error) {
	path, digest, pinned := strings.Cut(name, "@")
	host, rest, ok := strings.Cut(path, "/")
	if ok && strings.ToLower(host) != host { // engines take it for a host
		return bad("a registry's host has small letters only")
	}
	if !ok || host != "localhost" && !strings.ContainsAny(host, ".:") {
		host, rest = "docker.io", path // the first part is not a host
	}
	if host == "index.docker.io" {
		host = "docker.io"
	}
	tag := "latest"
	if i := strings.LastIndexByte(rest, ':'); i >= 0 {
		rest, tag = rest[:i], rest[i+1:]
	}
	if host == "docker.io" && !strings.Contains(rest, "/") {
		rest = "library/" + rest
	}
	if strings.HasSuffix(rest, "/") || tag == "" {
		return bad("want a name such as busybox, busybox:1.36 or registry.example/team/image@sha256:...")
	}
	if pinned {
		if !IsID(digest) {
			return bad("want a digest of sha256: and 64 digits")
		}
		return host + "/" + rest + "@" + digest, nil
	}
	return host + "/" + rest + ":" + tag, nil
}

// Familiar returns the form of a canonical name of a registry that Docker prints: busybox:latest.
func Familiar(name string) string {
	short := strings.TrimPrefix(name, "docker.io/")
	if rest := strings.TrimPrefix(short, "library/"); !strings.Contains(rest, "/") {
		return rest
	}
	return short
}

// Local reports whether a canonical name means files on this host.
func Local(name string) bool {
	return strings.HasPrefix(name, LayoutPrefix) || strings.HasPrefix(name, ArchivePrefix)
}
