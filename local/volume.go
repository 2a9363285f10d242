package local

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"wolffia/internal/host/statedir"
	"wolffia/internal/sys/child"
	"wolffia/internal/sys/timerslack"
	"wolffia/local/defaults"
	"wolffia/runtime"
	"wolffia/volume"
)

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
	if err := defaults.Identify(c, s.dir.Path()); err != nil {
		return err
	}
	c.Volumes = []runtime.VolumeMount{{Name: name}}
	release, err := s.starter.useVolumes(ctx, c)
	if err == nil {
		release()
	}
	return err
}
