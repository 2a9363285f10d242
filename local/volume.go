package local

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"wolffia/internal/git/gitpairs"
	"wolffia/internal/host/rootfs"
	"wolffia/internal/host/statedir"
	"wolffia/internal/sys/child"
	"wolffia/internal/sys/timerslack"
	"wolffia/runtime"
	"wolffia/volume"
)

// resolveVolumes fills in what a configuration leaves to Create of its volumes: names, and
// places in the home directory inside.
func resolveVolumes(c *statedir.Config) error {
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
	leaveToolchains(c)
	known := c.SandboxConfig
	known.Permissions = nil // compiled before
	return known.Validate() // two things could be in one place now
}

// leaveToolchains leaves out the toolchains in places of volumes, and below read-only ones, in
// which nothing can be mounted: the user has named the volumes, and not the toolchains' places.
func leaveToolchains(c *statedir.Config) {
	c.Mounts = slices.DeleteFunc(c.Mounts, func(m runtime.Mount) bool {
		return m.Toolchain && slices.ContainsFunc(c.Volumes, func(v runtime.VolumeMount) bool {
			return m.Target == v.Target || v.ReadOnly && strings.HasPrefix(m.Target, v.Target+"/")
		})
	})
}

// useVolumes makes the volumes of a sandbox that do not exist. Until release is called none
// is removed; from then on the recorded configuration keeps them.
func (s *starter) useVolumes(ctx context.Context, c *statedir.Config) (release func(), err error) {
	return s.volumes.Use(ctx, c.Volumes, &volume.User{Codebase: c.CodebasePath, UID: c.UID, GID: c.GID, Root: c.Root})
}

// trim has the caches with a key pruned by size, if c has one and that is due: by a process that
// outlives this one. If that fails, the next one tries.
func (s *starter) trim(c *statedir.Config) {
	keyed := slices.ContainsFunc(c.Volumes, func(v runtime.VolumeMount) bool { return v.Key != "" })
	if !keyed || !s.volumes.Due(time.Now()) {
		return
	}
	_, _ = child.Start(&child.Command{
		Path: s.wolffia, Files: []*os.File{nil, nil, nil}, Slack: timerslack.Coarse,
		Args: []string{"wolffia", "volume", "prune", "--state-dir", s.dir.Path(), "--size", strconv.Itoa(volume.MaxSize)},
		Env:  os.Environ(), Attr: &syscall.SysProcAttr{Setsid: true},
	})
}

// volumesDir returns the directory of a sandbox's volumes without symbolic links in the path,
// which is opened without following any; empty if it has no volumes.
func (s *starter) volumesDir(c *statedir.Config) (string, error) {
	if len(c.Volumes) == 0 {
		return "", nil
	}
	dir, err := filepath.EvalSymlinks(statedir.Volumes(s.dir.Path()))
	if err != nil {
		return "", runtime.WithClass(runtime.ErrUnavailable, err)
	}
	return dir, nil
}

// MakeVolume makes a volume for sandboxes of a configuration, or checks that one that exists is for
// them: see [volume.Store.Use].
func (s *sandboxes) MakeVolume(ctx context.Context, config *runtime.SandboxConfig, name string) error {
	c := recordOf(config)
	if err := s.completer.resolve(c); err != nil {
		return err
	}
	if err := s.completer.identify(c); err != nil {
		return err
	}
	c.Volumes = []runtime.VolumeMount{{Name: name}}
	release, err := s.starter.useVolumes(ctx, c)
	if err == nil {
		release()
	}
	return err
}
