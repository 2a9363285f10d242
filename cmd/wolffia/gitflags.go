package main

import (
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"wolffia/internal/gitconfig"
	"wolffia/internal/gituser"
	"wolffia/runtime"
	"wolffia/runtime/launch"
)

// identity are the variables with which a user tells git a name and an address for one
// shell or directory.
var identity = []string{"GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL", "EMAIL"}

// gitFlags say what git inside has of the user's configuration.
type gitFlags struct {
	noGitConfig bool
	credentials bool
	noMonitor   bool
}

func (f *gitFlags) add(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&f.noGitConfig, "no-git-config", false, "do not give git inside your name, address and settings")
	cmd.Flags().BoolVar(&f.noMonitor, "no-git-monitor", false,
		"have git inside look at each file, rather than ask wolffia what has changed")
	cmd.Flags().BoolVar(&f.credentials, "git-credentials", false,
		"copy passwords and tokens in a repository's .git/config into the sandbox's")
}

// apply gives git inside what it has on the host for the user.
func (f *gitFlags) apply(a *app, c *runtime.SandboxConfig) {
	c.GitCredentials, c.NoGitMonitor = f.credentials, f.noMonitor
	if f.noGitConfig {
		return
	}
	for _, name := range identity {
		if v := os.Getenv(name); v != "" && runtime.CheckVariable(name, v) == nil {
			if _, given := c.Env[name]; !given {
				c.Env[name] = v
			}
		}
	}
	place := &gituser.Place{Inside: c.MountPointOrDefault(), Dir: launch.GitPath, Agent: c.Env["SSH_AUTH_SOCK"] != ""}
	if codebase, err := realPath(c.CodebasePath); c.CodebasePath != "" && err == nil { // Create says what is wrong
		place.Names = []string{codebase}
		for _, name := range []string{c.CodebasePath, "."} { // over the links of PWD, as for git
			if name, err = filepath.Abs(name); err == nil && name != codebase {
				if real, err := realPath(name); err == nil && real == codebase {
					place.Names = append(place.Names, name)
				}
			}
		}
	}
	user, err := gituser.Read(os.Getenv, place)
	if err != nil {
		a.warn("%s", printable(err.Error()))
	}
	if git := (&runtime.GitConfig{Config: gitconfig.Format(user.Settings), Files: user.Files}); git.Config != "" {
		c.Git = git
	}
}
