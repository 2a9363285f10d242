package policy

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"wolffia/internal/gitscan"
	"wolffia/internal/statedir"
	"wolffia/perm"
	"wolffia/runtime"
)

// scanLimit is how long looking at the codebase may take.
const scanLimit = 30 * time.Second

// Options say what rules are wanted. The zero value, and nil, mean those of
// perm.DefaultPreset.
type Options struct {
	Preset string // the preset; "" means what File extends, or perm.DefaultPreset
	File   string // path of a policy file; "" means none

	// Rules are as by --rule: they outrank the preset and the file, but not the
	// preset's secrets. Reveals are as by --reveal: they outrank all. Their
	// Priority is set. perm.ParseRule makes them of text.
	Rules   []perm.Rule
	Reveals []perm.Rule

	// CountLinks has the files counted that have hard links out of the codebase, for
	// Policy.Linked. It takes a look at every file.
	CountLinks bool

	// StateDir is the state directory of the runtime that the sandbox is made
	// with, as in local.Options. What git tracked in the codebase is recorded there.
	StateDir string
}

// A Policy is the rules for one codebase, and what they say of files that are
// not what their names say.
type Policy struct {
	Rules    []perm.Rule // for runtime.SandboxConfig.Permissions
	Findings []Finding   // sorted by kind and path

	// Unread are the working trees of git, relative to the codebase, of which the
	// index could not be read, since it is damaged or enormous: what it tracks stays
	// hidden.
	Unread []string

	// Sealed are the directories that could not be looked into, or are too deep for
	// that; and bare repositories without .git at the end of their names, if there
	// are many. They are at most readable; if there are very many of them, all is.
	Sealed []string

	// Credentials are settings of git, such as "remote.origin.url in .git/config",
	// that have a password or a token in them. They can be read inside.
	Credentials []string

	// Linked is how many files have hard links that lead out of the codebase, of the first
	// 200,000 that were looked at; 0 without Options.CountLinks.
	Linked int

	// Everywhere says that there are too many directories in the codebase that an
	// editor or an agent may open: what the host executes because of its name is then
	// guarded in all, also in new ones.
	Everywhere bool

	// Truncated says that the codebase is too large to find all its
	// repositories. Every .git is guarded all the same, but not what the configuration
	// in it points to.
	Truncated bool
}

// For returns the rules for the codebase, a directory. It writes to the state
// directory: see the package comment. The error matches runtime.ErrInvalid if o
// or the codebase is wrong, runtime.ErrUnavailable if the state directory
// cannot be used, or is that of ctx.
func For(ctx context.Context, codebase string, o *Options) (*Policy, error) {
	if o == nil {
		o = &Options{}
	}
	req := &perm.Request{Preset: o.Preset, Rules: o.Rules, Reveals: o.Reveals}
	if o.File != "" {
		file, err := ReadFile(o.File)
		if err != nil {
			return nil, err
		}
		req.File = file
	}
	base, err := req.Base()
	if err == nil { // what is wrong with the request comes before what is wrong with the codebase
		_, err = perm.Compile(slices.Concat(o.Rules, o.Reveals))
	}
	if err != nil {
		return nil, invalid(err)
	}
	path, err := resolve(codebase)
	if err != nil {
		return nil, err
	}
	p := &Policy{}
	own, err := ownNames(path, o.File)
	if err != nil {
		return nil, err
	}
	if !base.Git && len(secretsOf(base.Rules)) == 0 {
		switch known, err := recorded(o.StateDir, path); {
		case err != nil:
			return nil, err
		case known: // nothing depends on what is in it
			if p.Rules, err = perm.Assemble(req); err != nil {
				return nil, invalid(err)
			}
			p.Rules = append(p.Rules, ownFile(own)...)
			_, err = earlierFiles(o.StateDir, path, own)
			return p, err
		}
	}
	secrets := sync.OnceValues(defaultSecrets)
	go func() { _, _ = secrets() }() // beside the walk; it ends by itself
	home := make(chan []perm.Rule, 1)
	go func() { // as well
		if base.Executed {
			home <- homeRules(path)
		}
		close(home)
	}()
	look, err := lookAt(ctx, codebase, path, base.Executed, o.CountLinks)
	if err != nil {
		return nil, err
	}
	defer look.root.Close()
	look.secrets = secrets
	p.Linked = look.repos.Outer
	var many []string
	req.GitDirs, many = bare(look.repos)
	if base.Executed {
		req.Opened = opened(look.repos)
		p.Everywhere = req.Opened == nil
	}
	if p.Rules, err = perm.Assemble(req); err != nil {
		return nil, invalid(err)
	}
	p.Rules = append(p.Rules, ownFile(own)...)
	if base.Executed {
		led, err := look.led(req.Opened)
		if err != nil {
			return nil, err
		}
		p.Rules = slices.Concat(p.Rules, led, <-home)
	}
	if base.Git {
		p.Truncated, p.Sealed = look.repos.Truncated, append(many, look.repos.Unread...)
		p.Rules = append(p.Rules, guard(look.repos, p.Sealed)...)
	}
	for _, c := range look.repos.Credentials {
		p.Credentials = append(p.Credentials, c.Key+" in "+c.File)
	}
	if err := look.exempt(ctx, p, base.Rules, o.StateDir); err != nil {
		return nil, err
	}
	earlier, err := earlierFiles(o.StateDir, path, own)
	if base.Git {
		p.Rules = append(p.Rules, earlier...)
	}
	return p, err
}

