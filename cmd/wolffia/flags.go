package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"wolffia/image/store"
	"wolffia/local"
	"wolffia/perm"
	"wolffia/policy"
	"wolffia/runtime"
	"wolffia/service"
	"wolffia/service/registry"
)

// boxFlags are the flags that describe a new sandbox.
type boxFlags struct {
	ruleFlags
	codebaseFlags
	filterFlags
	toolchainFlags
	volumeFlags
	gitFlags
	pullFlags
	networkFlags
	portFlags
	worktreeFlags
	runtime  string
	platform string
	mounts   []string
	rootfs   string
	image    string
	memory   string
	cpus     float64
	pids     int64
	limits   string
	env      []string
	labels   []string
	owner    string
	name     string
	disk     string
	cow      bool
	ttl      string
	idle     string

	command []string // what the image runs by itself; known after config
}

// The values of --limits.
const (
	limitsStrict     = "strict"
	limitsBestEffort = "best-effort"
)

func (f *boxFlags) add(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringVar(&f.runtime, "runtime", "", "what isolates: bwrap, gvisor or docker (default bwrap)")
	fl.StringVar(&f.platform, "platform", "", "how gvisor catches system calls: systrap or kvm (default systrap)")
	fl.StringArrayVar(&f.mounts, "mount", nil, "show another host directory, unfiltered: SRC[:DST][:ro|rw], read-only unless rw")
	fl.StringVar(&f.rootfs, "rootfs", "", "directory with the system to run on (default: the host's system directories)")
	fl.StringVar(&f.image, "image", "", "image to run on, pulled if it is not there: see wolffia image --help")
	fl.StringVar(&f.memory, "memory", "", "how much memory may be used, such as 512m or 2g (default: no limit)")
	fl.Float64Var(&f.cpus, "cpus", 0, "how many processors' time may be used, such as 1.5 (default: no limit)")
	fl.Int64Var(&f.pids, "pids", 0, "how many processes and threads there may be at once (default: no limit)")
	fl.StringVar(&f.limits, "limits", limitsStrict, "strict: refuse limits of memory, cpus and pids that cannot be kept exactly; best-effort: keep them as far as can be")
	fl.StringArrayVarP(&f.env, "env", "e", nil, "set a variable: K=V, or K to pass the caller's")
	fl.StringArrayVar(&f.labels, "label", nil, "label the sandbox: K=V")
	fl.StringVar(&f.owner, "owner", "", "whose sandbox it is, for wolffia scan and the service: ORG/PROJECT/USER")
	fl.BoolVar(&f.cow, "cow", false, "keep what the sandbox changes in the codebase beside it, until it is applied or discarded")
	fl.StringVar(&f.disk, "disk", "", "how much may be added to the codebase, such as 512m or 2g (default: no limit)")
	fl.StringVar(&f.ttl, "ttl", "", "destroy the sandbox this long after it was made (90s, 5m, 7d; default: never)")
	fl.StringVar(&f.idle, "idle-timeout", "", "destroy the sandbox when it was not used for this long (default: never)")
	fl.StringVar(&f.name, "name", "", "name the sandbox")
	f.ruleFlags.add(cmd)
	f.codebaseFlags.add(cmd)
	f.filterFlags.add(cmd)
	f.toolchainFlags.add(cmd)
	f.volumeFlags.add(cmd)
	if !f.fixed { // the service has owners of its own, and many sandboxes
		f.gitFlags.add(cmd)
		f.portFlags.add(cmd)
	} else {
		f.portFlags.addOfHost(cmd)
	}
	f.pullFlags.add(cmd)
	f.networkFlags.add(cmd)
}

