package store

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"path/filepath"
	goruntime "runtime"
	"slices"

	"golang.org/x/sys/unix"

	"wolffia/runtime"
)

// System returns the image with what sandboxes get of the host's own system beside /usr, in the state
// that key names, as Pin does. fill makes it, at a path that does not exist, and
// returns what is not root's of it: once for each key, whichever caller
// asks at the same time. Those of other keys that nothing uses are then deleted. It has no name.
func (s *Store) System(ctx context.Context, key string, fill func(root string) ([]Owned, error)) (_ *Image, release func(), err error) {
	id, config := systemOf(key)
	if img, release, err := s.Pin(ctx, id); !errors.Is(err, runtime.ErrNotFound) {
		return img, release, err
	}
	if err := s.ensure(); err != nil {
		return nil, nil, err
	}
	unlock, err := s.lock(ctx, unix.F_WRLCK, placeOffset("system"))
	if err != nil {
		return nil, nil, err
	}
	defer unlock()
	if img, release, err := s.Pin(ctx, id); !errors.Is(err, runtime.ErrNotFound) { // another process was faster
		return img, release, err
	}
	stage, err := s.Stage(ctx)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = stage.Close() }() // what stays is swept
	owners, err := fill(stage.Layer())
	if err == nil {
		err = writeOwners(stage.Dir(), owners)
	}
	if err != nil {
		return nil, nil, storeError(err)
	}
	c := &Child{Config: config, System: true}
	err = filepath.WalkDir(stage.Layer(), func(_ string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			c.Size, c.Files = c.Size+info.Size(), c.Files+1
		}
		return err
	})
	if err != nil {
		return nil, nil, storeError(err)
	}
	if _, err := stage.Add(ctx, c); err != nil {
		return nil, nil, err
	}
	_ = s.PruneSystems(ctx, key) // what cannot be deleted now, Prune does
	return s.Pin(ctx, id)
}

// systemOf returns the id and the configuration file of System's image for a key.
func systemOf(key string) (id string, config []byte) {
	desc := description{Architecture: goruntime.GOARCH, OS: "linux"}
	desc.RootFS.Type, desc.RootFS.DiffIDs = "layers", []string{IDOf([]byte(key))}
	config, _ = json.Marshal(&desc) // never fails
	return IDOf(config), config
}

// PruneSystems deletes the images of System that nothing uses, but for that of key. It skips those
// that another process uses.
func (s *Store) PruneSystems(ctx context.Context, key string) error {
	entries, err := s.List()
	if err != nil {
		return err
	}
	keep, _ := systemOf(key)
	entries = slices.DeleteFunc(prunable(entries, false), func(e *Entry) bool { return !e.System || e.ID == keep })
	_, err = s.prune(ctx, entries, false)
	return err
}
