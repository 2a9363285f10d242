package image

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"

	"wolffia/runtime"
)

// An archive is what docker save writes: a tar archive with a list of images,
// manifest.json, their configurations, and their layers, compressed or not.
type archive struct {
	file    *os.File
	entries map[string]entry
}

// An entry is where a member of the archive is, or which it is a link to.
type entry struct {
	at, size int64
	link     string
}

// maxEntries bounds the members of an archive; a layer takes three at most.
const maxEntries = 20_000

// openArchive finds the one image in an archive.
func openArchive(file string, progress func(done, total int64)) (_ *source, err error) {
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
		return nil, runtime.Errorf(runtime.ErrInvalid, "it is no archive of docker save, or damaged: %w", err)
	}
	var images []struct {
		Config string
		Layers []string
	}
	raw, err := a.document("manifest.json")
	if err == nil {
		err = json.Unmarshal(raw, &images)
	}
	if err == nil && len(images) != 1 {
		err = fmt.Errorf("there are %d images in it, and must be one", len(images))
	}
	if err != nil {
		return nil, runtime.Errorf(runtime.ErrInvalid, "manifest.json: %w", err)
	}
	config, err := a.document(images[0].Config)
	if err != nil {
		return nil, runtime.Errorf(runtime.ErrInvalid, "its configuration: %w", err)
	}
	layers, count := images[0].Layers, newCounter(progress)
	for _, l := range layers {
		e, err := a.find(l)
		if err != nil {
			return nil, runtime.Errorf(runtime.ErrInvalid, "a layer: %w", err)
		}
		count.total += e.size
	}
	sum := sha256.Sum256(config)
	src := &source{close: func() { _ = f.Close() }}
	src.ID, src.Config = "sha256:"+hex.EncodeToString(sum[:]), config
	src.Layer = func(_ context.Context, n int) (io.ReadCloser, error) {
		if n >= len(layers) {
			return nil, runtime.Errorf(runtime.ErrInvalid, "it has %d layers, and a configuration for more", len(layers))
		}
		e, err := a.find(layers[n])
		if err != nil {
			return nil, runtime.WithClass(runtime.ErrInvalid, err)
		}
		// No digest of what is stored is known; the plain form's is, to the store.
		raw := newVerified(fmt.Sprintf("layer %.100q", layers[n]), "", e.size, count.reader(io.NewSectionReader(f, e.at, e.size)))
		return newLayer(raw, func() {})
	}
	return src, nil
}

// scan notes where everything is.
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
	return fmt.Errorf("it has more than %d members", maxEntries)
}

// find returns a member; one that is a link leads to another, once.
func (a *archive) find(name string) (entry, error) {
	e, ok := a.entries[path.Clean(name)]
	if ok && e.link != "" {
		e, ok = a.entries[e.link]
	}
	if !ok || e.link != "" {
		return e, fmt.Errorf("%.100q is not in it", name)
	}
	return e, nil
}

// document reads a member into memory.
func (a *archive) document(name string) ([]byte, error) {
	e, err := a.find(name)
	if err != nil {
		return nil, err
	}
	if e.size > maxDocument {
		return nil, fmt.Errorf("%.100q has %d bytes, which may be %d at most", name, e.size, maxDocument)
	}
	b := make([]byte, e.size)
	_, err = io.ReadFull(io.NewSectionReader(a.file, e.at, e.size), b)
	return b, err
}
