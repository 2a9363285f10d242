package sandboxflags

import (
	"fmt"
	"os"
	"path"
	"strings"

	"wolffia/cmd/wolffia/internal/hostdir"
	"wolffia/internal/sys/hostpath"
	"wolffia/runtime"
)

// applyCodebase sets the codebase, its mount point and the working directory of c. foreign says
// that the sandbox does not run on the host's system directories. note is what the user
// may not expect; empty if there is nothing to say.
func (f *Sandbox) applyCodebase(c *runtime.SandboxConfig, foreign bool) (note string, err error) {
	c.CodebasePath, c.MountPoint, c.Cwd = f.Text("codebase"), f.Text("mount-point"), f.Text("cwd")
	if f.fixed {
		return "", nil
	}
	none := f.Truth("no-codebase")
	switch {
	case none && c.CodebasePath != "":
		return "", runtime.Errorf(runtime.ErrInvalid, "--codebase and --no-codebase exclude each other: leave one of them out")
	case none:
		c.Cwd = hostdir.Inside(c.Cwd, c.MountPointOrDefault())
		return "", nil
	}
	here, failed := hostdir.Current()
	own, named := c.CodebasePath, c.CodebasePath != ""
	if !named {
		var workspace string
		if own, workspace = hostdir.Project(); workspace != "" {
			note = fmt.Sprintf("the codebase is %s, which has %s: for this directory alone, add --codebase .", own, workspace)
		}
	}
	if own, err = hostdir.RealPath(own); err != nil {
		own = here
		if named {
			return "", nil // Create says what is wrong
		}
	}
	hostpath.Distrust(hostdir.Codebase, func() ([]string, error) { return []string{own}, nil })
	avoided := hostdir.NotByDefault(own, hostdir.Homes(own))
	if !named {
		if failed == nil {
			failed = avoided
		}
		if failed != nil {
			return "", runtime.Errorf(runtime.ErrInvalid, "%w: change to a project's directory, or name one with --codebase DIR, or use --no-codebase", failed)
		}
		c.CodebasePath = own
	}
	if c.MountPoint == "" && !foreign {
		if avoided == nil && hostdir.HasPlace(own) {
			c.MountPoint = own
		} else {
			note = fmt.Sprintf("the codebase appears at %s: a sandbox has a directory of its own at %s", runtime.DefaultMountPoint, own)
		}
	}
	if !foreign {
		written := ""
		if named {
			written = f.Text("codebase")
		}
		c.CodebaseNames = hostdir.Names(own, c.MountPointOrDefault(), written, os.Getenv("PWD"))
	}
	switch rest, below := strings.CutPrefix(here, strings.TrimSuffix(own, "/")+"/"); {
	case c.Cwd != "":
		c.Cwd = hostdir.Inside(c.Cwd, c.MountPointOrDefault())
	case failed == nil && below:
		c.Cwd = path.Join(c.MountPointOrDefault(), rest)
	}
	return note, nil
}
