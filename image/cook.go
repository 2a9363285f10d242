package image

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"wolffia/image/maker"
	"wolffia/image/store"
	"wolffia/internal/image/recipe"
	"wolffia/internal/sys/overlay"
	"wolffia/internal/sys/rmtree"
	"wolffia/runtime"
)

// A cook follows a recipe. Its mounts end with this process's namespace.
type cook struct {
	ctx     context.Context // of the one request
	s       *store.Store
	ids     *store.IDs // of this process's namespace; nil for one id
	st      *store.Stage
	sources *recipe.Sources
	mounts  []string
}

// open opens the sources: directories of the host, and images, which are mounted.
func (k *cook) open(r *maker.Recipe) (err error) {
	k.sources, err = recipe.Open(r, func(src *maker.Source) (string, error) {
		if src.Image == "" {
			return src.Dir, nil
		}
		images, err := k.s.Lineage(src.Image)
		if err != nil {
			return "", err
		}
		lowers, err := k.lowers(images)
		if err != nil {
			return "", err
		}
		if len(lowers) == 1 {
			return lowers[0], nil
		}
		return k.mount(fmt.Sprintf("source%d", len(k.mounts)), lowers, "")
	})
	return err
}

// apply makes the layer, over the images.
func (k *cook) apply(above []*store.Image) error {
	layer := k.st.Layer()
	if err := os.Mkdir(layer, 0o755); err != nil {
		return err
	}
	if err := os.Chmod(layer, 0o755); err != nil {
		return err
	}
	lowers, err := k.lowers(above)
	if err != nil {
		return err
	}
	root := layer
	if len(lowers) > 0 {
		if root, err = k.mount("root", lowers, layer); err != nil {
			return err
		}
	}
	return k.sources.Apply(root)
}

// lowers returns the directories of images, the highest first, in which files have their owners.
func (k *cook) lowers(images []*store.Image) ([]string, error) {
	if k.ids == nil {
		return k.s.Layers(images), nil
	}
	kind := "0" // as package local names it: root has the image's own ids
	if k.ids.UID != 1 {
		kind = fmt.Sprintf("%d-%d", k.ids.UID, k.ids.GID)
	}
	return k.s.OwnedLayers(images, func(img *store.Image) (string, error) {
		return k.s.OwnedLayer(k.ctx, img.ID, kind, store.FillOwned)
	})
}

// mount mounts layers, the highest first, in the stage, below the layer upper if there is one, and
// returns where.
func (k *cook) mount(name string, lowers []string, upper string) (string, error) {
	at := filepath.Join(k.st.Dir(), name)
	if err := os.Mkdir(at, 0o700); err != nil {
		return "", err
	}
	work := filepath.Join(k.st.Dir(), "work")
	if upper != "" {
		if err := os.Mkdir(work, 0o700); err != nil {
			return "", err
		}
	}
	if err := overlay.Mount(at, "userxattr", lowers, upper, work); err != nil {
		return "", runtime.Errorf(runtime.ErrUnsupported, "this host cannot put a layer over an image: %w; wolffia doctor says what helps", err)
	}
	k.mounts = append(k.mounts, at)
	return at, nil
}

// close ends the mounts, and removes what they have left in the stage.
func (k *cook) close() error {
	var errs []error
	if k.sources != nil {
		errs = append(errs, k.sources.Close())
	}
	for _, at := range k.mounts {
		errs = append(errs, unix.Unmount(at, unix.MNT_DETACH), os.Remove(at))
	}
	k.sources, k.mounts = nil, nil
	return errors.Join(append(errs, rmtree.RemovePath(k.st.Dir(), "work"))...)
}