// maxPolicy bounds what is read of a policy file; perm refuses longer ones.
const maxPolicy = 2 << 20

// ReadFile reads a policy file. The error matches runtime.ErrInvalid.
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
	if err != nil {
		return nil, runtime.WithClass(runtime.ErrInvalid, err)
	}
	return file, nil
}

// A look is what was found in a codebase.
type look struct {
	path  string // absolute, without links
	root  *os.File
	repos *gitscan.Repos

	secrets func() (*perm.Policy, error) // defaultSecrets, once
}

// settingsNames are the names of files that perm's presets hide for what may be
// in them, and that are looked into.
var settingsNames = []string{
	".npmrc", ".yarnrc", ".yarnrc.yml", ".pnpmrc", ".condarc", "pip.conf", "nuget.config",
	"local.properties", ".mcp.json", "mcp.json", ".aider.conf.yml",
}

// wrong is the error of a codebase that cannot be looked at.
func wrong(codebase string, err error) error {
	var why unix.Errno
	if errors.As(err, &why) {
		err = why
	}
	return runtime.Errorf(runtime.ErrInvalid, "codebase %s: %w", codebase, err)
}

// invalid gives err, which may be nil, its class.
func invalid(err error) error {
	if err == nil {
		return nil
	}
	return runtime.WithClass(runtime.ErrInvalid, err)
}

// resolve returns the absolute path of a codebase, without links.
func resolve(codebase string) (string, error) {
	path, err := filepath.Abs(codebase)
	if err == nil {
		path, err = filepath.EvalSymlinks(path)
	}
	if err != nil {
		return "", wrong(codebase, err)
	}
	return path, nil
}

// maxLooked is how many files are looked at for their links.
const maxLooked = 200_000

// lookAt looks at the codebase at path; executed says whether also for what the host
// executes because of its name, links whether for hard links. The caller closes root.
func lookAt(ctx context.Context, codebase, path string, executed, links bool) (*look, error) {
	ctx, cancel := context.WithTimeout(ctx, scanLimit)
	defer cancel()
	opts := &gitscan.Options{Names: settingsNames}
	if links {
		opts.Files = maxLooked
	}
	if executed {
		opts.Marks, opts.Link = perm.ExecutedDirs(), executable
	}
	repos, err := opts.Scan(ctx, path)
	if err != nil {
		return nil, wrong(codebase, err)
	}
	root, err := os.OpenFile(path, os.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, wrong(codebase, err)
	}
	return &look{path: path, root: root, repos: repos}, nil
}

// recorded reports whether rules were made for the directory path before.
func recorded(state, path string) (bool, error) {
	state, err := stateDir(state)
	if err != nil {
		return false, err
	}
	known, err := statedir.KnownCodebases(state, path)
	return len(known) > 0 && known[0].Path == path, err
}

// stateDir returns the state directory's path.
func stateDir(path string) (string, error) {
	if path != "" {
		return filepath.Abs(path)
	}
	return statedir.Default(os.Getenv, os.Geteuid())
}
