package defaults

import (
	"slices"
	"strings"

	"wolffia/internal/git/gitpairs"
	"wolffia/internal/host/rootfs"
	"wolffia/internal/host/statedir"
	"wolffia/runtime"
	"wolffia/volume"
)

// Volumes fills in what a configuration leaves to Create of its volumes: names, and
// places in the home directory inside.
func Volumes(c *statedir.Config) error {
	changed := false
	for i := range c.Volumes {
		v := &c.Volumes[i]
		switch {
		case v.Key != "" && c.CodebasePath != "":
			v.Repository, changed = gitpairs.Repository(c.CodebasePath), true
			v.Name = volume.KeyedName(v.Cache, v.Repository, v.Key, c.UID)
		case v.Name == "":
			v.Name, changed = volume.CacheName(v.Cache, c.CodebasePath, c.Root), true
		}
		if rest, ok := strings.CutPrefix(v.Target, "~"); ok {
			v.Target, changed = rootfs.Home(c)+rest, true
		}
	}
	if !changed {
		return nil
	}
	LeaveToolchains(c)
	known := c.SandboxConfig
	known.Permissions = nil // compiled before
	return known.Validate() // two things could be in one place now
}

// LeaveToolchains leaves out the toolchains in places of volumes, and below read-only ones, in
// which nothing can be mounted: the user has named the volumes, and not the toolchains' places.
func LeaveToolchains(c *statedir.Config) {
	c.Mounts = slices.DeleteFunc(c.Mounts, func(m runtime.Mount) bool {
		return m.Toolchain && slices.ContainsFunc(c.Volumes, func(v runtime.VolumeMount) bool {
			return m.Target == v.Target || v.ReadOnly && strings.HasPrefix(m.Target, v.Target+"/")
		})
	})
}
