// Package hint says why a command in a sandbox has failed, if the sandbox is the reason.
package hint

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"wolffia/cmd/wolffia/internal/console"
	"wolffia/cmd/wolffia/internal/host"
	"wolffia/cmd/wolffia/internal/hostdir"
	"wolffia/internal/pathname"
	"wolffia/local"
	"wolffia/ops"
	"wolffia/perm"
	"wolffia/runtime"
	"wolffia/toolchain"
)

// A startDiagnosis explains why a command did not start. It has the sandbox's configuration, and
// the host around it.
type startDiagnosis struct {
	config *runtime.SandboxConfig
	create bool   // the flags of this command line describe the sandbox
	here   string // the caller's current directory; empty if that was removed
	homes  []string
	// On the host: find returns the program of a name in PATH, or an empty string; exists
	// reports whether a path exists; real resolves symbolic links.
	find   func(name string) string
	exists func(path string) bool
	real   func(path string) string
	// toolchain reports whether --toolchains auto shows the directory of programs.
	toolchain func(dir string) bool
}

// defaultPath is PATH inside.
const defaultPath = "/usr/local/bin:/usr/bin:/bin"

// Explain returns err with a reason why a command did not start, if the reason is how the
// sandbox was made.
func Explain(ctx context.Context, h *host.Host, rt *local.Runtime, id string, create bool, spec *runtime.Command, err error) error {
	failed, ok := errors.AsType[*runtime.StartError](err)
	if !ok || spec.Session != "" {
		return err
	}
	info, unknown := rt.Inspect(ctx, id)
	if unknown != nil {
		return err
	}
	here, _ := hostdir.Current()
	s := &startDiagnosis{
		config: &info.Config, create: create, here: here, homes: hostdir.Homes(here),
		find: func(name string) string {
			p, err := exec.LookPath(name)
			if err != nil || !filepath.IsAbs(p) {
				return ""
			}
			return p
		},
		exists: func(path string) bool { _, err := os.Lstat(path); return err == nil },
		real: func(path string) string {
			real, _ := filepath.EvalSymlinks(path)
			return cmp.Or(real, path)
		},
		toolchain: func(dir string) bool {
			found, err := h.Toolchains(&info.Config)
			return err == nil && slices.ContainsFunc(found.Toolchains, func(t toolchain.Toolchain) bool { return slices.Contains(t.Dirs, dir) })
		},
	}
	if why := s.reason(spec, failed); why != "" {
		return &runtime.StartError{Code: failed.Code, Message: failed.Message + why}
	}
	return err
}

// reason returns what follows the message of a command that did not start; empty if the
// sandbox is not the reason.
func (s *startDiagnosis) reason(spec *runtime.Command, failed *runtime.StartError) string {
	dir := cmp.Or(s.config.Cwd, s.config.MountPointOrDefault())
	if dir = hostdir.Inside(cmp.Or(spec.Cwd, dir), dir); strings.Contains(failed.Message, "working directory") {
		return s.missing(dir, true)
	}
	if len(spec.Command) == 0 {
		return ""
	}
	name := spec.Command[0]
	refused := ops.KernelHint(failed.Message, func() bool { return s.config.Root })
	variable, _, assigns := strings.Cut(name, "=")
	switch {
	case failed.Code == 127 && assigns && runtime.CheckVariable(variable, "") == nil:
		return ": no shell reads it: use -e " + variable + "=VALUE, or sh -c '...'"
	case failed.Code == 127 && slices.Contains(builtins, name):
		return ": it is a command of the shell itself: use sh -c '...'"
	case failed.Code == 127 && refused != "":
		return ": " + refused
	case len(spec.Command) == 1 && strings.ContainsAny(name, " \t\n;&|<>$"):
		if s.create {
			return ": no shell reads it: use sh -c '...'"
		}
		return ": no shell reads it: use sh -c '...' or --session NAME"
	case failed.Code == 127 && s.create && isImage(name) && s.find(name) == "":
		return ": " + noImage + "write " + asImage(spec.Command)
	case strings.Contains(name, "/"):
		if name = hostdir.Inside(name, dir); failed.Code == 126 && !pathname.Within(name, s.config.MountPointOrDefault()) {
			return "" // it exists
		}
		return s.missing(name, false)
	case failed.Code != 127 || s.foreign():
		return ""
	}
	if found := s.find(name); found != "" {
		return s.inPathOnHost(found, cmp.Or(spec.Env["PATH"], s.config.Env["PATH"], defaultPath))
	}
	return ""
}

// builtins are commands that only a shell has, since they change the shell.
var builtins = []string{".", "alias", "cd", "eval", "exec", "export", "popd", "pushd", "set", "shopt", "source", "ulimit", "umask", "unset"}

// foreign reports whether the sandbox does not run on the host's system directories.
func (s *startDiagnosis) foreign() bool {
	return s.config.Rootfs != "" || s.config.Image != "" || s.config.ImageID != ""
}

