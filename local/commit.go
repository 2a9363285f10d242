package local

import (
	"context"
	"errors"
	"os"

	"wolffia/image/store"
	"wolffia/internal/host/rootfs"
	"wolffia/internal/host/statedir"
	"wolffia/internal/sys/userns"
	"wolffia/local/defaults"
	"wolffia/runtime"
	"wolffia/runtime/launch"
)

// ImageChanges are what a stopped sandbox has changed of its image.
type ImageChanges struct {
	Dir     string // an upper directory of overlayfs, with userxattr; "" if it was never started
	ImageID string
	// IDs are what owners in Dir mean inside, if the caller, root, is another user than the
	// sandbox's; else nil.
	IDs *store.IDs
	// Own are the names in Dir that are the sandbox's, and not the image's.
	Own []string
	// Several says that files may have several owners: the sandbox has root inside.
	Several bool
	Config  *runtime.SandboxConfig
}

// ImageChanges returns the changes of a sandbox on an image of the store, which is not started
// until release is called. ErrConflict: it runs. ErrUnsupported: it has no such image.
func (s *sandboxes) ImageChanges(ctx context.Context, sandboxID string) (_ *ImageChanges, release func(), err error) {
	rec, c, err := s.find(sandboxID)
	if err != nil {
		return nil, nil, err
	}
	backend := s.backend(c.Runtime)
	if c.OverHost() {
		return nil, nil, runtime.Errorf(runtime.ErrUnsupported, "sandbox %s lies over the host's own system, which is no image: to keep what is installed, make one with --root --image debian:bookworm-slim, or write a Dockerfile for wolffia build", rec.ID())
	}
	if c.ImageID == "" || backend == nil || !backend.Can.Has(launch.StoreImages) {
		return nil, nil, runtime.Errorf(runtime.ErrUnsupported, "sandbox %s has no image whose changes could be kept: create one with --image, with another runtime than docker", rec.ID())
	}
	release, err = rec.TryLockAll()
	if errors.Is(err, runtime.ErrConflict) {
		err = runtime.Errorf(runtime.ErrConflict, "sandbox %s is running: stop it first, with wolffia stop %[1]s, or add --stop, which starts it again afterwards", rec.ID())
	}
	if err != nil {
		return nil, nil, err
	}
	defer func() {
		if err != nil {
			release()
		}
	}()
	if _, err := endEarlier(rec, c); err != nil {
		return nil, nil, err
	}
	changes := &ImageChanges{Dir: statedir.Upper(rec.Run()), ImageID: c.ImageID, Own: rootfs.Own(c)}
	if changes.Several = c.Root; c.DroppedUID != 0 {
		changes.IDs = &store.IDs{Owner: c.DroppedUID}
		if c.Root {
			ids, err := defaults.IDsOf(c)
			if err != nil {
				return nil, nil, err
			}
			*changes.IDs = store.IDs{Owner: ids.UID, UID: ids.SubUID, GID: ids.SubGID, Count: userns.Count}
		}
	}
	if _, err := os.Lstat(changes.Dir); errors.Is(err, os.ErrNotExist) {
		changes.Dir = ""
	}
	return changes, release, nil
}
