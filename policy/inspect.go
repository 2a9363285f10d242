package policy

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"wolffia/internal/git/gitscan"
	"wolffia/perm"
	"wolffia/runtime"
)

const (
	scanLimit    = 30 * time.Second // for the scan of a codebase
	maxInspected = 200_000          // files whose hard links are counted
)

// An inspection is the result of a scan of a codebase.
type inspection struct {
	path  string // absolute, without links
	root  *os.File
	repos *gitscan.Repos

	secrets func() (*perm.Policy, error) // defaultSecrets, once
}

// settingsNames are the names of files that perm's presets hide because of their possible
// content. Package policy reads these files.
var settingsNames = []string{
	".npmrc", ".yarnrc", ".yarnrc.yml", ".pnpmrc", ".condarc", "pip.conf", "nuget.config",
	"local.properties", ".mcp.json", "mcp.json", ".aider.conf.yml",
}

// defaultSecrets compiles the secret patterns of the default preset, which has those of all
// presets.
func defaultSecrets() (*perm.Policy, error) {
	preset, err := perm.PresetByName(perm.DefaultPreset)
	if err != nil {
		return nil, err
	}
	return perm.Compile(slices.DeleteFunc(preset.Rules, func(r perm.Rule) bool { return r.AtMost }))
}

// inspect scans the codebase, which is at path. With executed it also finds files that the host
// executes because of their names. With links it counts hard links. The caller closes root.
func inspect(ctx context.Context, codebase, path string, executed, links bool) (*inspection, error) {
	secrets := sync.OnceValues(defaultSecrets)
	ctx, cancel := context.WithTimeout(ctx, scanLimit)
	defer cancel()
	opts := &gitscan.Options{Names: settingsNames, Found: func() {
		go func() { _, _ = secrets() }() // runs during the scan; ends without being stopped
	}}
	if links {
		opts.Files = maxInspected
	}
	if executed {
		opts.Marks, opts.Link, opts.Folder = append(perm.ExecutedDirs(), ".envrc"), executable, entered
	}
	repos, err := gitscan.Scan(ctx, path, opts)
	if err != nil {
		return nil, codebaseError(codebase, err)
	}
	root, err := os.OpenFile(path, os.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, codebaseError(codebase, err)
	}
	return &inspection{path: path, root: root, repos: repos, secrets: secrets}, nil
}

// resolve returns the absolute path of a codebase, without links.
func resolve(codebase string) (string, error) {
	path, err := filepath.Abs(codebase)
	if err == nil {
		path, err = filepath.EvalSymlinks(path)
	}
	if err != nil {
		return "", codebaseError(codebase, err)
	}
	return path, nil
}

// codebaseError is the error for a codebase that cannot be read. It names the path as
// the caller gave it.
func codebaseError(codebase string, err error) error {
	if errno, ok := errors.AsType[unix.Errno](err); ok {
		err = errno
	}
	return runtime.Errorf(runtime.ErrInvalid, "codebase %s: %w", codebase, err)
}
