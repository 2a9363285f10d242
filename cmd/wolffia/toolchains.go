package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"wolffia/internal/host/probe"
	"wolffia/internal/host/statedir"
	"wolffia/local"
	"wolffia/runtime"
	"wolffia/toolchain"
)

// The values of --toolchains beside a list of names.
const (
	toolchainsAuto = "auto"
	toolchainsNone = "none"
)

// checkToolchains returns an error if toolchains are asked for where the host's system is not shown.
func (f *boxFlags) checkToolchains(foreign bool) error {
	if choice := f.Text("toolchains"); foreign && choice != "" && choice != toolchainsNone {
		return runtime.Errorf(runtime.ErrInvalid, "--toolchains %s: the host's toolchains need the host's system: leave out --image and --rootfs, or show directories with --mount", choice)
	}
	return nil
}

// addToolchains adds the toolchains to c, which has everything else already. With none there are
// none, unless the flag names them.
func (f *boxFlags) addToolchains(a *app, c *runtime.SandboxConfig, none bool) error {
	choice := f.Text("toolchains")
	if choice == "" && !none {
		choice = toolchainsAuto
	}
	if choice == "" || choice == toolchainsNone {
		return nil
	}
	found, err := a.toolchains(c)
	if err != nil {
		return err
	}
	if choice != toolchainsAuto {
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
		return toolchainsNone
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
		hides := toolchain.Within(taken[0], m.Target)
		if !hides && !slices.ContainsFunc(taken, func(t string) bool { return toolchain.Within(m.Target, t) }) {
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

// toolchains finds what of the caller's PATH a sandbox of c may be shown.
func (a *app) toolchains(c *runtime.SandboxConfig) (*toolchain.Found, error) {
	home, err := os.UserHomeDir()
	if err != nil {
		home = ""
	}
	h := &toolchain.Host{FS: toolchain.HostFS(), Path: os.Getenv("PATH"), Home: home, Getenv: os.Getenv}
	state := a.stateDir
	if state == "" {
		if state, err = statedir.Default(os.Getenv, os.Geteuid()); err != nil {
			return nil, err
		}
	}
	h.Apart = append(h.Apart, resolved(state))
	codebase := ""
	if c.CodebasePath != "" {
		codebase = resolved(c.CodebasePath)
		h.Apart = append(h.Apart, codebase)
		if point := c.MountPointOrDefault(); resolved(point) == codebase {
			h.Inside = append(h.Inside, point)
		}
	}
	for _, m := range c.Mounts {
		if m.Source == m.Target {
			h.Inside = append(h.Inside, m.Target)
		}
	}
	uid, gid, err := local.UserOf(codebase)
	if errors.Is(err, fs.ErrNotExist) {
		return &toolchain.Found{}, nil // Create reports it
	}
	if err != nil {
		return nil, err
	}
	if h.Readable = readable; uid != os.Geteuid() {
		h.Readable = func(path string) bool { return readableBy(path, uid, gid) }
	}
	return toolchain.Find(h), nil
}

// resolved returns a path without symbolic links as far as it exists.
func resolved(path string) string {
	abs, err := filepath.Abs(path)
	if err != nil {
		return path
	}
	if real, err := filepath.EvalSymlinks(abs); err == nil {
		return real
	}
	if abs == "/" {
		return abs
	}
	return filepath.Join(resolved(filepath.Dir(abs)), filepath.Base(abs))
}

// readable reports whether the caller may read a file, or list and enter a directory.
func readable(path string) bool {
	if unix.Access(path, unix.R_OK|unix.X_OK) == nil { // one call for most
		return true
	}
	return unix.Access(path, unix.R_OK) == nil && (unix.Access(path+"/.", unix.X_OK) == nil || errors.Is(unix.Access(path+"/.", unix.X_OK), unix.ENOTDIR))
}

// readableBy is readable for another user, by the modes alone: an access control list counts
// as a refusal.
func readableBy(path string, uid, gid int) bool {
	need := uint32(0o5)
	for at := path; ; at = filepath.Dir(at) {
		var st unix.Stat_t
		if unix.Stat(at, &st) != nil {
			return false
		}
		if at == path && st.Mode&unix.S_IFMT != unix.S_IFDIR {
			need = 0o4
		}
		mode := st.Mode
		switch {
		case int(st.Uid) == uid:
			mode >>= 6
		case int(st.Gid) == gid:
			mode >>= 3
		}
		if mode&need != need {
			return false
		}
		if at == "/" {
			return true
		}
		need = 0o1
	}
}

// toolchainResults is what doctor says of PATH: an entry for each toolchain, and one for what
// is left out of it.
func toolchainResults(found *toolchain.Found) []probe.Result {
	var all []probe.Result
	for i := range found.Toolchains {
		t := &found.Toolchains[i]
		var shown []string
		for _, m := range t.Mounts {
			shown = append(shown, m.Target)
		}
		r := probe.Result{Feature: "toolchain", OK: true, Found: t.Name + ": " + strings.Join(t.Dirs, ":"), Allows: "--toolchains " + t.Name}
		if len(shown) > 0 {
			r.Allows += ", which shows " + strings.Join(shown, ", ")
		}
		all = append(all, r)
	}
	for _, l := range found.Left {
		all = append(all, probe.Result{Feature: "toolchain", Found: fmt.Sprintf("%q of PATH is left out", l.Dir), Problem: l.Reason})
	}
	return all
}
