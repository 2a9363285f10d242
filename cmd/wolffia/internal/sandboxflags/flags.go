// Package sandboxflags makes the configuration of a new sandbox from flags, over configuration
// files.
package sandboxflags

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"wolffia/cmd/wolffia/internal/console"
	"wolffia/cmd/wolffia/internal/host"
	"wolffia/cmd/wolffia/internal/worktree"
	"wolffia/fields"
	"wolffia/image/store"
	"wolffia/local"
	"wolffia/perm"
	"wolffia/policy"
	"wolffia/runtime"
	"wolffia/runtime/launch"
	"wolffia/service"
	"wolffia/service/registry"
)

// Sandbox are the flags that describe a new sandbox.
type Sandbox struct {
	Rules
	worktree.Flags
	flags    *pflag.FlagSet
	fixed    bool // for sandboxes of a service: the current directory has no meaning for them
	forwards bool // the command stays as long as the sandbox, and can forward ports
	Learn    bool // wolffia network learn: all public names
	FromFile bool // a policy file has named hosts
	Public   bool // a request has named the image: see image.Options

	Command []string // what the image runs by itself; known after config
}

// The values of --limits.
const (
	LimitsStrict     = "strict"
	LimitsBestEffort = "best-effort"
)

// Add gives a command the flags, and has configuration files merged into them, but for the
// service.
func (f *Sandbox) Add(h *host.Host, cmd *cobra.Command, is fields.Command) {
	f.flags, f.Values, f.fixed = cmd.Flags(), AddFields(h, cmd, is), is == fields.Serve
	f.forwards = is&(fields.Run|fields.Learn|fields.Shell) != 0
	if !f.fixed {
		Configured(h, cmd, &f.Rules)
	}
}

