package local

import (
	"cmp"
	"context"
	"fmt"
	"os"

	"wolffia/image/store"
	"wolffia/internal/host/programs"
	"wolffia/internal/host/statedir"
	"wolffia/local/defaults"
	"wolffia/runtime/launch"
)

// lowers returns the directories of the tree of a sandbox's image, the highest first; nil if it has
// none of the store. With root inside, files of the image have their owners there.
func (s *starter) lowers(ctx context.Context, c *statedir.Config, set *programs.Set) ([]string, error) {
	id := cmp.Or(c.ImageID, c.SystemID)
	if id == "" || !s.backend(c.Runtime).Can.Has(launch.StoreImages) {
		return nil, nil
	}
	if !c.Root {
		return s.images.Lowers(id)
	}
	images, err := s.images.Lineage(id)
	if err != nil {
		return nil, err
	}
	return s.images.OwnedLayers(images, func(img *store.Image) (string, error) { return s.owned(ctx, c, img, set) })
}

// owned returns the layer with the files of an image that have other owners than root; empty
// without such files. Root's has the image's ids, which its mount maps.
func (s *starter) owned(ctx context.Context, c *statedir.Config, img *store.Image, set *programs.Set) (string, error) {
	if os.Geteuid() == 0 && c.DroppedUID != 0 {
		return s.images.OwnedLayer(ctx, img.ID, "0", store.FillOwned)
	}
	ids, err := defaults.IDsOf(c)
	if err != nil {
		return "", err
	}
	return s.images.OwnedLayer(ctx, img.ID, fmt.Sprintf("%d-%d", ids.SubUID, ids.SubGID), func(tree, owners, layer *os.File) error {
		program, err := set.Program(programs.OCI)
		if err != nil {
			return err
		}
		defer program.Close()
		return ids.Run(ctx, program.File, []string{programs.OCI, programs.OwnersArg}, tree, owners, layer)
	})
}
