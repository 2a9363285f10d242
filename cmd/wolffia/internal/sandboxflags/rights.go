package sandboxflags

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path"
	"slices"
	"strings"

	"wolffia/internal/pathname"
	"wolffia/policy"
	"wolffia/runtime"
	"wolffia/volume"
)

// rights returns the key of the caches that the sandbox of c shares: a digest of what it may see,
// change and reach, so that no sandbox executes what one with fewer rights has built. A field of
// the configuration that is not cleared here counts. Of the rules it is what the user has chosen:
// what the codebase's content adds changes with that.
func (f *Sandbox) rights(c *runtime.SandboxConfig) string {
	r := *c
	r.Name, r.CodebasePath, r.CodebaseNames, r.MountPoint, r.Cwd = "", "", nil, "", ""
	r.Permissions, r.Git, r.NoGitMonitor = nil, nil, false
	r.Labels, r.Env, r.Publish = nil, nil, nil
	r.Resources, r.TTL, r.IdleTimeout, r.IdleAction = runtime.Resources{}, 0, 0, ""
	r.Runtime = f.Text("runtime")
	r.Mounts = slices.DeleteFunc(slices.Clone(c.Mounts), func(m runtime.Mount) bool { return m.Toolchain })
	r.Volumes = slices.DeleteFunc(slices.Clone(c.Volumes), func(v runtime.VolumeMount) bool { return v.Cache != "" })
	hash := sha256.New()
	_ = json.NewEncoder(hash).Encode(&r) // of strings and numbers
	for _, v := range slices.Sorted(slices.Values(f.List("env"))) {
		name, _, _ := strings.Cut(v, "=")
		fmt.Fprintf(hash, "%q\n", name) // it may be a secret's
	}
	// the rest of a worktree's codebase is read-only
	fmt.Fprintln(hash, f.Rules.Worktree != "")
	if choice, err := policy.ChoiceOf(c.Permissions); err == nil {
		fmt.Fprintf(hash, "%q\n", choice.Preset)
		for _, rule := range choice.Rules {
			fmt.Fprintf(hash, "%q %d %t\n", rule.String(), rule.Priority, rule.AtMost)
		}
	} else {
		_ = json.NewEncoder(hash).Encode(c.Permissions)
	}
	return hex.EncodeToString(hash.Sum(nil)[:16])
}

// workDirs returns the directories of the host from the codebase to the working directory.
func workDirs(c *runtime.SandboxConfig) []string {
	dirs := []string{c.CodebasePath}
	rest, ok := strings.CutPrefix(c.Cwd, strings.TrimSuffix(c.MountPointOrDefault(), "/")+"/")
	if !ok {
		return dirs
	}
	at := c.CodebasePath
	for name := range strings.SplitSeq(path.Clean(rest), "/") {
		at = path.Join(at, name)
		dirs = append(dirs, at)
	}
	return dirs
}

// taken reports whether the user has put something where a cache would be, or the codebase is
// there.
func taken(c *runtime.SandboxConfig, cache string) bool {
	home, _ := os.UserHomeDir() // without one inside is another
	expand := func(target string) string {
		if rest, ok := strings.CutPrefix(target, "~"); ok {
			return home + rest
		}
		return target
	}
	trial := &runtime.SandboxConfig{Env: maps.Clone(c.Env), CodebasePath: c.CodebasePath}
	if err := volume.AddCache(trial, cache, false, ""); err != nil {
		return false // as AddCache says again
	}
	places := []string{c.MountPointOrDefault()}
	for _, m := range c.Mounts {
		if !m.Toolchain {
			places = append(places, m.Target)
		}
	}
	for _, v := range c.Volumes {
		places = append(places, expand(v.Target))
	}
	return slices.ContainsFunc(trial.Volumes, func(v runtime.VolumeMount) bool {
		at := expand(v.Target)
		return slices.ContainsFunc(places, func(p string) bool {
			return pathname.Within(at, p) || pathname.Within(p, at)
		})
	})
}