// config makes a configuration of the flags. The caller defers undo.
func (f *boxFlags) config(ctx context.Context, a *app) (*runtime.SandboxConfig, error) {
	local.Rehearse() // beside the look at the codebase
	c := &runtime.SandboxConfig{
		Name: f.name, Platform: f.platform, Rootfs: f.rootfs,
	}
	if err := f.networkFlags.apply(c); err != nil {
		return nil, err
	}
	foreign := f.image != "" || f.rootfs != ""
	if err := f.toolchainFlags.check(foreign); err != nil {
		return nil, err
	}
	note, err := f.codebaseFlags.apply(c, foreign)
	if err != nil {
		return nil, err
	}
	if note != "" {
		a.warn("%s", printable(note))
	}
	if err := f.applyLimits(c); err != nil {
		return nil, err
	}
	if c.Env, err = variables(f.env); err != nil {
		return nil, err
	}
	// TERM and LANG of the caller: what is shown is shown on the same terminal.
	for _, k := range []string{"TERM", "LANG"} {
		if v, set := os.LookupEnv(k); set && c.Env[k] == "" {
			c.Env[k] = v
		}
	}
	if err := f.portFlags.apply(c); err != nil {
		return nil, err
	}
	if !f.fixed {
		f.gitFlags.apply(a, c)
	}
	if c.Labels, err = labels(f.labels); err != nil {
		return nil, err
	}
	if f.owner != "" {
		owner, err := registry.ParseOwner(f.owner)
		if err != nil {
			return nil, fmt.Errorf("--owner: %w", err)
		}
		service.SetOwner(c, owner, false)
	}
	for _, m := range f.mounts {
		mount, err := parseMount(m)
		if err != nil {
			return nil, err
		}
		c.Mounts = append(c.Mounts, mount)
	}
	if c.Rootfs != "" {
		if c.Rootfs, err = filepath.Abs(c.Rootfs); err != nil {
			return nil, err
		}
	}
	if err := f.addImage(ctx, a, c); err != nil {
		return nil, err
	}
	f.filterFlags.apply(c)
	if f.ruleFlags.worktree, err = f.worktreeFlags.apply(ctx, a, c, f.cwd); err != nil {
		return nil, err
	}
	c.CopyOnWrite = f.cow
	if c.CodebasePath != "" {
		f.links = f.links || c.Native()
		suits := hostGit(ctx)
		p, err := f.ruleFlags.rules(ctx, a, c.CodebasePath)
		if err != nil {
			return nil, err
		}
		f.networkFlags.applyFile(a, c, p)
		a.warnRules(p)
		a.applyGitDirs(c, p, suits)
		c.Permissions = p.Rules
	} else if f.ruleFlags.given() {
		return nil, runtime.Errorf(runtime.ErrInvalid, "rules need a codebase: add --codebase DIR, or leave --no-codebase out")
	}
	if err := f.toolchainFlags.addTo(a, c, foreign || f.fixed); err != nil {
		return nil, err
	}
	return c, f.volumeFlags.addTo(c, f.fixed) // last: variables say where some caches are
}

// applyLimits sets the limits and the lifetimes.
func (f *boxFlags) applyLimits(c *runtime.SandboxConfig) (err error) {
	c.Resources.CPUs, c.Resources.PIDs = f.cpus, f.pids
	if c.Resources.BestEffort = f.limits == limitsBestEffort; !c.Resources.BestEffort && f.limits != limitsStrict {
		return runtime.Errorf(runtime.ErrInvalid, "--limits %q: it must be %s or %s", f.limits, limitsStrict, limitsBestEffort)
	}
	for _, size := range []struct {
		flag, text string
		to         *int64
	}{{"disk", f.disk, &c.Resources.Disk}, {"memory", f.memory, &c.Resources.Memory}} {
		if size.text == "" {
			continue
		}
		if *size.to, err = parseSize(size.flag, size.text); err != nil {
			return err
		}
	}
	c.Resources.BestEffort = c.Resources.BestEffort && c.Resources.Limited() // a wrapper may always ask for it
	for _, life := range []struct {
		flag, text string
		to         *time.Duration
	}{{"ttl", f.ttl, &c.TTL}, {"idle-timeout", f.idle, &c.IdleTimeout}} {
		if life.text == "" {
			continue
		}
		if *life.to, err = parseLifetime(life.flag, life.text); err != nil {
			return err
		}
	}
	return nil
}

// addImage sets the image. If the runtime takes images from the image store, the
// image is pulled unless the store has it.
func (f *boxFlags) addImage(ctx context.Context, a *app, c *runtime.SandboxConfig) error {
	if err := f.pullFlags.check(f.image != "" && hasEngine(f.runtime)); err != nil {
		return err
	}
	switch {
	case f.image == "":
		return nil
	case f.rootfs != "":
		return runtime.Errorf(runtime.ErrInvalid, "--image and --rootfs exclude each other: leave one of them out")
	case hasEngine(f.runtime):
		c.Image = f.image
		return nil
	}
	img, err := a.haveImage(ctx, f.image, f.pullFlags)
	if err != nil {
		return err
	}
	c.Image, c.ImageID = f.image, img.ID
	if canonical, err := store.Canonical(f.image); err == nil && !strings.HasPrefix(img.ID, f.image) {
		c.Image = canonical // an image in files has its whole path
	}
	f.command = img.Config.Command()
	return nil
}

// variables reads -e flags.
func variables(flags []string) (map[string]string, error) {
	env := map[string]string{}
	for _, s := range flags {
		k, v, ok := strings.Cut(s, "=")
		if k == "" {
			return nil, runtime.Errorf(runtime.ErrInvalid, "-e %q: it must be NAME, for a variable that is set here, or NAME=VALUE", s)
		}
		if !ok {
			if v, ok = os.LookupEnv(k); !ok {
				return nil, runtime.Errorf(runtime.ErrInvalid, "-e %s: the variable is not set here: to give it a value, use -e %s=VALUE", k, k)
			}
		}
		env[k] = v
	}
	return env, nil
}

// labels reads --label flags. It refuses labels that are wolffia's own.
func labels(flags []string) (map[string]string, error) {
	all := map[string]string{}
	for _, s := range flags {
		k, v, ok := strings.Cut(s, "=")
		switch {
		case !ok || k == "":
			return nil, runtime.Errorf(runtime.ErrInvalid, "--label %q: it must be K=V", s)
		case strings.HasPrefix(k, "wolffia."):
			return nil, runtime.Errorf(runtime.ErrInvalid, "--label %q: labels that begin with wolffia. are wolffia's own", s)
		}
		all[k] = v
	}
	return all, nil
}

