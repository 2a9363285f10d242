package policy

import (
	"context"
	"io"
	"os"
	"slices"

	"wolffia/network"
	"wolffia/perm"
	"wolffia/runtime"
)

// Options select the rules. The zero value, and nil, select those of
// perm.DefaultPreset.
type Options struct {
	Preset string // name of a preset; "" means the one that File extends, or perm.DefaultPreset
	File   string // path of a policy file; "" means none
	// Choice takes the place of Preset, File and of what begins with Project below, if it
	// is not nil; they must be empty.
	Choice *Choice

	// Rules are as by --rule: they outrank the preset and the file, but not the
	// preset's secrets. Reveals are as by --reveal: they outrank all other rules. For
	// sets their Priority. perm.ParseRule parses the text of a flag.
	Rules   []perm.Rule
	Reveals []perm.Rule

	// Project, ProjectReveals, ProjectPreset and UserPreset are those of perm.Request: rules of a
	// configuration file of the codebase's own, which give no more than the others allow.
	Project        []perm.Rule
	ProjectReveals []perm.Rule
	ProjectPreset  bool
	UserPreset     string

	// Configs are the paths of configuration files that these options come from. In the
	// codebase they are read-only as File is.
	Configs []string

	// Worktree is the WorktreeName, below WorktreeDir, of the git working tree that the sandbox is
	// for: the rest of the codebase is then at most readable, except for git's own files. "" means
	// none. A Choice has it already.
	Worktree string

	// GitInPlace says that each .git inside will be the host's own, since the sandbox cannot have
	// copies: with the static filter, or where the host's git is too old. They are at most
	// readable then, unless perm.GitUnguarded says that the user wants it otherwise. A Choice has
	// it.
	GitInPlace bool

	// CountLinks has For count the files with hard links out of the codebase, for
	// Policy.Linked. It costs a system call for each file.
	CountLinks bool

	// StateDir is the state directory of the runtime that creates the sandbox; ""
	// means the default one. For records there which policy files a codebase has.
	StateDir string
}

// A Policy is the rules for one codebase, and what a user should know of them. It is
// the caller's.
type Policy struct {
	Rules    []perm.Rule // for runtime.SandboxConfig.Permissions; perm.Compile accepts them
	Findings []Finding   // sorted by kind and path

	// Unread are the working trees of git, relative to the codebase, whose index could
	// not be read, since it is damaged or too large: the secrets that it tracks stay
	// hidden.
	Unread []string

	// Sealed are the directories that could not be read, or are too deep for that; and
	// bare repositories without .git at the end of their names, if there are many.
	// They are at most readable; if there are very many of them, all is.
	Sealed []string

	// Credentials are settings of git, such as "remote.origin.url in .git/config", that contain a
	// password or a token. The sandbox's copy of a .git lacks those of the .git, unless
	// --git-credentials keeps them; the others can be read inside.
	Credentials []string
	left        []string // those of Credentials that the sandbox's copy lacks

	// Linked is the number of files with hard links that lead out of the codebase,
	// among the first 200,000 files; 0 without Options.CountLinks.
	Linked int

	// Everywhere is set if there are too many directories in the codebase that an
	// editor or an agent may open: files that the host executes because of their names
	// are then read-only in all directories, also in new ones.
	Everywhere bool

	// Truncated is set if the codebase is too large to find all its repositories. Each .git is
	// still a copy inside, but the files that the configuration in it points to are not guarded.
	Truncated bool

	// Egress is what the policy file of Options.File lets the sandbox reach, nil for nothing: for
	// runtime.SandboxConfig.Egress, with runtime.NetworkFiltered.
	Egress     *network.Policy
	egressFile string // the policy file with Egress, if it is in the codebase

	// Warnings are sentences about rules of Options and policy files that do not have the effect
	// they seem to have: other rules outrank them, or they match nothing.
	Warnings []string
}

// For returns the rules for the codebase, a directory. It reads the codebase, which
// takes at most 30 seconds, and writes to the state directory: see the package comment.
// An error is of class runtime.ErrInvalid if o or the codebase is wrong, of class
// runtime.ErrUnavailable if the state directory cannot be used, or that of ctx. For is
// safe for concurrent use, also by several processes.
func For(ctx context.Context, codebase string, o *Options) (*Policy, error) {
	if o == nil {
		o = &Options{}
	}
	req, err := o.request()
	if err != nil {
		return nil, err
	}
	path, err := resolve(codebase)
	if err != nil {
		return nil, err
	}
	p, err := rulesFor(ctx, codebase, path, o, req)
	if err != nil {
		return nil, err
	}
	if o.Choice != nil {
		req.File = nil // its rules are not new
	}
	if p.Warnings, err = warnings(path, p.Rules, req); err != nil || req.File == nil {
		return p, err
	}
	names, err := ownNames(path, []string{o.File})
	if err != nil {
		return nil, err
	}
	if len(names) > 0 {
		p.egressFile = o.File
	}
	p.Egress, err = Egress(req.File, len(names) > 0)
	return p, err
}

