package sandboxflags

import (
	"os"
	"path/filepath"

	"wolffia/cmd/wolffia/internal/console"
	"wolffia/cmd/wolffia/internal/host"
	"wolffia/cmd/wolffia/internal/hostdir"
	"wolffia/internal/git/gitconfig"
	"wolffia/internal/git/gituser"
	"wolffia/internal/git/hostgit"
	"wolffia/perm"
	"wolffia/policy"
	"wolffia/runtime"
	"wolffia/runtime/launch"
)

// identity are the variables with which a user tells git a name and an address for one
// shell or directory.
var identity = []string{"GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL", "EMAIL"}

// applyGit gives git inside what it has on the host for the user.
func (f *Sandbox) applyGit(h *host.Host, c *runtime.SandboxConfig) {
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
	// Create says what is wrong
	if codebase, err := hostdir.RealPath(c.CodebasePath); c.CodebasePath != "" && err == nil {
		place.Names = []string{codebase}
		for _, name := range []string{c.CodebasePath, "."} { // over the links of PWD, as for git
			if name, err = filepath.Abs(name); err == nil && name != codebase {
				if real, err := hostdir.RealPath(name); err == nil && real == codebase {
					place.Names = append(place.Names, name)
				}
			}
		}
	}
	user, err := gituser.Read(os.Getenv, place)
	if err != nil {
		h.Warn("%s", console.Printable(err.Error()))
	}
	if git := (&runtime.GitConfig{Config: gitconfig.Format(user.Settings), Files: user.Files}); git.Config != "" {
		c.Git = git
	}
}

// hostGit asks the host's git, beside other work, whether it can take over what a sandbox commits.
// answer returns nil, or why it cannot.
func hostGit() (answer func() error) {
	asked := make(chan error, 1)
	go func() { asked <- hostgit.Suits() }() // bounded by hostgit's own limit
	return func() error { return <-asked }
}

// applyGitDirs decides whose the git directories are that a sandbox sees: its own, unless the
// rules, the filter or the host's git do not permit that. In place they are at most readable,
// unless the user wants it otherwise.
func applyGitDirs(h *host.Host, c *runtime.SandboxConfig, p *policy.Policy, suits func() error) {
	if perm.GitUnguarded(p.Rules) != "" { // p's notes say so
		c.GitDirs = runtime.GitInPlace
		return
	}
	if c.CopyOnWrite {
		return
	}
	if c.Filter == runtime.FilterNone {
		p.Rules = perm.GitInPlace(p.Rules)
		return
	}
	if why := suits(); why != nil {
		c.GitDirs, p.Rules = runtime.GitReadOnly, perm.GitInPlace(p.Rules)
		if _, err := os.Lstat(filepath.Join(c.CodebasePath, ".git")); err == nil {
			h.Warn("each .git is read-only inside: %s", console.Printable(why.Error()))
		}
	}
}
