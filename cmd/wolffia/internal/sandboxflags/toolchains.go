package sandboxflags

import (
	"slices"
	"strings"

	"wolffia/cmd/wolffia/internal/host"
	"wolffia/internal/pathname"
	"wolffia/runtime"
	"wolffia/toolchain"
)

// The values of --toolchains beside a list of names.
const (
	ToolchainsAuto = "auto"
	ToolchainsNone = "none"
)

// checkToolchains returns an error if toolchains are asked for where the host's system is not
// shown.
func (f *Sandbox) checkToolchains(foreign bool) error {
	if choice := f.Text("toolchains"); foreign && choice != "" && choice != ToolchainsNone {
		return runtime.Errorf(runtime.ErrInvalid, "--toolchains %s: the host's toolchains need the host's system: leave out --image and --rootfs, or show directories with --mount", choice)
	}
	return nil
}

// addToolchains adds the toolchains to c, which has everything else already. With none there are
// none, unless the flag names them.
func (f *Sandbox) addToolchains(h *host.Host, c *runtime.SandboxConfig, none bool) error {
	choice := f.Text("toolchains")
	if choice == "" && !none {
		choice = ToolchainsAuto
	}
	if choice == "" || choice == ToolchainsNone {
		return nil
	}
	found, err := h.Toolchains(c)
	if err != nil {
		return err
	}
	if choice != ToolchainsAuto {
		var unknown string
		names := strings.Split(choice, ",")
		all := found.Names()
		if found, unknown = found.Only(names); unknown != "" || slices.Contains(names, "") {
			return runtime.Errorf(runtime.ErrInvalid, "--toolchains %s: PATH has no toolchain %q; it has: %s", choice, unknown, orNone(all))
		}
	}
	apply(c, found)
	return nil
}

func orNone(names []string) string {
	if len(names) == 0 {
		return ToolchainsNone
	}
	return strings.Join(names, ", ")
}

// apply adds what was found to c. What the user named takes precedence.
func apply(c *runtime.SandboxConfig, found *toolchain.Found) {
	taken := []string{c.MountPointOrDefault()}
	for _, m := range c.Mounts {
		taken = append(taken, m.Target)
	}
	var mounts []runtime.Mount
	for _, m := range found.Mounts() {
		hides := pathname.Within(taken[0], m.Target)
		if !hides && !slices.ContainsFunc(taken, func(t string) bool { return pathname.Within(m.Target, t) }) {
			mounts = append(mounts, m)
		}
	}
	c.Mounts = append(mounts, c.Mounts...)
	if c.Env == nil {
		c.Env = map[string]string{}
	}
	env := found.Env()
	env["PATH"] = found.Path()
	for k, v := range env {
		if _, set := c.Env[k]; !set && runtime.CheckVariable(k, v) == nil {
			c.Env[k] = v
		}
	}
}
