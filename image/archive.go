package image

import (
	"archive/tar"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"

	"wolffia/image/store"
	"wolffia/runtime"
)

// An archive is a file that docker save has written: a tar archive with a list of images,
// manifest.json, their configurations, and their layers, compressed or not.
//
// go-containerregistry's package tarball reads such files too, but with unbounded
// documents in memory, and from the beginning for each member.
type archive struct {
	file    *os.File
	entries map[string]entry
}

// An entry is the place of a member of the archive, or the member that it is a link to.
type entry struct {
	at, size int64
	link     string
}

// maxEntries bounds the members of an archive; a layer has at most three.
const maxEntries = 20_000

// openArchive opens an archive, which must have one image. It may be of an OCI image layout.
func openArchive(ctx context.Context, file string, progress func(done, total int64)) (_ *source, err error) {
	f, _, err := openFile(file)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = f.Close()
		}
	}()
	a := &archive{file: f, entries: map[string]entry{}}
	if err := a.scan(); err != nil {
		return nil, runtime.Errorf(runtime.ErrInvalid, "not an archive of docker save, or damaged: %w", err)
	}
	if _, err := a.find("manifest.json"); err != nil {
		if _, err := a.find(store.LayoutIndex); err == nil {
			return openImage(ctx, &layout{open: a.open, shut: func() { _ = f.Close() }}, progress)
		}
	}
	var images []struct {
		Config   string
		RepoTags []string
		Layers   []string
	}
	raw, err := a.document("manifest.json")
	if err == nil {
		err = json.Unmarshal(raw, &images)
	}
	if err == nil && len(images) != 1 {
		err = fmt.Errorf("it lists %d images, want one: save them one by one", len(images))
	}
	if err != nil {
		return nil, runtime.Errorf(runtime.ErrInvalid, "manifest.json: %w", err)
	}
	config, err := a.document(images[0].Config)
	if err != nil {
		return nil, runtime.Errorf(runtime.ErrInvalid, "configuration: %w", err)
	}
	layers, count := images[0].Layers, &counter{report: progress}
	for _, l := range layers {
		e, err := a.find(l)
		if err != nil {
			return nil, runtime.Errorf(runtime.ErrInvalid, "layer: %w", err)
		}
		count.total += e.size
	}
	src := &source{close: func() { _ = f.Close() }, tags: images[0].RepoTags}
	src.ID, src.Config = store.IDOf(config), config
	src.Layer = func(_ context.Context, n int) (io.ReadCloser, error) {
		if err := enough(n, len(layers)); err != nil {
			return nil, err
		}
		e, err := a.find(layers[n])
		if err != nil {
			return nil, runtime.WithClass(runtime.ErrInvalid, err)
		}
		// The digest of the stored form is unknown; the store checks that of the plain form.
		raw := newVerified(fmt.Sprintf("layer %.100q", layers[n]), "", e.size, count.reader(io.NewSectionReader(f, e.at, e.size)))
		return newLayer(raw, func() {})
	}
	return src, nil
}

// scan records the place of every member.
func (a *archive) scan() error {
	tr := tar.NewReader(a.file)
	for range maxEntries {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		// The tar reader reads no more than the header.
		at, err := a.file.Seek(0, io.SeekCurrent)
		if err != nil {
			return err
		}
		e := entry{at: at, size: h.Size}
		switch h.Typeflag {
		case tar.TypeReg:
		case tar.TypeSymlink:
			e.link = path.Join(path.Dir(h.Name), h.Linkname)
		case tar.TypeLink:
			e.link = path.Clean(h.Linkname)
		default:
			continue
		}
		a.entries[path.Clean(h.Name)] = e
	}
	return fmt.Errorf("more than %d members", maxEntries)
}

// find returns a member that is not a link, or the target of one that is.
func (a *archive) find(name string) (entry, error) {
	e, ok := a.entries[path.Clean(name)]
	if ok && e.link != "" {
		e, ok = a.entries[e.link]
	}
	if !ok || e.link != "" {
		return e, fmt.Errorf("%.100q is missing", name)
	}
	return e, nil
}

// open opens a member for reading, and returns its size.
func (a *archive) open(name string) (io.ReadCloser, int64, error) {
	e, err := a.find(name)
	if err != nil {
		return nil, 0, runtime.WithClass(runtime.ErrNotFound, err)
	}
	return io.NopCloser(io.NewSectionReader(a.file, e.at, e.size)), e.size, nil
}

// document reads a member into memory.
func (a *archive) document(name string) ([]byte, error) {
	e, err := a.find(name)
	if err != nil {
		return nil, err
	}
	if e.size > maxDocument {
		return nil, fmt.Errorf("%.100q has %d bytes: at most %d are allowed", name, e.size, maxDocument)
	}
	b := make([]byte, e.size)
	_, err = io.ReadFull(io.NewSectionReader(a.file, e.at, e.size), b)
	return b, err
}
