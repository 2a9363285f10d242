package runtime

import (
	"errors"
	"fmt"
	"path"
	"strings"
	"time"
	"unicode/utf8"

	"wolffia/perm"
)

// Regular expressions would say the same, and cost every start of the program
// half a millisecond.
const (
	lower   = "abcdefghijklmnopqrstuvwxyz"
	upper   = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	digits  = "0123456789"
	letters = lower + upper
)

// IsID reports whether s has the form of a sandbox id: twelve of [a-z0-9].
func IsID(s string) bool { return len(s) == 12 && only(s, lower+digits) }

// isName reports whether s is [a-zA-Z0-9][a-zA-Z0-9._-]{0,62}.
func isName(s string) bool {
	return 0 < len(s) && len(s) <= 63 && only(s[:1], letters+digits) && only(s, letters+digits+"._-")
}

// isVariable reports whether s is [a-zA-Z_][a-zA-Z0-9_]*.
func isVariable(s string) bool {
	return s != "" && only(s[:1], letters+"_") && only(s, letters+digits+"_")
}

// only reports whether s has no other bytes than those of set.
func only(s, set string) bool { return strings.Trim(s, set) == "" }

// reserved are the places inside that a mount must not cover: what a sandbox
// cannot be without, and where its own parts are.
var reserved = []string{"/", "/proc", "/dev", "/etc", "/usr", "/bin", "/sbin", "/lib", "/lib64", "/run/wolffia", "/sys"}

// Validate checks what can be checked without looking at the host, and names
// everything that is wrong. The error is of class [ErrInvalid].
func (c *SandboxConfig) Validate() error {
	var wrong []error
	bad := func(format string, args ...any) { wrong = append(wrong, fmt.Errorf(format, args...)) }
	if c.ID != "" && !IsID(c.ID) {
		bad("id %q: an id is twelve of a-z and 0-9", c.ID)
	}
	switch {
	case c.Name == "":
	case IsID(c.Name):
		bad("name %q: a name must not look like an id (twelve of a-z and 0-9)", c.Name)
	case !isName(c.Name):
		bad("name %q: a name is up to 63 letters, digits, dots, dashes and underscores, and begins with a letter or digit", c.Name)
	}
	if c.Network != "" && c.Network != NetworkNone && c.Network != NetworkHost {
		bad("network %q: it can be %q or %q", c.Network, NetworkNone, NetworkHost)
	}
	places := map[string]string{}
	place := func(what, target string) {
		switch {
		case !cleanAbs(target):
			bad("%s %q: it must be an absolute path without . and .. parts", what, target)
		case covers(target):
			bad("%s %q: the sandbox needs that place itself", what, target)
		case places[target] != "":
			bad("%s %q: the %s is there already", what, target, places[target])
		}
		places[target] = what
	}
	place("mount point", c.MountPointOrDefault())
	for _, m := range c.Mounts {
		if !cleanAbs(m.Source) {
			bad("mount source %q: it must be an absolute path", m.Source)
		}
		place("mount", m.Target)
	}
	if c.Cwd != "" && !path.IsAbs(c.Cwd) {
		bad("working directory %q: it must be an absolute path inside the sandbox", c.Cwd)
	}
	if c.Rootfs != "" && (c.Image != "" || c.ImageID != "") {
		bad("root file system %q and image %q: it can be only one of them", c.Rootfs, c.Image)
	}
	if h, ok := strings.CutPrefix(c.ImageID, "sha256:"); c.ImageID != "" && !(ok && len(h) == 64 && only(h, "abcdef"+digits)) {
		bad("image id %q: it is sha256: and 64 of 0-9 and a-f", c.ImageID)
	}
	switch {
	case c.Resources.Disk < 0:
		bad("disk %d: it must be a number of bytes", c.Resources.Disk)
	case c.Resources.Disk > 0 && c.CodebasePath == "":
		bad("disk %d: it limits what is added to a codebase, and there is none", c.Resources.Disk)
	}
	for _, wrong := range c.Resources.invalid() {
		bad("%s", wrong)
	}
	if d := c.Docker; d != nil && d.Host != "" {
		if path, ok := strings.CutPrefix(d.Host, "unix://"); !ok || !cleanAbs(path) || !utf8.ValidString(path) {
			bad("engine %q: it must be unix:///PATH, a socket on this host: directories are shown to it by their paths", d.Host)
		}
	}
	for what, d := range map[string]time.Duration{"time to live": c.TTL, "idle timeout": c.IdleTimeout} {
		if wrong := CheckLifetime(d); wrong != nil {
			bad("%s %w", what, wrong)
		}
	}
	// All of it is kept as JSON, which cannot hold other bytes.
	stored := []string{c.CodebaseID, c.CodebasePath, c.Rootfs, c.Image, c.Cwd, c.MountPointOrDefault()}
	for _, m := range c.Mounts {
		stored = append(stored, m.Source, m.Target)
	}
	for _, vars := range []map[string]string{c.Labels, c.Env} {
		for k, v := range vars {
			stored = append(stored, k, v)
		}
	}
	for _, s := range stored {
		if !utf8.ValidString(s) {
			bad("%q: it must be UTF-8", s)
		}
	}
	for k, v := range c.Labels {
		if k == "" || len(k) > 255 || len(v) > 4096 || strings.ContainsRune(k+v, 0) {
			bad("label %q: a key has 1 to 255 bytes, a value up to 4096, neither a NUL", k)
		}
	}
	for k, v := range c.Env {
		if !isVariable(k) || strings.ContainsRune(v, 0) {
			bad("variable %q: a name has letters, digits and underscores, a value no NUL", k)
		}
	}
	if err := perm.Check(c.Permissions); err != nil {
		wrong = append(wrong, err)
	}
	if len(wrong) == 0 {
		return nil
	}
	return WithClass(ErrInvalid, errors.Join(wrong...))
}

// invalid says what is wrong with limits.
func (r *Resources) invalid() (wrong []string) {
	if r.Memory != 0 && r.Memory < minMemory {
		wrong = append(wrong, fmt.Sprintf("memory %d: it must be at least %d bytes: PID 1 needs some itself", r.Memory, minMemory))
	}
	if !(r.CPUs == 0 || r.CPUs >= 0.01 && r.CPUs <= 1e6) {
		wrong = append(wrong, fmt.Sprintf("cpus %v: it must be a number of processors from 0.01 on", r.CPUs))
	}
	if r.PIDs < 0 || r.PIDs > 1<<22 { // the kernel's PID_MAX_LIMIT
		wrong = append(wrong, fmt.Sprintf("pids %d: it must be from 1 to 4194304", r.PIDs))
	}
	return wrong
}

// minMemory is less than PID 1 and a shell need, in bytes.
const minMemory = 16 << 20

// Limited reports whether there is a limit on what a program uses of the
// machine, disk aside.
func (r *Resources) Limited() bool { return r.Memory != 0 || r.CPUs != 0 || r.PIDs != 0 }

// MountPointOrDefault is where the codebase is inside.
func (c *SandboxConfig) MountPointOrDefault() string {
	if c.MountPoint == "" {
		return DefaultMountPoint
	}
	return c.MountPoint
}

func cleanAbs(p string) bool {
	return path.IsAbs(p) && path.Clean(p) == p && !strings.ContainsRune(p, 0)
}

// covers reports whether something mounted at target hides a reserved place,
// or lies in one that is not ours to change.
func covers(target string) bool {
	for _, r := range reserved {
		if target == r || strings.HasPrefix(r, target+"/") {
			return true
		}
		if r != "/" && strings.HasPrefix(target, r+"/") {
			return true
		}
	}
	return false
}
