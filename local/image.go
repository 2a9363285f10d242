package local

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"wolffia/image/store"
	"wolffia/internal/host/boot"
	"wolffia/internal/host/rootfs"
	"wolffia/internal/host/statedir"
	"wolffia/internal/sys/userns"
	"wolffia/local/defaults"
	"wolffia/runtime"
	"wolffia/runtime/launch"
)

// useImage finds the image that a configuration names, if it does, and takes its defaults.
// Until release is called the image is not deleted; from then on the recorded configuration
// keeps it.
func (s *completer) useImage(ctx context.Context, backend *launch.Backend, c *statedir.Config) (release func(), err error) {
	if c.OverHost() {
		return s.useSystem(ctx, c)
	}
	if c.Image == "" && c.ImageID == "" {
		return func() {}, nil
	}
	if !backend.Can.Has(launch.StoreImages) { // the engine keeps images that are in use itself
		image, err := s.engines.engineImage(ctx, backend, c)
		if err != nil {
			return nil, err
		}
		c.ImageID, c.Image = image.ID, cmp.Or(c.Image, image.ID)
		takeDefaults(c, image.Env, image.Cwd)
		known := c.SandboxConfig
		known.Permissions = nil // compiled before
		return func() {}, known.Validate()
	}
	if c.ImageID == "" {
		if c.ImageID, err = s.images.Find(c.Image); err != nil {
			return nil, err
		}
	}
	img, release, err := s.images.Pin(ctx, c.ImageID)
	if err != nil {
		return nil, err
	}
	if err := suits(img, c); err != nil {
		release()
		return nil, err
	}
	c.Image = cmp.Or(c.Image, c.ImageID)
	takeDefaults(c, img.Config.Env, img.Config.WorkingDir)
	if user := img.Config.User; c.Root && c.RunAs == "" && !strings.ContainsRune(user, 0) {
		c.RunAs = user
	}
	return release, nil
}

// useSystem finds or makes what a sandbox with root inside has of the host's system. Until release
// is called it is not deleted.
func (s *completer) useSystem(ctx context.Context, c *statedir.Config) (release func(), err error) {
	img, release, err := s.images.System(ctx, rootfs.SystemKey(), func(root string) ([]store.Owned, error) {
		owners, err := rootfs.MakeSystem(root)
		all := make([]store.Owned, len(owners))
		for i, o := range owners {
			all[i] = store.Owned{Path: o.Path, UID: o.UID, GID: o.GID, Mode: o.Mode}
		}
		return all, err
	})
	if err != nil {
		return nil, runtime.WithClass(cmp.Or(runtime.Class(err), runtime.ErrUnavailable), fmt.Errorf("copy the host's system: %w", err))
	}
	c.SystemID = img.ID
	return release, nil
}

// suits returns why a sandbox cannot have an image whose files have several owners, or nil.
func suits(img *store.Image, c *statedir.Config) error {
	switch {
	case img.System:
		return runtime.Errorf(runtime.ErrUnsupported, "image %s is a part of the host's system: use --root without an image", store.Short(img.ID))
	case img.IDs == nil:
		return nil
	case !c.Root:
		return runtime.Errorf(runtime.ErrUnsupported, "image %s has files of several users, and the sandbox would have one: add --root, as where it was made", store.Short(img.ID))
	case c.DroppedUID != 0: // it is mounted with the ids of any user
		return nil
	}
	ids, err := defaults.IDsOf(c)
	if has := (store.IDs{Owner: ids.UID, UID: ids.SubUID, GID: ids.SubGID, Count: userns.Count}); err == nil && *img.IDs != has {
		err = runtime.Errorf(runtime.ErrUnsupported, "image %s has files of the subordinate ids from %d, and yours are now from %d: make it again", store.Short(img.ID), img.IDs.UID, has.UID)
	}
	return err
}

// takeDefaults takes the environment and the working directory of an image where the
// configuration leaves them open.
func takeDefaults(c *statedir.Config, env []string, dir string) {
	if c.Network == runtime.NetworkFiltered {
		env = slices.DeleteFunc(slices.Clone(env), func(kv string) bool { name, _, _ := strings.Cut(kv, "="); return defaults.IsProxyVariable(name) })
	}
	c.Env = mergeEnv(env, c.Env)
	if c.Cwd == "" && c.CodebasePath == "" && path.IsAbs(dir) && utf8.ValidString(dir) && !strings.ContainsRune(dir, 0) {
		c.Cwd = path.Clean(dir)
	}
}

// identity are the variables of the user and the home directory, which are the sandbox's own
// whatever an image says.
var identity = []string{"HOME", "USER", "LOGNAME"}

// mergeEnv returns an image's environment, without the variables that a sandbox cannot
// have and those of identity, and the caller's, which win.
func mergeEnv(image []string, own map[string]string) map[string]string {
	env := map[string]string{}
	for _, kv := range image {
		k, v, ok := strings.Cut(kv, "=")
		if ok && !slices.Contains(identity, k) && runtime.CheckVariable(k, v) == nil {
			env[k] = v
		}
	}
	maps.Copy(env, own)
	return env
}

// sendImage sends mounts of the layers of an image that belongs to root to a shim that runs as
// another user. They map ids for the shim's user namespace.
func sendImage(socket *os.File, layers []string, pid int) error {
	ns, err := os.Open("/proc/" + strconv.Itoa(pid) + "/ns/user")
	if err != nil {
		return runtime.Errorf(runtime.ErrUnavailable, "the shim's user namespace: %w", err)
	}
	defer ns.Close()
	for _, layer := range layers {
		tree, err := store.MountTree(layer, ns)
		if err != nil {
			return err
		}
		err = boot.SendDevice(socket, tree)
		_ = tree.Close()
		if err != nil {
			return err
		}
	}
	return nil
}