// parseMount reads SRC[:[DST]][:ro|rw]. A shell leaves a ~ as it is in --mount=~/x.
func parseMount(s string) (runtime.Mount, error) {
	var m runtime.Mount
	rest, writable := strings.CutSuffix(s, ":rw")
	m.Writable = writable
	if !writable {
		rest = strings.TrimSuffix(s, ":ro")
	}
	var ok bool
	m.Source, m.Target, ok = strings.Cut(rest, ":")
	if m.Source == "" || ok && m.Target == "" && rest == s || strings.Contains(m.Target, ":") {
		return m, runtime.Errorf(runtime.ErrInvalid, "--mount %q: it must be SRC[:DST][:ro|rw]", s)
	}
	if below, is := strings.CutPrefix(m.Source, "~"); is {
		home, err := os.UserHomeDir()
		if err != nil || below != "" && below[0] != '/' {
			return m, runtime.Errorf(runtime.ErrInvalid, "--mount %q: the shell has not replaced %s: write the directory's whole path", s, m.Source)
		}
		m.Source = home + below
	}
	if strings.HasPrefix(m.Target, "~") {
		return m, runtime.Errorf(runtime.ErrInvalid, "--mount %q: DST must be an absolute path inside the sandbox", s)
	}
	abs, err := filepath.Abs(m.Source)
	if err != nil {
		return m, err
	}
	m.Source = abs
	if m.Target == "" {
		m.Target = abs
	}
	return m, nil
}

// ruleFlags are the flags that make the rules.
type ruleFlags struct {
	preset  string
	policy  string
	allow   []string
	reveals []string
	links   bool // warn of files with hard links out of the codebase

	worktree string // see policy.Options.Worktree

	// Of configuration files: preset and policy file where no flag names one, and whether
	// that preset is the project's choice; the user's rules and the project's; and the paths
	// of the files.
	filePreset, filePolicy  string
	own, ownReveals         []perm.Rule
	project, projectReveals []perm.Rule
	projectPreset           bool
	userPreset              string // the preset of the user's own file, which bounds the rules of a project that has chosen another one
	projectPolicy           bool   // the project names filePolicy
	configs                 []string
}

func (f *ruleFlags) add(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringVar(&f.preset, "preset", "", "rules to start from: see wolffia policy presets (default "+perm.DefaultPreset+")")
	fl.StringVar(&f.policy, "policy", "", "file with rules: see wolffia policy check")
	fl.StringArrayVar(&f.allow, "rule", nil, "add a rule: PATTERN=none|view|read|write; it does not reveal secrets")
	fl.StringArrayVar(&f.reveals, "reveal", nil, "add a rule that outranks all, secrets included: PATTERN=LEVEL")
}

func (f *ruleFlags) given() bool {
	return f.preset != "" || f.policy != "" || len(f.allow) > 0 || len(f.reveals) > 0
}

// rules puts the rules for a codebase together.
func (f *ruleFlags) rules(ctx context.Context, a *app, codebase string) (*policy.Policy, error) {
	o := &policy.Options{
		Preset: cmp.Or(f.preset, f.filePreset), File: cmp.Or(f.policy, f.filePolicy), StateDir: a.stateDir, CountLinks: f.links, Configs: f.configs,
		Worktree: f.worktree, Rules: f.own, Reveals: f.ownReveals, Project: f.project, ProjectReveals: f.projectReveals, ProjectPreset: f.projectPreset, UserPreset: f.userPreset,
	}
	for _, l := range []struct {
		flags []string
		to    *[]perm.Rule
	}{{f.allow, &o.Rules}, {f.reveals, &o.Reveals}} {
		for _, s := range l.flags {
			rule, err := perm.ParseRule(s)
			if err != nil {
				return nil, runtime.WithClass(runtime.ErrInvalid, err)
			}
			*l.to = append(*l.to, rule)
		}
	}
	p, err := policy.For(ctx, codebase, o)
	if err == nil && p.Egress != nil && f.policy == "" && f.projectPolicy {
		// The user has read the project's configuration, and not this file.
		p.Egress = nil
		p.Doubts = append(p.Doubts, fmt.Sprintf("the network of policy file %s was left out, since the project's configuration names the file: --policy FILE, or policy in your own configuration, uses it", perm.Quote(f.filePolicy)))
	}
	return p, err
}

// warnRules prints what the user may not expect of the rules.
func (a *app) warnRules(p *policy.Policy) {
	for _, note := range p.Notes() {
		a.warn("%s", printable(note))
	}
}

// parseTimeout reads the flag --timeout, which may not be given.
func parseTimeout(s string) (time.Duration, error) {
	if s == "" {
		return 0, nil
	}
	return parseDuration("timeout", s)
}
