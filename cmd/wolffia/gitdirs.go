package main

import (
	"wolffia/internal/git/hostgit"
	"wolffia/perm"
	"wolffia/policy"
	"wolffia/runtime"
)

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
func (a *app) applyGitDirs(c *runtime.SandboxConfig, p *policy.Policy, suits func() error) {
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
		a.warn("each .git is read-only inside: %s", printable(why.Error()))
	}
}
