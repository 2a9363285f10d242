package store

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"wolffia/internal/sys/statefile"
	"wolffia/runtime"
)

// MaxParents bounds the trees that an image lies over: the kernel takes the names of all of them
// on one page.
const MaxParents = 100

// Lineage returns the image with this id and those it lies over, the highest first. ErrNotFound:
// it is not in the store. ErrUnavailable: it or a parent is damaged.
func (s *Store) Lineage(id string) ([]*Image, error) {
	var all []*Image
	for next := id; next != ""; {
		img, err := s.Get(next)
		if err != nil && len(all) > 0 {
			err = runtime.Errorf(runtime.ErrUnavailable, "image %s is damaged, since its parent is missing: %w", Short(id), err)
		}
		if err == nil && len(all) > 2*MaxParents {
			err = runtime.Errorf(runtime.ErrUnavailable, "image %s is damaged: it has too many parents; remove it with wolffia image rm %s", Short(id), Short(id))
		}
		if err != nil {
			return nil, err
		}
		all, next = append(all, img), img.Parent
	}
	return all, nil
}

// Lowers returns the directories that together are the tree of an image, the highest first, as for
// lowerdir of overlayfs with userxattr. A Pin of the image keeps them. Errors are Lineage's.
func (s *Store) Lowers(id string) ([]string, error) {
	images, err := s.Lineage(id)
	if err != nil {
		return nil, err
	}
	return s.Layers(images), nil
}

// Layers returns the directories of images that have files of their own.
func (s *Store) Layers(images []*Image) []string {
	dirs, _ := s.OwnedLayers(images, func(*Image) (string, error) { return "", nil })
	return dirs
}

// OwnedLayers is Layers with the owned layer of each image, which owned returns, above the image's
// own; empty: it has none.
func (s *Store) OwnedLayers(images []*Image, owned func(*Image) (string, error)) ([]string, error) {
	var dirs []string
	for _, img := range images {
		if img.Empty {
			continue
		}
		layer, err := owned(img)
		if err != nil {
			return nil, err
		}
		if layer != "" {
			dirs = append(dirs, layer)
		}
		dirs = append(dirs, s.Rootfs(img.ID))
	}
	return dirs, nil
}

// ConfigFile returns the configuration file of an image, whose digest is its id; nil for an image
// that an earlier version has pulled.
func (s *Store) ConfigFile(id string) ([]byte, error) {
	b, err := os.ReadFile(filepath.Join(s.path, hexOf(id), configFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return b, storeError(err)
}

// A flat is an unpacked tree as one layer of an exported image.
type flat struct {
	DiffID string `json:"diffId"`
}

// Flat returns the digest that SetFlat has recorded, or "".
func (s *Store) Flat(id string) string {
	var f flat
	if statefile.Read(filepath.Join(s.path, hexOf(id), flatFile), &f) != nil || !IsID(f.DiffID) {
		return ""
	}
	return f.DiffID
}

// SetFlat records the digest of the layer that an image's own tree is, so that it is not made again
// for its digest. The caller has the image from Pin.
func (s *Store) SetFlat(id, digest string) error {
	return storeError(statefile.Write(filepath.Join(s.path, hexOf(id), flatFile), flat{digest}))
}

// StepOf returns the id of the newest image that a step of a build has made over a parent, "" for
// none of both.
func (s *Store) StepOf(parent, step string) (id string) {
	ids, err := s.ids()
	if err != nil {
		return ""
	}
	var newest string
	for _, i := range ids {
		if img, err := s.Get(i); err == nil && img.Parent == parent && img.Step == step && img.Created >= newest {
			id, newest = i, img.Created
		}
	}
	return id
}

// children returns the ids of the images that lie over each.
func (s *Store) children() (map[string][]string, error) {
	ids, err := s.ids()
	if err != nil {
		return nil, err
	}
	over := map[string][]string{}
	for _, id := range ids {
		if img, err := s.Get(id); err == nil && img.Parent != "" { // one that is damaged keeps none
			over[img.Parent] = append(over[img.Parent], id)
		}
	}
	return over, nil
}
