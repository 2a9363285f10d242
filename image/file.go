package image

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	goruntime "runtime"
	"slices"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"wolffia/image/maker"
	"wolffia/image/store"
	"wolffia/internal/image/layers"
	"wolffia/runtime"
)

// configFile returns the configuration of an image as it is when it is written, and its text: that
// of the store, unless its layers are one there.
func configFile(s *store.Store, images []*store.Image) (c *v1.ConfigFile, raw []byte, err error) {
	if raw, err = s.ConfigFile(images[0].ID); err != nil {
		return nil, nil, err
	}
	if raw == nil { // pulled by an earlier version
		raw, err = json.Marshal(map[string]any{"architecture": goruntime.GOARCH, "os": "linux", "config": images[0].Config})
		if err != nil {
			return nil, nil, err
		}
	}
	if c, err = v1.ParseConfigFile(bytes.NewReader(raw)); err != nil {
		return nil, nil, runtime.Errorf(runtime.ErrUnavailable, "image %s is damaged: %w", store.Short(images[0].ID), err)
	}
	ids, err := diffIDs(s, images)
	if err != nil {
		return nil, nil, err
	}
	if slices.Equal(c.RootFS.DiffIDs, ids) {
		return c, raw, nil
	}
	c.RootFS = v1.RootFS{Type: "layers", DiffIDs: ids}
	c.History = []v1.History{{Created: c.Created, CreatedBy: "wolffia: the layers of " + images[0].ID + " in one"}}
	raw, err = json.Marshal(c)
	return c, raw, err
}

// diffIDs returns the digests of an image's layers, the lowest first. It makes the layer of an
// unpacked tree, if that was not done before.
func diffIDs(s *store.Store, images []*store.Image) ([]v1.Hash, error) {
	ids := []v1.Hash{}
	for _, img := range slices.Backward(images) {
		if img.Empty {
			continue
		}
		digest := img.Layers[len(img.Layers)-1]
		if img.Parent == "" {
			var err error
			if digest, err = flatOf(s, img); err != nil {
				return nil, err
			}
		}
		h, err := v1.NewHash(digest)
		if err != nil {
			return nil, runtime.Errorf(runtime.ErrUnavailable, "image %s is damaged: %w", store.Short(img.ID), err)
		}
		ids = append(ids, h)
	}
	return ids, nil
}

// flatOf returns the digest of the layer that an image's own tree is.
func flatOf(s *store.Store, img *store.Image) (string, error) {
	if digest := s.Flat(img.ID); digest != "" {
		return digest, nil
	}
	digest, err := digestOf(func(w io.Writer) error { return writeLayer(s, img, w) })
	if err != nil {
		return "", err
	}
	return digest, s.SetFlat(img.ID, digest)
}

// writeLayer writes an image's own tree as a layer.
func writeLayer(s *store.Store, img *store.Image, w io.Writer) error {
	owners, err := s.Owners(img.ID)
	if err != nil {
		return err
	}
	return layers.Write(w, s.Rootfs(img.ID), owners)
}

// digestOf returns the digest of what a function writes.
func digestOf(write func(io.Writer) error) (string, error) {
	sum := sha256.New()
	err := write(sum)
	return "sha256:" + hex.EncodeToString(sum.Sum(nil)), err
}

// childConfig returns the configuration file of an image with one layer more than its parent's, or
// with none if diffID is "". parent is nil for an image over nothing.
func childConfig(parent *v1.ConfigFile, c *maker.Commit, diffID string, now time.Time) ([]byte, error) {
	f := &v1.ConfigFile{Architecture: goruntime.GOARCH, OS: "linux", RootFS: v1.RootFS{Type: "layers", DiffIDs: []v1.Hash{}}}
	if parent != nil {
		f = parent.DeepCopy()
	}
	f.Created = v1.Time{Time: now.UTC()}
	for _, text := range c.Before {
		f.History = append(f.History, v1.History{Created: f.Created, CreatedBy: text, EmptyLayer: true})
	}
	if f.Author = c.Author; c.Author == "" && parent != nil {
		f.Author = parent.Author
	}
	if c.CreatedBy != "" {
		f.History = append(f.History, v1.History{Created: f.Created, CreatedBy: c.CreatedBy, EmptyLayer: diffID == ""})
	}
	if diffID != "" {
		h, err := v1.NewHash(diffID)
		if err != nil {
			return nil, err
		}
		f.RootFS.DiffIDs = append(f.RootFS.DiffIDs, h)
	}
	// what Docker's own builder has recorded of the container that it made the parent of
	f.Container = ""
	if c.Config != nil {
		text, err := json.Marshal(c.Config)
		if err != nil {
			return nil, err
		}
		f.Config = v1.Config{}
		if err := json.Unmarshal(text, &f.Config); err != nil {
			return nil, err
		}
	}
	return json.Marshal(f)
}
