package local

import (
	"cmp"
	"context"
	"os"
	"path"
	"strconv"
	"strings"
	"unicode/utf8"

	"wolffia/image/store"
	"wolffia/internal/boot"
	"wolffia/internal/statedir"
	"wolffia/runtime"
	"wolffia/runtime/launch"
)

// useImage finds the image that a configuration asks for, and takes from it what
// the configuration leaves open. Until release is called it is not deleted:
// after that the sandbox's own configuration keeps it. Without an image it does
// nothing.
func (r *Runtime) useImage(ctx context.Context, backend *launch.Backend, c *statedir.Config) (release func(), err error) {
	if c.Image == "" && c.ImageID == "" {
		return func() {}, nil
	}
	if backend.Engine { // which has its own images, and keeps those in use
		image, err := r.engineImage(ctx, backend, c)
		if err != nil {
			return nil, err
		}
		c.ImageID, c.Image = image.ID, cmp.Or(c.Image, image.ID)
		takeDefaults(c, image.Env, image.Cwd)
		return func() {}, c.Validate()
	}
	if c.ImageID == "" {
		if c.ImageID, err = r.images.Find(c.Image); err != nil {
			return nil, err
		}
	}
	img, release, err := r.images.Pin(ctx, c.ImageID)
	if err != nil {
		return nil, err
	}
	if c.Image == "" {
		c.Image = c.ImageID
	}
	takeDefaults(c, img.Config.Env, img.Config.WorkingDir)
	return release, nil
}

// takeDefaults takes from an image what the configuration leaves open.
func takeDefaults(c *statedir.Config, env []string, dir string) {
	c.Env = mergeEnv(env, c.Env)
	if c.Cwd == "" && c.CodebasePath == "" && path.IsAbs(dir) && utf8.ValidString(dir) && !strings.ContainsRune(dir, 0) {
		c.Cwd = path.Clean(dir)
	}
}

// mergeEnv is an image's environment with the caller's over it. Variables that
// a sandbox cannot have are left out.
func mergeEnv(image []string, own map[string]string) map[string]string {
	env := map[string]string{}
	for _, kv := range image {
		k, v, ok := strings.Cut(kv, "=")
		one := &runtime.SandboxConfig{Env: map[string]string{k: v}}
		if ok && one.Validate() == nil {
			env[k] = v
		}
	}
	for k, v := range own {
		env[k] = v
	}
	return env
}

// sendImage hands a mount of root's image to the shim of a sandbox that runs as
// somebody else. It is made for the shim's own user namespace.
func sendImage(socket *os.File, images *store.Store, id string, pid int) error {
	ns, err := os.Open("/proc/" + strconv.Itoa(pid) + "/ns/user")
	if err != nil {
		return runtime.Errorf(runtime.ErrUnavailable, "the shim's user namespace: %w", err)
	}
	defer ns.Close()
	tree, err := images.MountTree(id, ns)
	if err != nil {
		return err
	}
	defer tree.Close()
	return boot.SendDevice(socket, tree)
}