// Config makes a configuration of the flags. The caller defers undo.
func (f *Sandbox) Config(ctx context.Context, h *host.Host) (*runtime.SandboxConfig, error) {
	local.PrimeJSON() // beside the look at the codebase
	c := &runtime.SandboxConfig{
		Name: f.Text("name"), Platform: f.Text("platform"), Rootfs: f.Text("rootfs"), Root: f.Truth("root"), RunAs: f.Text("user"),
	}
	if k := (runtime.KubernetesConfig{
		Guest: f.Text("kube-guest"), Context: f.Text("kube-context"), Namespace: f.Text("kube-namespace"),
		RuntimeClass: f.Text("kube-runtime-class"),
	}); k != (runtime.KubernetesConfig{}) {
		c.Kubernetes = &k
	}
	if err := f.applyNetwork(c); err != nil {
		return nil, err
	}
	foreign := f.Text("image") != "" || f.Text("rootfs") != ""
	if err := f.checkToolchains(foreign); err != nil {
		return nil, err
	}
	note, err := f.applyCodebase(c, foreign)
	if err != nil {
		return nil, err
	}
	if note != "" {
		h.Warn("%s", console.Printable(note))
	}
	if err := f.applyLimits(c); err != nil {
		return nil, err
	}
	if c.Env, err = Variables(f.List("env")); err != nil {
		return nil, err
	}
	// What the caller sees on this terminal is of the same kind, time zone and language.
	for _, v := range os.Environ() {
		k, v, _ := strings.Cut(v, "=")
		if _, given := c.Env[k]; !given && isOutlook(k) {
			c.Env[k] = v
		}
	}
	if err := f.applyPorts(c); err != nil {
		return nil, err
	}
	if !f.fixed {
		f.applyGit(h, c)
	}
	if c.Labels, err = Labels(f.List("label")); err != nil {
		return nil, err
	}
	if text := f.Text("owner"); text != "" {
		owner, err := registry.ParseOwner(text)
		if err != nil {
			return nil, fmt.Errorf("--owner: %w", err)
		}
		service.SetOwner(c, owner, false)
	}
	for _, m := range f.List("mount") {
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
	if err := f.addImage(ctx, h, c); err != nil {
		return nil, err
	}
	if filter := f.Text("filter"); filter != FilterAuto {
		c.Filter = runtime.Filter(filter)
	}
	if f.Rules.Worktree, err = f.Flags.Apply(ctx, h, c, f.Values); err != nil {
		return nil, err
	}
	c.CopyOnWrite = f.Truth("cow")
	if c.CodebasePath != "" {
		f.Links = f.Links || c.Native()
		suits := hostGit()
		p, err := f.Rules.Policy(ctx, h, c.CodebasePath)
		if err != nil {
			return nil, err
		}
		f.applyFile(h, c, p)
		WarnRules(h, p)
		applyGitDirs(h, c, p, suits)
		c.Permissions = p.Rules
	} else if f.Rules.Given() {
		return nil, runtime.Errorf(runtime.ErrInvalid, "rules need a codebase: add --codebase DIR, or leave --no-codebase out")
	}
	if err := f.applyAsk(c); err != nil {
		return nil, err
	}
	if err := f.addToolchains(h, c, foreign || f.fixed); err != nil {
		return nil, err
	}
	return c, f.addVolumes(c) // last: variables say where some caches are
}

// Build gives a command the flags of wolffia build.
func (f *Sandbox) Build(h *host.Host, cmd *cobra.Command) {
	f.flags, f.Values = cmd.Flags(), AddFields(h, cmd, fields.Build)
}

// BuildConfig makes a configuration of these flags.
func (f *Sandbox) BuildConfig() (*runtime.SandboxConfig, error) {
	c := &runtime.SandboxConfig{Runtime: f.Text("runtime")}
	if err := f.applyNetwork(c); err != nil {
		return nil, err
	}
	return c, f.applyLimits(c)
}

// isOutlook reports whether a variable says how its user sees text: on what terminal, in which time
// zone and language (environ(7), locale(7)).
func isOutlook(name string) bool {
	return name == "TERM" || name == "TZ" || name == "LANG" || name == "LANGUAGE" || strings.HasPrefix(name, "LC_")
}

// applyLimits sets the limits and the lifetimes.
func (f *Sandbox) applyLimits(c *runtime.SandboxConfig) (err error) {
	c.Resources.CPUs, c.Resources.PIDs = f.Number("cpus"), f.Whole("pids")
	limits := f.Text("limits")
	if c.Resources.BestEffort = limits == LimitsBestEffort; !c.Resources.BestEffort && limits != LimitsStrict {
		return runtime.Errorf(runtime.ErrInvalid, "--limits %q: it must be %s or %s", limits, LimitsStrict, LimitsBestEffort)
	}
	for _, size := range []struct {
		flag string
		to   *int64
	}{{"disk", &c.Resources.Disk}, {"memory", &c.Resources.Memory}} {
		if text := f.Text(size.flag); text != "" {
			if *size.to, err = ParseSize(size.flag, text); err != nil {
				return err
			}
		}
	}
	// a wrapper may always ask for it
	c.Resources.BestEffort = c.Resources.BestEffort && c.Resources.Limited()
	for _, life := range []struct {
		flag string
		to   *time.Duration
	}{{"ttl", &c.TTL}, {"idle-timeout", &c.IdleTimeout}} {
		if text := f.Text(life.flag); text != "" {
			if *life.to, err = ParseLifetime(life.flag, text); err != nil {
				return err
			}
		}
	}
	if action := runtime.IdleAction(f.Text("idle-action")); action != runtime.IdleDestroy {
		c.IdleAction = action
	}
	return nil
}

// addImage sets the image. If the runtime takes images from the image store, the
// image is pulled unless the store has it.
func (f *Sandbox) addImage(ctx context.Context, h *host.Host, c *runtime.SandboxConfig) error {
	name, engine := f.Text("image"), host.Lacks(f.Text("runtime"), launch.StoreImages)
	if err := host.CheckPull(f.Text("pull"), name != "" && engine); err != nil {
		return err
	}
	switch {
	case name == "":
		return nil
	case c.Rootfs != "":
		return runtime.Errorf(runtime.ErrInvalid, "--image and --rootfs exclude each other: leave one of them out")
	case engine:
		c.Image = name
		return nil
	}
	img, err := h.HaveImage(ctx, name, f.Text("pull"), f.Public, nil)
	if err != nil {
		return err
	}
	c.Image, c.ImageID = name, img.ID
	if canonical, err := store.Canonical(name); err == nil && !strings.HasPrefix(img.ID, name) {
		c.Image = canonical // an image in files has its whole path
	}
	f.Command = img.Config.Command()
	return nil
}

// Variables reads -e flags.
func Variables(flags []string) (map[string]string, error) {
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

// Labels reads --label flags. It refuses labels that are wolffia's own.
func Labels(flags []string) (map[string]string, error) {
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

// parseMount reads SRC[:[DST]][:ro|rw][:unfiltered]. A shell leaves a ~ as it is in --mount=~/x.
func parseMount(s string) (runtime.Mount, error) {
	var m runtime.Mount
	rest, unfiltered := strings.CutSuffix(s, ":unfiltered")
	if rest, m.Writable = strings.CutSuffix(rest, ":rw"); !m.Writable {
		rest = strings.TrimSuffix(rest, ":ro")
	}
	m.Unfiltered = unfiltered
	var ok bool
	m.Source, m.Target, ok = strings.Cut(rest, ":")
	if m.Source == "" || ok && m.Target == "" && rest == s || strings.Contains(m.Target, ":") {
		return m, runtime.Errorf(runtime.ErrInvalid, "--mount %q: it must be SRC[:DST][:ro|rw][:unfiltered]", s)
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

// Rules are the flags that make the rules.
type Rules struct {
	fields.Values

	Links bool // warn of files with hard links out of the codebase

	Worktree string // see policy.Options.Worktree

	// Of configuration files: preset and policy file where no flag names one, and whether
	// that preset is the project's choice; the user's rules and the project's; and the paths
	// of the files.
	filePreset, filePolicy  string
	own, ownReveals         []perm.Rule
	project, projectReveals []perm.Rule
	projectPreset           bool
	// the preset of the user's own file, which bounds the rules of a project that has chosen
	// another one
	userPreset    string
	projectPolicy bool // the project names filePolicy
	configs       []string
	// where the values of flags come from that these files have set
	origins map[string]string
}

// Given reports whether flags have named rules.
func (f *Rules) Given() bool {
	return f.Text("preset") != "" || f.Text("policy") != "" || len(f.List("rule")) > 0 || len(f.List("reveal")) > 0
}

// Flagged returns the rules of the flags --rule and --reveal.
func (f *Rules) Flagged() (rules, reveals []perm.Rule, err error) {
	if rules, err = parseRules(f.List("rule")); err == nil {
		reveals, err = parseRules(f.List("reveal"))
	}
	return rules, reveals, err
}

func parseRules(texts []string) (rules []perm.Rule, err error) {
	for _, s := range texts {
		rule, err := perm.ParseRule(s)
		if err != nil {
			return nil, runtime.WithClass(runtime.ErrInvalid, err)
		}
		rules = append(rules, rule)
	}
	return rules, nil
}

// Policy puts the rules for a codebase together.
func (f *Rules) Policy(ctx context.Context, h *host.Host, codebase string) (*policy.Policy, error) {
	o := &policy.Options{
		Preset: cmp.Or(f.Text("preset"), f.filePreset), File: cmp.Or(f.Text("policy"), f.filePolicy), StateDir: h.StateDir, CountLinks: f.Links, Configs: f.configs,
		Worktree: f.Worktree, Rules: f.own, Reveals: f.ownReveals, Project: f.project, ProjectReveals: f.projectReveals, ProjectPreset: f.projectPreset, UserPreset: f.userPreset,
	}
	rules, reveals, err := f.Flagged()
	if err != nil {
		return nil, err
	}
	o.Rules, o.Reveals = append(o.Rules, rules...), append(o.Reveals, reveals...)
	p, err := policy.For(ctx, codebase, o)
	if err == nil && p.Egress != nil && f.Text("policy") == "" && f.projectPolicy {
		// The user has read the project's configuration, and not this file.
		p.Egress = nil
		p.Warnings = append(p.Warnings, fmt.Sprintf("the network of policy file %s was left out, since the project's configuration names the file: --policy FILE, or policy in your own configuration, uses it", perm.Quote(f.filePolicy)))
	}
	return p, err
}

// WarnRules prints what the user may not expect of the rules.
func WarnRules(h *host.Host, p *policy.Policy) {
	for _, note := range p.Notes() {
		h.Warn("%s", console.Printable(note))
	}
}

// AddFields gives a command the flags that the table of settings has for it, and returns their
// values, which are set when the flags are parsed.
func AddFields(h *host.Host, cmd *cobra.Command, is fields.Command) fields.Values {
	fl, values := cmd.Flags(), fields.Values{}
	for _, f := range fields.Of(is) {
		if f.Name == console.FlagQuiet {
			h.AddQuiet(cmd)
			continue
		}
		to := f.New()
		values[f.Name] = to
		switch to := to.(type) {
		case *string:
			fl.StringVarP(to, f.Name, f.Letter, *to, f.Help)
		case *int64:
			fl.Int64VarP(to, f.Name, f.Letter, *to, f.Help)
		case *float64:
			fl.Float64VarP(to, f.Name, f.Letter, *to, f.Help)
		case *bool:
			fl.BoolVarP(to, f.Name, f.Letter, false, f.Help)
		case *[]string:
			if f.Commas {
				fl.StringSliceVarP(to, f.Name, f.Letter, nil, f.Help)
			} else {
				fl.StringArrayVarP(to, f.Name, f.Letter, nil, f.Help)
			}
		}
		if f.Hidden&is != 0 {
			_ = fl.MarkHidden(f.Name) // the flag exists
		}
	}
	return values
}