// request returns the request for o, without what depends on the codebase.
func (o *Options) request() (req *perm.Request, err error) {
	req = &perm.Request{
		Preset: o.Preset, Rules: o.Rules, Reveals: o.Reveals,
		Project: o.Project, ProjectReveals: o.ProjectReveals, ProjectPreset: o.ProjectPreset, UserPreset: o.UserPreset,
	}
	switch {
	case o.Choice != nil && (o.Preset != "" || o.File != "" || len(o.Project)+len(o.ProjectReveals) > 0):
		return nil, runtime.Errorf(runtime.ErrInvalid, "the rules of a sandbox exclude a preset, a policy file and rules of a project")
	case o.Choice != nil:
		o.Choice.fill(req)
	case o.File != "":
		req.File, err = ReadFile(o.File)
	}
	return req, err
}

// rulesFor is For without Policy.Warnings. path is the resolved codebase.
func rulesFor(ctx context.Context, codebase, path string, o *Options, req *perm.Request) (*Policy, error) {
	base, err := req.Base()
	if err == nil { // errors in o come before those of the codebase
		err = perm.Check(slices.Concat(o.Rules, o.Reveals, o.Project, o.ProjectReveals))
	}
	if err != nil {
		return nil, invalid(err)
	}
	own, err := ownNames(path, append([]string{o.File}, o.Configs...))
	if err != nil {
		return nil, err
	}
	var guardRules []perm.Rule
	if o.Choice != nil {
		guardRules = o.Choice.guardRules
	}
	p := &Policy{}
	r, err := readRecord(o.StateDir, path)
	if err != nil {
		return nil, err
	}
	earlier := r.policyFiles()
	if err := r.update(own); err != nil {
		return nil, err
	}
	secret := secretsOf(base.Rules)
	if !base.Git && len(secret) == 0 && !o.CountLinks { // the rules do not depend on the codebase's content
		if p.Rules, err = perm.Assemble(req); err == nil {
			p.Rules = slices.Concat(p.Rules, ownFile(own), guardRules)
			err = perm.Check(p.Rules)
		}
		if err != nil {
			return nil, invalid(err)
		}
		return p, nil
	}
	worktree, inPlace := o.Worktree, o.GitInPlace
	if o.Choice != nil {
		worktree, inPlace = o.Choice.worktree, inPlace || o.Choice.inPlace
	}
	names := make(chan []perm.Rule, 1)
	go func() { // runs during the scan; ends without being stopped
		if base.Executed {
			names <- slices.Concat(newNames(path, worktree), homeNames(path), homeLinks(path, r.state))
		}
		close(names)
	}()
	l, err := inspect(ctx, codebase, path, base.Executed, o.CountLinks)
	if err != nil {
		return nil, err
	}
	defer l.root.Close()
	if err := l.assemble(p, req, &base, own, names, worktree); err != nil {
		return nil, err
	}
	inPlace = inPlace || perm.GitUnguarded(p.Rules) != ""
	if inPlace {
		p.Rules = perm.GitInPlace(p.Rules)
	}
	for _, c := range l.repos.Credentials {
		text := c.Key + " in " + c.File
		if p.Credentials = append(p.Credentials, text); !inPlace && inGit(c.File) {
			p.left = append(p.left, text)
		}
	}
	tracked, unread, err := l.trackedFiles(ctx)
	if err != nil {
		return nil, err
	}
	if len(secret) > 0 {
		p.Unread = unread
	}
	if err := l.excludeFiles(p, secret, tracked, inPlace); err != nil {
		return nil, err
	}
	if base.Git {
		p.Rules = append(p.Rules, earlier...)
	}
	for _, r := range guardRules {
		if !slices.Contains(p.Rules, r) {
			p.Rules = append(p.Rules, r)
		}
	}
	if err := perm.Check(p.Rules); err != nil {
		return nil, invalid(err)
	}
	return p, nil
}

// assemble sets all of p that does not depend on what git tracks. own are the names of
// the policy file; names gives the rules that do not need the scan; worktree is Options.Worktree.
func (l *inspection) assemble(
	p *Policy, req *perm.Request, base *perm.Preset, own []string, names <-chan []perm.Rule, worktree string,
) (err error) {
	repos := l.repos
	p.Linked = repos.Outer
	var many []string
	req.NotGit = notGit(repos)
	req.GitDirs, many = bare(repos)
	if base.Executed {
		req.Opened = l.opened()
		p.Everywhere = req.Opened == nil
	}
	if p.Rules, err = perm.Assemble(req); err != nil {
		return invalid(err)
	}
	p.Rules = append(p.Rules, ownFile(own)...)
	if base.Executed {
		led, err := l.led(req.Opened)
		if err != nil {
			return err
		}
		p.Rules = slices.Concat(p.Rules, led, l.conditional(), <-names)
	}
	if base.Git {
		p.Truncated, p.Sealed = repos.Truncated, append(many, repos.Unread...)
		p.Rules = slices.Concat(p.Rules, guard(repos, p.Sealed), worktrees(worktree))
	}
	return nil
}

// maxPolicy bounds the bytes that are read of a policy file; perm refuses as many.
const maxPolicy = 2 << 20

// ReadFile reads and parses a policy file. An error is of class runtime.ErrInvalid.
func ReadFile(name string) (*perm.PolicyFile, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, runtime.Errorf(runtime.ErrInvalid, "policy file: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxPolicy))
	if err != nil {
		return nil, runtime.Errorf(runtime.ErrInvalid, "policy file: %w", err)
	}
	file, err := perm.ParsePolicy(name, data)
	return file, invalid(err)
}

// invalid gives err, which may be nil, the class ErrInvalid.
func invalid(err error) error {
	if err == nil {
		return nil
	}
	return runtime.WithClass(runtime.ErrInvalid, err)
}
