package main

import (
	"os"
	"path/filepath"

	"wolffia/internal/git/gitconfig"
	"wolffia/internal/git/gituser"
	"wolffia/runtime"
	"wolffia/runtime/launch"
)

// identity are the variables with which a user tells git a name and an address for one
// shell or directory.
var identity = []string{"GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL", "EMAIL"}

// applyGit gives git inside what it has on the host for the user.
func (f *boxFlags) applyGit(a *app, c *runtime.SandboxConfig) {
	c.GitCredentials, c.NoGitMonitor = f.Truth("git-credentials"), f.Truth("no-git-monitor")
	if f.Truth("no-git-config") {
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
