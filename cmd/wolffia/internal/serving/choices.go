package serving

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"wolffia/cmd/wolffia/internal/host"
	"wolffia/cmd/wolffia/internal/sandboxflags"
	"wolffia/fields"
	"wolffia/image/store"
	"wolffia/internal/pathname"
	"wolffia/policy"
	"wolffia/runtime"
	"wolffia/runtime/launch"
	"wolffia/service"
)

// choiceFlags say what a request to the service may choose of the host.
type choiceFlags struct {
	fields.Values
	volumes, codebases []service.Root // known after resolve
}

// resolve checks the flags.
func (f *choiceFlags) resolve() error {
	for _, s := range f.List("volume-root") {
		dir, writable := strings.CutSuffix(s, ":rw")
		if !writable {
			dir = strings.TrimSuffix(s, ":ro")
		}
		r, err := rootDir("volume-root", dir)
		if err != nil {
			return err
		}
		r.Writable = writable
		f.volumes = append(f.volumes, *r)
	}
	for _, s := range f.List("codebase-root") {
		r, err := rootDir("codebase-root", s)
		if err != nil {
			return err
		}
		f.codebases = append(f.codebases, *r)
	}
	for _, name := range f.List("allow-runtime") {
		if host.BackendNamed(name) == nil || name == "" {
			return runtime.Errorf(runtime.ErrInvalid, "--allow-runtime %q: there is no such runtime", name)
		}
	}
	for _, host := range f.List("allow-registry") {
		if name, err := store.Canonical(host + "/x"); err != nil || name != host+"/x:latest" {
			return runtime.Errorf(runtime.ErrInvalid, "--allow-registry %q: it must be HOST[:PORT], such as registry.internal or 127.0.0.1:5000", host)
		}
	}
	return nil
}

// nameUser gives the user of a service's sandboxes one name, so that one pool serves the callers of
// all interfaces: E2B's expect this name. Who runs the service is not their concern.
func nameUser(c *runtime.SandboxConfig) {
	if !c.Root { // else the image has the users
		c.UserName = "user"
	}
}

// rootDir returns the directory that a flag names.
func rootDir(flag, dir string) (*service.Root, error) {
	path, err := filepath.Abs(dir)
	var real string
	if err == nil {
		real, err = filepath.EvalSymlinks(path)
	}
	if err == nil {
		var st os.FileInfo
		if st, err = os.Stat(real); err == nil && (!st.IsDir() || real == "/") {
			return nil, runtime.Errorf(runtime.ErrInvalid, "--%s %s: it must be a directory below /", flag, dir)
		}
	}
	if err != nil {
		return nil, runtime.Errorf(runtime.ErrInvalid, "--%s %s: %w", flag, dir, err)
	}
	return &service.Root{Path: path, Real: real}, nil
}

// shown returns c with all that requests can have shown, to check that nothing of the service's
// own is in it.
func (f *choiceFlags) shown(c *runtime.SandboxConfig) *runtime.SandboxConfig {
	all := *c
	all.Mounts = slices.Clone(c.Mounts)
	for _, r := range slices.Concat(f.volumes, f.codebases) {
		all.Mounts = append(all.Mounts, runtime.Mount{Source: r.Real, Target: "/"})
	}
	return &all
}

// choose sets the flags for one sandbox to what a request has chosen, but for rules, which only
// take away.
func (f *choiceFlags) choose(flags *sandboxflags.Sandbox, p *service.Params) (err error) {
	flags.Values = maps.Clone(flags.Values)
	for name, value := range p.Settings {
		switch name {
		default: // it would replace what the service's own flags say
			return runtime.Errorf(runtime.ErrDenied, "%s: the service does not let a request choose it", name)
		case "cow":
		case "preset", "rule":
			continue
		case "runtime":
			chosen := p.Settings.Text(name)
			if chosen != host.BackendNamed(flags.Text(name)).Name() && !slices.Contains(f.List("allow-runtime"), chosen) {
				return runtime.Errorf(runtime.ErrDenied, "runtime %q: the service does not let a request choose it", chosen)
			}
		case "codebase":
			real, err := f.permitted(p.Settings.Text(name))
			if err != nil {
				return err
			}
			value = &real
		}
		flags.Values[name] = value
	}
	if len(p.Volumes) > 0 && host.Lacks(flags.Text("runtime"), launch.ShimMounts) {
		return runtime.Errorf(runtime.ErrUnsupported, "volumes: a container engine would mount them by path, which another sandbox could exchange: use the runtime bwrap or gvisor")
	}
	return nil
}

// permitted returns a codebase without links if a request may choose it.
func (f *choiceFlags) permitted(codebase string) (string, error) {
	name := filepath.Clean(codebase)
	at := slices.IndexFunc(f.codebases, func(r service.Root) bool { return pathname.Within(name, r.Path) || pathname.Within(name, r.Real) })
	if at < 0 {
		return "", runtime.Errorf(runtime.ErrDenied, "codebase %s: the service does not let a request choose it", name)
	}
	real, err := filepath.EvalSymlinks(name)
	if err != nil || !pathname.Within(real, f.codebases[at].Real) { // nothing of what is elsewhere
		return "", runtime.Errorf(runtime.ErrInvalid, "codebase %s: there is no such directory in %s", name, f.codebases[at].Path)
	}
	return real, nil
}

// sandboxTemplate returns a function that makes the configuration of a new sandbox from the flags,
// and from what the request may choose.
func sandboxTemplate(
	h *host.Host, base *sandboxflags.Sandbox, may *choiceFlags, null *os.File,
) func(context.Context, *service.Params) (*runtime.SandboxConfig, error) {
	return func(ctx context.Context, p *service.Params) (*runtime.SandboxConfig, error) {
		flags := *base
		err := may.choose(&flags, p)
		if err != nil {
			return nil, err
		}
		if p.Image != "" {
			if flags.Public, err = ofRegistry(p.Image, may.List("allow-registry")); err != nil {
				return nil, err
			}
			flags.Values = flags.With("image", p.Image).With("rootfs", "")
			if p.Stored {
				flags.Values = flags.With("pull", "never")
			}
		}
		limits, err := policy.Limits(p.Settings.Text("preset"), p.Settings.List("rule"))
		if err != nil {
			return nil, err
		}
		c, err := again(ctx, h, flags, null)
		if p.Image == "" && p.Settings.Text("runtime") == "" && p.Settings.Text("codebase") == "" {
			c, err = stillValid(c, err)
		}
		switch {
		case err != nil:
			return nil, err
		case len(limits) > 0 && c.CodebasePath == "":
			return nil, runtime.Errorf(runtime.ErrInvalid, "preset, rules: the sandbox has no codebase")
		}
		nameUser(c)
		c.Runtime, c.Permissions = p.Settings.Text("runtime"), append(c.Permissions, limits...)
		return c, nil
	}
}
