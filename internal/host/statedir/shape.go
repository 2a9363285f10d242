package statedir

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"

	"wolffia/fields"
	"wolffia/runtime"
)

// Shape returns a short text that is equal for all configurations that one pooled sandbox can
// become; empty: no pooled sandbox can serve c, which Create has completed. What a running
// sandbox cannot take on is a part of it: every field but those that the table of settings has
// claimed (see [fields.Claim]). With fixedName, the host's name inside cannot change, and an image
// has it in files of its own: then the sandbox's name is a part too.
func Shape(c *Config, fixedName bool) string {
	if !warm(c) {
		return ""
	}
	fixed := free(*c, fixedName)
	text, err := json.Marshal(&fixed)
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}

// warm reports whether a sandbox of this kind can be started before its codebase is known.
func warm(c *Config) bool {
	switch {
	case c.RequireRules() != nil, c.Kubernetes == nil && !c.Serves(), fields.Has(&c.SandboxConfig, fields.Cold):
		return false
	case c.RootTree, c.DroppedUID != 0, c.DroppedGID != 0: // root does not trust what is in run/
		return false
	}
	var targets []string
	for i := range c.Mounts {
		targets = append(targets, c.Mounts[i].Target)
	}
	for i := range c.Volumes {
		if c.Volumes[i].Key == "" { // others are not known before the codebase, or have start files
			return false
		}
		targets = append(targets, c.Volumes[i].Target)
	}
	inCodebase := func(target string) bool { return strings.HasPrefix(target, c.MountPointOrDefault()+"/") }
	return !slices.ContainsFunc(targets, inCodebase) // where it would have to be mounted
}

// free returns c without what a pooled sandbox is given when it is claimed.
func free(c Config, fixedName bool) Config {
	name, codebase := c.Name, c.CodebasePath
	fields.Clear(&c.SandboxConfig, fields.Claim)
	if fixedName || c.ImageID != "" || c.OverHost() {
		c.Name = name
	}
	if c.Kubernetes != nil { // no tree server gives a pod another
		c.CodebasePath = codebase
	}
	c.CreatedAt, c.PrivateGit = 0, false // PrivateGit: as the rest says
	if c.Git != nil {                    // the directory is there or not
		c.Git = new(runtime.GitConfig)
	}
	c.MountPoint = c.MountPointOrDefault()
	return c
}
