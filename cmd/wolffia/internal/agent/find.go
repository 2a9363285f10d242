// Package agent finds a coding agent on this host, or looks at what it has done in a sandbox.
package agent

import (
	"os/exec"
	"path/filepath"
	"slices"

	"wolffia/internal/config"
	"wolffia/runtime"
	"wolffia/toolchain"
)

// others are patterns of directories of programs below the home directory, beside those of
// [toolchain.Usual]. Of several matches the last counts: mostly the newest version.
var others = []string{
	".nvm/versions/node/*/bin", ".local/share/fnm/node-versions/*/installation/bin",
	".local/share/mise/installs/*/*/bin",
	".opencode/bin", ".amp/bin",
}

// Find returns the directory of the agent's program: known if PATH names it, else below the home
// directory.
func Find(a *config.Agent, home string) (dir string, known bool, err error) {
	if file, err := exec.LookPath(a.Name); err == nil && filepath.IsAbs(file) {
		return filepath.Dir(file), true, nil
	}
	var patterns []string
	if home != "" {
		patterns = toolchain.Usual(home)
		for _, p := range others {
			patterns = append(patterns, filepath.Join(home, p))
		}
	}
	for _, pattern := range patterns {
		files, _ := filepath.Glob(filepath.Join(pattern, a.Name)) // the patterns are ours
		for _, file := range slices.Backward(files) {
			if _, err := exec.LookPath(file); err == nil {
				return filepath.Dir(file), false, nil
			}
		}
	}
	return "", false, runtime.Errorf(runtime.ErrNotFound,
		"%s was found neither in PATH nor in the %d other places where programs usually are: to install it: %s",
		a.Name, len(patterns), a.Install)
}
