package image

import (
	"archive/tar"
	"errors"
	"io"
	"os"
	"path/filepath"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	ocilayout "github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"wolffia/image/maker"
	"wolffia/image/store"
	"wolffia/internal/sys/rmtree"
	"wolffia/runtime"
)

// export writes an image.
func export(s *store.Store, e *maker.Export) (*maker.Result, error) {
	images, err := s.Lineage(e.ID)
	if err != nil {
		return nil, err
	}
	core, err := newStored(s, images)
	if err != nil {
		return nil, err
	}
	made, err := partial.UncompressedToImage(core)
	if err != nil {
		return nil, err
	}
	img := ociImage{made}
	if err := write(img, e); err != nil {
		if runtime.Class(err) == nil {
			err = runtime.Errorf(runtime.ErrUnavailable, "write %s: %w", e.Path, err)
		}
		return nil, err
	}
	digest, err := img.Digest()
	if err != nil {
		return nil, err
	}
	id, err := img.ConfigName()
	return &maker.Result{ID: id.String(), Digest: digest.String()}, err
}

// write writes an image beside its path, and gives it its name when it is whole.
func write(img v1.Image, e *maker.Export) (err error) {
	coming := e.Path + ".new"
	parent, base := filepath.Dir(coming), filepath.Base(coming)
	if err := rmtree.RemovePath(parent, base); err != nil { // of a process that was killed
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, rmtree.RemovePath(parent, base))
		}
	}()
	switch e.Format {
	case maker.FormatDir:
		err = writeLayout(img, coming, e.Names)
	case maker.FormatOCI:
		dir := coming + ".dir"
		if err = rmtree.RemovePath(parent, base+".dir"); err != nil {
			return err
		}
		if err = writeLayout(img, dir, e.Names); err == nil {
			err = packDir(coming, dir)
		}
		err = errors.Join(err, rmtree.RemovePath(parent, base+".dir"))
	case maker.FormatDocker:
		err = writeArchive(img, coming, e.Names)
	default:
		return runtime.Errorf(runtime.ErrInvalid, "format %q: it must be %s, %s or %s", e.Format, maker.FormatDocker, maker.FormatOCI, maker.FormatDir)
	}
	if err != nil {
		return err
	}
	return os.Rename(coming, e.Path)
}

// writeLayout writes an OCI image layout, with one entry for each name.
func writeLayout(img v1.Image, dir string, names []string) error {
	path, err := ocilayout.Write(dir, empty.Index)
	if err != nil {
		return err
	}
	if len(names) == 0 {
		return path.AppendImage(img)
	}
	for _, n := range names {
		if err := path.AppendImage(img, ocilayout.WithAnnotations(map[string]string{refName: n})); err != nil {
			return err
		}
	}
	return nil
}

// writeArchive writes what docker save writes.
func writeArchive(img v1.Image, file string, names []string) error {
	refs := map[name.Reference]v1.Image{}
	for _, n := range names {
		ref, err := name.ParseReference(n)
		if err != nil {
			return runtime.WithClass(runtime.ErrInvalid, err)
		}
		refs[ref] = img
	}
	if len(refs) == 0 { // without a tag, as docker save IMAGE-ID does
		id, err := img.Digest()
		if err != nil {
			return err
		}
		ref, err := name.NewDigest("image@" + id.String())
		if err != nil {
			return err
		}
		refs[ref] = img
	}
	return tarball.MultiRefWriteToFile(file, refs)
}

// packDir packs a directory of regular files into a tar archive.
func packDir(file, dir string) (err error) {
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	w := tar.NewWriter(f)
	if err := w.AddFS(os.DirFS(dir)); err != nil {
		return err
	}
	return w.Close()
}

// A stored is an image of the store as go-containerregistry takes it.
type stored struct {
	raw    []byte // the configuration file
	layers map[v1.Hash]partial.UncompressedLayer
}

// newStored returns an image.
func newStored(s *store.Store, images []*store.Image) (*stored, error) {
	c, raw, err := configFile(s, images)
	if err != nil {
		return nil, err
	}
	core := &stored{raw: raw, layers: map[v1.Hash]partial.UncompressedLayer{}}
	n := len(c.RootFS.DiffIDs)
	for _, img := range images {
		if !img.Empty {
			n--
			core.layers[c.RootFS.DiffIDs[n]] = &storedLayer{s, img, c.RootFS.DiffIDs[n]}
		}
	}
	return core, nil
}

// An ociImage has the media types of OCI for its manifest and its configuration, in place of
// Docker's.
type ociImage struct{ v1.Image }

func (i ociImage) Manifest() (*v1.Manifest, error) {
	m, err := i.Image.Manifest()
	if err != nil {
		return nil, err
	}
	m = m.DeepCopy()
	m.MediaType, m.Config.MediaType = types.OCIManifestSchema1, types.OCIConfigJSON
	return m, nil
}

func (i ociImage) RawManifest() ([]byte, error) { return partial.RawManifest(i) }
func (i ociImage) Digest() (v1.Hash, error)     { return partial.Digest(i) }
func (i ociImage) Size() (int64, error)         { return partial.Size(i) }

func (s *stored) RawConfigFile() ([]byte, error) { return s.raw, nil }

func (s *stored) MediaType() (types.MediaType, error) { return types.OCIManifestSchema1, nil }

func (s *stored) LayerByDiffID(h v1.Hash) (partial.UncompressedLayer, error) {
	return s.layers[h], nil
}

// A storedLayer is a layer of the store.
type storedLayer struct {
	s  *store.Store
	of *store.Image
	id v1.Hash
}

func (l *storedLayer) DiffID() (v1.Hash, error) { return l.id, nil }

func (l *storedLayer) MediaType() (types.MediaType, error) { return types.OCILayer, nil }

// Uncompressed writes the layer to a pipe, whose reader the caller closes.
func (l *storedLayer) Uncompressed() (io.ReadCloser, error) {
	r, w := io.Pipe()
	go func() { w.CloseWithError(writeLayer(l.s, l.of, w)) }() // ends with the reader
	return r, nil
}
