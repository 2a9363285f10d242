package statedir

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"

	"wolffia/runtime"
)

// Shape returns a short text that is equal for the configurations of which one spare can become any; empty:
// no spare can serve c, which Create has completed. What a running sandbox cannot take on is a part of it:
// every field but those that free clears. With ownKernel, the host's name inside cannot change, and an
// image has it in files of its own: then the sandbox's name is a part too.
func Shape(c *Config, ownKernel bool) string {
	if !warm(c) {
		return ""
	}
	fixed := free(*c, ownKernel)
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
	case c.Whole() != nil, !c.Serves(), c.CopyOnWrite, c.Docker != nil:
		return false
	case c.RootTree, c.DroppedUID != 0, c.DroppedGID != 0: // root does not trust what is in run/
		return false
	case len(c.Publish)+len(c.Expose)+len(c.Sockets)+len(c.Volumes) > 0:
		return false
	}
	for i := range c.Mounts { // it would be mounted in the codebase
		if strings.HasPrefix(c.Mounts[i].Target, c.MountPointOrDefault()+"/") {
			return false
		}
	}
	return true
}

// free returns c without what a spare is given when it is taken.
func free(c Config, ownKernel bool) Config {
	c.ID, c.CreatedAt, c.Labels, c.CodebaseID = "", 0, nil, ""
	if !ownKernel && c.ImageID == "" {
		c.Name = ""
	}
	c.CodebasePath, c.Permissions = "", nil
	c.Env, c.Cwd = nil, "" // each process gets them with its request
	c.TTL, c.IdleTimeout, c.BoundToCaller = 0, 0, false
	if c.Git != nil { // the directory is there or not
		c.Git = new(runtime.GitConfig)
	}
	c.Egress = nil
	c.PrivateGit, c.NoGitMonitor = false, false // as the rest says
	c.MountPoint = c.MountPointOrDefault()
	return c
}
