package local

import (
	"testing"

	"wolffia/internal/host/statedir"
	"wolffia/local/defaults"
	"wolffia/perm"
	"wolffia/runtime"
)

// A .git that is the host's own is at most readable, and one of the sandbox's own is not: whatever
// rules there were before.
func TestGitRules(t *testing.T) {
	preset, err := perm.PresetByName(perm.DefaultPreset)
	if err != nil {
		t.Fatal(err)
	}
	of := func(c runtime.SandboxConfig) *statedir.Config {
		c.CodebasePath = "/code"
		s := &statedir.Config{SandboxConfig: c}
		s.PrivateGit = defaults.HasPrivateGit(s)
		return s
	}
	for name, tt := range map[string]struct {
		config runtime.SandboxConfig
		want   perm.Level
	}{
		"its own":  {runtime.SandboxConfig{}, perm.Write},
		"copied":   {runtime.SandboxConfig{CopyOnWrite: true}, perm.Write},
		"static":   {runtime.SandboxConfig{Filter: runtime.FilterStatic}, perm.Write},
		"native":   {runtime.SandboxConfig{Filter: runtime.FilterNone}, perm.Read},
		"in place": {runtime.SandboxConfig{GitDirs: runtime.GitInPlace}, perm.Read},
	} {
		for _, before := range []runtime.SandboxConfig{{}, {GitDirs: runtime.GitInPlace}} {
			p, err := perm.Compile(gitRules(of(tt.config), gitRules(of(before), preset.Rules)))
			if err != nil {
				t.Fatal(err)
			}
			if got := p.Level(".git", true); got != tt.want {
				t.Errorf("%s: %v, want %v", name, got, tt.want)
			}
		}
	}
}
