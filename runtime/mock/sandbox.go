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

// A sandbox is one sandbox.
type sandbox struct {
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
func (s *sandbox) describe() *runtime.Sandbox {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.config
	return &runtime.Sandbox{
		ID: c.ID, Name: c.Name, Runtime: Name, State: s.state, Reason: s.reason,
		Labels: maps.Clone(c.Labels), CreatedAt: s.created,
		CodebaseID: c.CodebaseID, CodebasePath: c.CodebasePath, MountPoint: c.MountPointOrDefault(),
		Network: cmp.Or(c.Network, runtime.NetworkNone), UID: os.Geteuid(), GID: os.Getegid(),
	}
}

func (s *sandbox) start() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.destroyed:
		return runtime.Errorf(runtime.ErrNotFound, "no sandbox %s", s.config.ID)
	case s.state == runtime.StateRunning:
		return runtime.Errorf(runtime.ErrConflict, "sandbox %s is running", s.config.ID)
	}
	if s.config.CodebasePath != "" {
		if _, err := codebase(s.config.CodebasePath); err != nil {
			return runtime.Errorf(runtime.ErrUnavailable, "codebase %s: %w", s.config.CodebasePath, err)
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
	s.state, s.reason, s.dir, s.tag = runtime.StateRunning, "", dir, rand.Text()+"."
	return nil
}

// end ends all processes and removes what is temporary. One that does not run
// stays as it is.
func (s *sandbox) end(state runtime.State, reason string) {
	s.mu.Lock() // held until all is gone, so that the next caller finds it gone
	defer s.mu.Unlock()
	if s.state != runtime.StateRunning {
		return
	}
	s.state, s.reason = state, reason
	for p := range s.processes {
		p.lose(runtime.Errorf(runtime.ErrConflict, "sandbox %s was taken away, it is %s", s.config.ID, state))
	}
	clear(s.processes)
	killAll(s.tag)
	_ = os.RemoveAll(s.dir)
}

// environment is what a process starts with: nothing of the caller's.
func (s *sandbox) environment(spec *runtime.Command, tag string) []string {
	vars := map[string]string{
		"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": filepath.Join(s.dir, "home"),
		"USER": "user", "LOGNAME": "user", "LANG": "C.UTF-8", "SHELL": "/bin/sh",
	}
	maps.Copy(vars, s.config.Env)
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
func (s *sandbox) cwd(dir string) string {
	mountPoint := s.config.MountPointOrDefault()
	if !path.IsAbs(dir) {
		dir = path.Join(cmp.Or(s.config.Cwd, mountPoint), dir)
	}
	if below, ok := strings.CutPrefix(dir+"/", mountPoint+"/"); ok {
		return filepath.Join(cmp.Or(s.config.CodebasePath, filepath.Join(s.dir, "work")), below)
	}
	return dir
}