// missing returns the reason why a path inside does not exist or cannot be used.
func (s *startDiagnosis) missing(name string, dir bool) string {
	c, name := s.config, path.Clean(name)
	if rest, below := strings.CutPrefix(name, c.MountPointOrDefault()+"/"); below {
		if slices.ContainsFunc(c.Mounts, func(m runtime.Mount) bool { return pathname.Within(name, m.Target) }) {
			return ""
		}
		if c.CodebasePath == "" {
			if s.here == "" || !s.exists(path.Join(s.here, rest)) {
				return ""
			}
			return s.noCodebase()
		}
		return s.hidden(rest, dir)
	}
	if s.foreign() || s.shown(name) || !s.exists(name) {
		return ""
	}
	if c.CodebasePath == "" && s.here != "" && pathname.Within(s.real(name), s.here) {
		return s.noCodebase()
	}
	if c.CodebasePath != "" && pathname.Within(s.real(name), c.CodebasePath) {
		return fmt.Sprintf(": the codebase appears at %s inside", c.MountPointOrDefault())
	}
	if !dir {
		name = path.Dir(name)
	}
	return fmt.Sprintf(" inside: it is on the host, and the sandbox does not show it%s", s.remedy(name, ""))
}

// hidden returns how the rules hide a path of the codebase; empty if they do not.
func (s *startDiagnosis) hidden(rel string, dir bool) string {
	rules, err := perm.Compile(s.config.Permissions)
	if err != nil || !s.exists(path.Join(s.config.CodebasePath, rel)) {
		return ""
	}
	e := rules.Explain(rel, dir)
	if e.Level >= perm.Read {
		return ""
	}
	why := fmt.Sprintf(": the rules give it %v, and the host has it", e.Level)
	if remedy := e.Remedy(perm.Read); remedy != "" {
		why += ": " + s.with(remedy)
	}
	return why
}

// inPathOnHost returns the reason if the program is in the host's PATH, at found, and the PATH
// inside, inPath, does not lead to it.
func (s *startDiagnosis) inPathOnHost(found, inPath string) string {
	real := s.real(found)
	_, named := s.config.Env["PATH"]
	switch at := path.Dir(real); {
	case s.shown(real) && !named && s.toolchain(path.Dir(found)):
		return fmt.Sprintf(" inside: it is %s, and %s is not in PATH there: %s", found, path.Dir(found), s.with("--toolchains auto"))
	case s.shown(real):
		return fmt.Sprintf(" inside: it is %s, and %s is not in PATH there: add -e PATH=%s:%s", real, at, at, inPath)
	case s.toolchain(path.Dir(found)):
		return fmt.Sprintf(" inside: it is %s on the host, which the sandbox does not show: %s", found, s.with("--toolchains auto"))
	default:
		return fmt.Sprintf(" inside: it is %s on the host, which the sandbox does not show%s", found, s.remedy(toolDir(real, s.homes), at+":"+inPath))
	}
}

// shown reports whether a path of the host appears at the same path inside.
func (s *startDiagnosis) shown(name string) bool {
	c := s.config
	places := []string{"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/nix/store", "/gnu/store"}
	if c.MountPoint == c.CodebasePath {
		places = append(places, c.CodebasePath)
	}
	for _, m := range c.Mounts {
		if m.Source == m.Target {
			places = append(places, m.Source)
		}
	}
	return slices.ContainsFunc(places, func(place string) bool { return pathname.Within(name, place) })
}

// toolDir returns the directory that a program needs: that above its bin, unless others
// share it.
func toolDir(program string, homes []string) string {
	dir := path.Dir(program)
	if above := path.Dir(dir); path.Base(dir) == "bin" && hostdir.NotByDefault(above, homes) == nil {
		return above
	}
	return dir
}

// remedy says how to have a directory of the host shown, and found in PATH if inPath is
// not empty.
func (s *startDiagnosis) remedy(dir, inPath string) string {
	if c := s.config.CodebasePath; c != "" && (pathname.Within(s.real(dir), c) || pathname.Within(c, s.real(dir))) {
		return "" // a mount would show the codebase without its rules
	}
	if !runtime.CanMountAt(dir) || hostdir.NotByDefault(dir, s.homes) != nil && !strings.HasSuffix(dir, "/bin") {
		return ""
	}
	flags := "--mount " + dir
	if inPath != "" {
		flags += " -e PATH=" + inPath
	}
	return ": " + s.with(flags)
}

// with says to create the sandbox with flags.
func (s *startDiagnosis) with(flags string) string {
	if s.create {
		return "add " + flags
	}
	return "create the sandbox with " + flags
}

// noCodebase says that the sandbox has no codebase, and how the user creates one that has.
func (s *startDiagnosis) noCodebase() string {
	if s.create {
		return ": the sandbox has no codebase: leave --no-codebase out"
	}
	return ": the sandbox has no codebase: create the sandbox without --no-codebase"
}

// WarnNoCodebase says that a command may have failed since a sandbox has no codebase.
func WarnNoCodebase(con *console.Console, c *runtime.SandboxConfig, err error) {
	if status, ok := errors.AsType[console.ExitStatus](err); c.CodebasePath == "" && c.Image == "" && ok && (status == 126 || status == 127) {
		con.Warn("the command failed with exit code %d, and the sandbox has no codebase: leave --no-codebase out to show the current directory", int(status))
	}
}
