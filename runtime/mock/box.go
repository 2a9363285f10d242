package mock

import (
	"cmp"
	"crypto/rand"
	"maps"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"wolffia/runtime"
)

// A box is one sandbox.
type box struct {
	config  *runtime.SandboxConfig // never changes
	created time.Time

	mu        sync.Mutex
	state     runtime.State     // guarded by mu
	reason    string            // guarded by mu
	destroyed bool              // guarded by mu
	dir       string            // what is temporary, while it runs; guarded by mu
	tag       string            // in the environment of all its processes; guarded by mu
	processes map[*process]bool // guarded by mu
}

// describe returns what is known of the sandbox.
func (b *box) describe() *runtime.Sandbox {
	b.mu.Lock()
	defer b.mu.Unlock()
	c := b.config
	return &runtime.Sandbox{
		ID: c.ID, Name: c.Name, Runtime: Name, State: b.state, Reason: b.reason,
		Labels: maps.Clone(c.Labels), CreatedAt: b.created,
		CodebaseID: c.CodebaseID, CodebasePath: c.CodebasePath, MountPoint: c.MountPointOrDefault(),
		Network: cmp.Or(c.Network, runtime.NetworkNone), UID: os.Geteuid(), GID: os.Getegid(),
	}
}

func (b *box) start() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.destroyed:
		return runtime.Errorf(runtime.ErrNotFound, "no sandbox %s", b.config.ID)
	case b.state == runtime.StateRunning:
		return runtime.Errorf(runtime.ErrConflict, "sandbox %s is running", b.config.ID)
	}
	if b.config.CodebasePath != "" {
		if _, err := codebase(b.config.CodebasePath); err != nil {
			return runtime.Errorf(runtime.ErrUnavailable, "codebase %s: %w", b.config.CodebasePath, err)
		}
	}
	dir, err := os.MkdirTemp("", "wolffia-mock")
	if err == nil {
		err = os.Mkdir(filepath.Join(dir, "home"), 0o700)
	}
	if err == nil {
		err = os.Mkdir(filepath.Join(dir, "work"), 0o700)
	}
	if err != nil {
		return runtime.WithClass(runtime.ErrUnavailable, err)
	}
	b.state, b.reason, b.dir, b.tag = runtime.StateRunning, "", dir, rand.Text()+"."
	return nil
}

// end ends all processes and removes what is temporary. One that does not run
// stays as it is.
func (b *box) end(state runtime.State, reason string) {
	b.mu.Lock() // held until all is gone, so that the next caller finds it gone
	defer b.mu.Unlock()
	if b.state != runtime.StateRunning {
		return
	}
	b.state, b.reason = state, reason
	for p := range b.processes {
		p.lose(runtime.Errorf(runtime.ErrConflict, "sandbox %s was taken away, it is %s", b.config.ID, state))
	}
	clear(b.processes)
	killAll(b.tag)
	_ = os.RemoveAll(b.dir)
}

// environment is what a process starts with: nothing of the caller's.
func (b *box) environment(spec *runtime.Command, tag string) []string {
	vars := map[string]string{
		"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": filepath.Join(b.dir, "home"),
		"USER": "user", "LOGNAME": "user", "LANG": "C.UTF-8", "SHELL": "/bin/sh",
	}
	maps.Copy(vars, b.config.Env)
	maps.Copy(vars, spec.Env)
	vars[tagVariable] = tag
	var env []string
	for k, v := range vars {
		env = append(env, k+"="+v)
	}
	return env
}

// cwd is where a process starts. What is at the mount point in a sandbox is
// somewhere else here.
func (b *box) cwd(dir string) string {
	mountPoint := b.config.MountPointOrDefault()
	if !path.IsAbs(dir) {
		dir = path.Join(cmp.Or(b.config.Cwd, mountPoint), dir)
	}
	if below, ok := strings.CutPrefix(dir+"/", mountPoint+"/"); ok {
		return filepath.Join(cmp.Or(b.config.CodebasePath, filepath.Join(b.dir, "work")), below)
	}
	return dir
}
