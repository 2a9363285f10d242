package store

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"wolffia/internal/sys/step"
	"wolffia/runtime"
)

// A Stage is a directory of the store in which an image that lies over another one is made. It
// is not listed until Add; after a kill the next Prune removes it. Not for concurrent use.
type Stage struct {
	s       *Store
	name    string
	release func()
}

// Stage makes a stage. The caller closes it.
func (s *Store) Stage(ctx context.Context) (*Stage, error) {
	if err := s.ensure(); err != nil {
		return nil, err
	}
	var b [sha256.Size]byte
	_, _ = rand.Read(b[:]) // never fails
	name := hex.EncodeToString(b[:]) + coming
	release, err := s.lock(ctx, unix.F_WRLCK, placeOffset(name))
	if err != nil {
		return nil, err
	}
	if err := os.Mkdir(filepath.Join(s.path, name), 0o700); err != nil {
		release()
		return nil, storeError(err)
	}
	step.Reached("image: stage made")
	return &Stage{s, name, release}, nil
}

// Dir returns the path of the stage, for the caller's temporary files.
func (st *Stage) Dir() string { return filepath.Join(st.s.path, st.name) }

// Layer returns the path of the layer's root directory, which does not exist yet. Without it
// Add makes an image with the files of its parent.
func (st *Stage) Layer() string { return filepath.Join(st.Dir(), rootfsDir) }

// Close removes what was not added.
func (st *Stage) Close() error {
	defer st.release()
	return st.s.remove(st.name)
}

// A Child is an image to make of a stage.
type Child struct {
	Config []byte // the configuration file
	Parent string // the id of the image below, which the caller has from Pin; "" for none
	Step   string // see Image
	System bool   // see Image
	Size   int64  // bytes in files of the layer
	Files  int    // names in it
	IDs    *IDs   // nil: all files of the layer are the user's
	Names  []string
}

// Add makes an image of the stage, and gives it its canonical names; only names, if the store has
// the image. The layer and its directory on the disk are synced. ErrInvalid: it has too many
// parents, or no files.
func (st *Stage) Add(ctx context.Context, c *Child) (*Image, error) {
	desc, err := describe(c.Config, Limits{}.withDefaults())
	if err != nil {
		return nil, err
	}
	img := &Image{
		ID: IDOf(c.Config), Layers: desc.RootFS.DiffIDs, Config: desc.Config, Created: desc.Created,
		Size: c.Size, Files: c.Files, Parent: c.Parent, Step: c.Step, System: c.System, IDs: c.IDs,
	}
	if _, err := os.Lstat(st.Layer()); errors.Is(err, fs.ErrNotExist) {
		img.Empty = true
	}
	if err := st.inherit(img); err != nil {
		return nil, err
	}
	if err := describeIn(st.Dir(), img, c.Config); err != nil {
		return nil, storeError(err)
	}
	step.Reached("image: stage filled")
	return st.s.publish(ctx, img.ID, st.name, meaning(img.ID, c.Names))
}

// inherit checks an image's parents, and takes their ids.
func (st *Stage) inherit(img *Image) error {
	if img.Parent == "" {
		if img.Empty {
			return invalid("an image without files: add a file")
		}
		return nil
	}
	above, err := st.s.Lineage(img.Parent)
	if err != nil {
		return err
	}
	if len(st.s.Layers(above)) >= MaxParents {
		return invalid("image %s has %d layers already, and an image may have %d: export and import it, which makes one of them", Short(img.Parent), MaxParents, MaxParents)
	}
	if ids := above[0].IDs; ids != nil {
		if img.IDs != nil && *img.IDs != *ids {
			return runtime.Errorf(runtime.ErrUnsupported, "image %s has files of other subordinate ids than the user has now: make it again", Short(img.Parent))
		}
		img.IDs = ids
	}
	return nil
}

// meaning returns the records of names of an image.
func meaning(id string, names []string) map[string]Name {
	all := map[string]Name{}
	for _, name := range names {
		all[name] = Name{ID: id}
	}
	return all
}

// Tag gives an image that the caller has from Pin canonical names.
func (s *Store) Tag(ctx context.Context, id string, names []string) error {
	return s.addNames(ctx, meaning(id, names))
}
