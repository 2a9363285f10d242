package image

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"golang.org/x/sys/unix"

	"wolffia/image/store"
	"wolffia/runtime"
)

// refName is the annotation with an image's tag in the index of an image layout (OCI image
// specification, annotations.md).
const refName = "org.opencontainers.image.ref.name"

// containerdName is the annotation with a whole name, of containerd and docker save.
const containerdName = "io.containerd.image.name"

// A layout is an OCI image layout: a directory with an index and blobs.
// go-containerregistry's package layout reads the index and manifests without bounds.
type layout struct {
	// open opens a file of the layout by its name, and returns its size.
	open  func(name string) (io.ReadCloser, int64, error)
	tag   string
	found string // the name of the image that was found
	shut  func()
}

// openLayout returns the layout in a directory.
func openLayout(dir, tag string) *layout {
	open := func(name string) (io.ReadCloser, int64, error) { return openFile(filepath.Join(dir, name)) }
	return &layout{open: open, tag: tag, shut: func() {}}
}

func (l *layout) close() { l.shut() }

func (l *layout) top(ctx context.Context) ([]byte, string, error) {
	f, size, err := l.open(store.LayoutIndex)
	if err != nil {
		return nil, "", err
	}
	defer f.Close()
	if size > maxDocument {
		return nil, "", runtime.Errorf(runtime.ErrInvalid, "its index has %d bytes: at most %d are allowed", size, maxDocument)
	}
	raw, err := io.ReadAll(io.LimitReader(f, maxDocument))
	if err != nil {
		return nil, "", unavailable(err)
	}
	index, err := v1.ParseIndexManifest(bytes.NewReader(raw))
	if err != nil {
		return nil, "", runtime.Errorf(runtime.ErrInvalid, "index is damaged: %w", err)
	}
	d, err := l.find(index.Manifests)
	if err != nil {
		return nil, "", err
	}
	l.found = cmp.Or(d.Annotations[containerdName], d.Annotations[refName])
	raw, err = l.manifest(ctx, d)
	return raw, string(d.MediaType), err
}

// find returns the image with the tag, or the only image.
func (l *layout) find(all []v1.Descriptor) (v1.Descriptor, error) {
	var tags []string
	for _, d := range all {
		tags = append(tags, d.Annotations[refName])
	}
	switch i := slices.Index(tags, l.tag); {
	case len(all) == 0:
		return v1.Descriptor{}, runtime.Errorf(runtime.ErrNotFound, "the layout has no image")
	case l.tag == "" && len(all) == 1:
		return all[0], nil
	case l.tag == "":
		return v1.Descriptor{}, runtime.Errorf(runtime.ErrInvalid, "the layout has %d images: name one, as oci:DIR:TAG; tags: %.500q", len(all), tags)
	case i < 0:
		return v1.Descriptor{}, runtime.Errorf(runtime.ErrNotFound, "the layout has no tag %q; tags: %.500q", l.tag, tags)
	default:
		return all[i], nil
	}
}

func (l *layout) manifest(ctx context.Context, d v1.Descriptor) ([]byte, error) {
	r, err := l.blob(ctx, d)
	return readDocument("manifest", d, r, err)
}

func (l *layout) blob(_ context.Context, d v1.Descriptor) (io.ReadCloser, error) {
	if !store.IsID(d.Digest.String()) {
		return nil, runtime.Errorf(runtime.ErrUnsupported, "unsupported digest %.100q: only sha256 is supported", d.Digest.String())
	}
	f, _, err := l.open(filepath.Join("blobs", d.Digest.Algorithm, d.Digest.Hex))
	return f, err
}

// openFile opens a regular file and returns its size. Reading another kind could block.
func openFile(path string) (*os.File, int64, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, 0, runtime.WithClass(runtime.ErrNotFound, err)
	}
	if err != nil {
		return nil, 0, runtime.WithClass(runtime.ErrUnavailable, err)
	}
	st, err := f.Stat()
	if err == nil && !st.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a regular file", path)
	}
	if err != nil {
		_ = f.Close()
		return nil, 0, runtime.WithClass(runtime.ErrInvalid, err)
	}
	return f, st.Size(), nil
}
