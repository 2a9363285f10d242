package runtime

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"wolffia/network"
	"wolffia/perm"
)

// Character sets, not regular expressions, which cost each start of a program half a
// millisecond.
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

// reserved are the places inside that a mount must not cover: a sandbox cannot work without
// them, or has its own parts there.
var reserved = []string{"/", "/proc", "/dev", "/etc", "/usr", "/bin", "/sbin", "/lib", "/lib64", "/run/wolffia", "/sys"}

// ownEtc are the names in /etc that a mount must not cover either: wolffia writes these files,
// or programs need them to start. Others may be mounted, such as /etc/npmrc.
var ownEtc = []string{"passwd", "group", "hosts", "hostname", "resolv.conf", "nsswitch.conf", "ld.so.cache", "ld.so.conf", "ld.so.preload", "mtab"}

// A problem is how a check reports one.
type problem func(format string, args ...any)

// checks are what Validate checks.
var checks = []func(*SandboxConfig, problem){
	checkNames, checkPlaces, checkVolumes, checkImage, checkResources, checkReach, checkPorts, checkLifetimes, checkAsk, checkText, checkGit, checkGitDirs, checkPairs, checkPermissions, checkFilter,
}

// Validate checks what can be checked without looking at the host. The error names
// everything that is wrong, and is of class [ErrInvalid].
func (c *SandboxConfig) Validate() error {
	var wrong []error
	for _, check := range checks {
		check(c, func(format string, args ...any) { wrong = append(wrong, fmt.Errorf(format, args...)) })
	}
	if len(wrong) == 0 {
		return nil
	}
	return WithClass(ErrInvalid, errors.Join(wrong...))
}

func checkNames(c *SandboxConfig, bad problem) {
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
}

// checkPlaces checks where directories appear inside, and how they are named on the host.
func checkPlaces(c *SandboxConfig, bad problem) {
	const mountPoint = "mount point"
	taken := map[string]string{}
	place := func(what, target string) {
		switch {
		case !cleanAbs(target):
			bad("%s %q: it must be an absolute path without . and .. parts", what, target)
		case covers(target), what == mountPoint && strings.HasPrefix(target, "/etc/"):
			bad("%s %q: the sandbox needs that place itself", what, target)
		case taken[target] != "":
			bad("%s %q: the %s is there already", what, target, taken[target])
		}
		taken[target] = what
	}
	place(mountPoint, c.MountPointOrDefault())
	for _, name := range c.CodebaseNames {
		if place("name of the codebase", name); c.CodebasePath == "" || c.Image != "" || c.ImageID != "" || c.Rootfs != "" {
			bad("name of the codebase %q: it needs a codebase, and the host's system", name)
		}
	}
	for _, m := range c.Mounts {
		if !cleanAbs(m.Source) {
			bad("mount source %q: it must be an absolute path", m.Source)
		}
		place("mount", m.Target)
	}
	for _, v := range c.Volumes {
		target := v.Target
		if target == "~" || strings.HasPrefix(target, "~/") {
			target = "/home/~" + target[1:] // "~" is not a user's name
		}
		place("volume", target)
	}
	if c.Cwd != "" && !path.IsAbs(c.Cwd) {
		bad("working directory %q: it must be an absolute path inside the sandbox", c.Cwd)
	}
}

// checkVolumes checks what volumes are called.
func checkVolumes(c *SandboxConfig, bad problem) {
	for _, v := range c.Volumes {
		switch {
		case v.Name == "" && (v.Cache == "" || c.CodebasePath == ""):
			bad("volume at %q: it has no name: only a cache of a codebase can be without", v.Target)
		case v.Name != "" && !IsVolumeName(v.Name):
			bad("volume %q: a name is up to 63 letters, digits, dots, dashes and underscores, and begins with a letter or digit", v.Name)
		case v.Cache == "" && strings.HasPrefix(v.Name, CachePrefix):
			bad("volume %q: names that begin with %s are those of caches: use --cache, or another name", v.Name, CachePrefix)
		case v.Key != "" && v.Cache == "":
			bad("volume %q: it has a key: only a cache can have one", v.Target)
		case len(v.Key) > 64 || !only(v.Key, "abcdef"+digits):
			bad("cache %q: its key is up to 64 of 0-9 and a-f", v.Cache)
		case len(v.Cache) > 20 || !only(v.Cache, lower+"-"):
			bad("cache %q: it is up to 20 of a-z and dashes", v.Cache)
		}
	}
}

// CachePrefix begins the names of volumes that are caches, and of no others.
const CachePrefix = "cache-"

// IsVolumeName reports whether a volume can have the name: up to 63 of [a-zA-Z0-9._-], the
// first a letter or digit.
func IsVolumeName(s string) bool { return isName(s) }

// IsUserName reports whether a user's name needs no quoting in a path and in a line of passwd(5).
func IsUserName(s string) bool {
	return s != "" && len(s) <= 32 && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789_-") == "" && s[0] != '-'
}

func checkImage(c *SandboxConfig, bad problem) {
	if c.Rootfs != "" && (c.Image != "" || c.ImageID != "") {
		bad("root file system %q and image %q: it can be only one of them", c.Rootfs, c.Image)
	}
	if c.Root && c.Rootfs != "" {
		bad("root inside and root file system %q, which is read-only: use an image", c.Rootfs)
	}
	if c.RunAs != "" && !c.Root {
		bad("user %q: commands run as your user, except with root inside (--root)", c.RunAs)
	}
	if c.UserName != "" && (c.Root || !IsUserName(c.UserName) || c.UserName == "root" || c.UserName == "nobody") {
		bad("user name %q: it is of at most 32 lower-case letters, digits, _ and -, and not of root or nobody; with root inside the image has the users", c.UserName)
	}
	if strings.ContainsRune(c.RunAs, 0) {
		bad("user %q: a name has no NUL", c.RunAs)
	}
	if h, ok := strings.CutPrefix(c.ImageID, "sha256:"); c.ImageID != "" && !(ok && len(h) == 64 && only(h, "abcdef"+digits)) {
		bad("image id %q: it is sha256: and 64 of 0-9 and a-f", c.ImageID)
	}
}

func checkResources(c *SandboxConfig, bad problem) {
	r := &c.Resources
	switch {
	case r.Disk < 0:
		bad("disk %d: it must be a number of bytes", r.Disk)
	case r.Disk > 0 && c.CodebasePath == "":
		bad("disk %d: it limits what is added to a codebase, and the sandbox has none", r.Disk)
	}
	if r.Memory != 0 && r.Memory < minMemory {
		bad("memory %d: it must be at least %d bytes (%dm): PID 1 needs some itself", r.Memory, minMemory, minMemory>>20)
	}
	if !(r.CPUs == 0 || r.CPUs >= 0.01 && r.CPUs <= 1e6) {
		bad("cpus %v: it must be a number of processors from 0.01 on", r.CPUs)
	}
	if r.PIDs < 0 || r.PIDs > 1<<22 { // the kernel's PID_MAX_LIMIT
		bad("pids %d: it must be from 1 to 4194304", r.PIDs)
	}
}

// checkReach checks the network and the engine.
func checkReach(c *SandboxConfig, bad problem) {
	switch c.Network {
	case "", NetworkNone, NetworkFiltered, NetworkHost:
	default:
		bad("network %q: it can be %q, %q or %q", c.Network, NetworkNone, NetworkFiltered, NetworkHost)
	}
	if c.Egress != nil {
		if c.Network != NetworkFiltered {
			bad("egress: the sandbox has network %q, which no names filter: use network %q, or leave egress out", cmp.Or(c.Network, NetworkNone), NetworkFiltered)
		}
		if err := CheckEgress(c.Egress); err != nil {
			bad("%w", err)
		}
	}
	if c.Kubernetes != nil && c.Runtime != "kubernetes" {
		bad("runtime %q has no cluster: use runtime kubernetes, or leave its settings out", c.Runtime)
	}
	if d := c.Docker; d != nil && d.Host != "" {
		if path, ok := strings.CutPrefix(d.Host, "unix://"); !ok || !cleanAbs(path) || !utf8.ValidString(path) {
			bad("engine %q: it must be unix:///PATH, a socket on this host: directories are shown to it by their paths", d.Host)
		}
	}
}

// MaxEgress bounds a policy of names, in bytes of JSON.
const MaxEgress = 256 << 10

// CheckEgress returns why a sandbox cannot have a policy of names, or nil. The error is of
// class [ErrInvalid].
func CheckEgress(p *network.Policy) error {
	if _, err := p.Compile(); err != nil {
		return WithClass(ErrInvalid, err)
	}
	for _, h := range p.Headers {
		if !cleanAbs(h.File) || !utf8.ValidString(h.File) {
			return Errorf(ErrInvalid, "header %s of %s: file %q: it must be an absolute path of UTF-8 without . and .. parts", h.Header, h.Name, h.File)
		}
	}
	if text, err := json.Marshal(p); err != nil || len(text) > MaxEgress {
		return Errorf(ErrInvalid, "the names of the network: they have more than %d bytes as JSON: use *.DOMAIN for many names of one domain", MaxEgress)
	}
	return nil
}

func checkLifetimes(c *SandboxConfig, bad problem) {
	if err := CheckLifetime(c.TTL); err != nil {
		bad("time to live %w", err)
	}
	if err := CheckLifetime(c.IdleTimeout); err != nil {
		bad("idle timeout %w", err)
	}
	switch a := c.IdleAction; a {
	case "":
	case IdleDestroy, IdleStop, IdlePause, IdleHibernate:
		if c.IdleTimeout == 0 {
			bad("idle action %s: it needs an idle timeout", a)
		}
	default:
		bad("idle action %q: it must be destroy, stop, pause or hibernate", a)
	}
}

func checkAsk(c *SandboxConfig, bad problem) {
	for _, kind := range c.Ask {
		switch {
		case !slices.Contains(AskKinds(), kind):
			bad("ask %q: it must be network, write or reveal", kind)
		case kind == AskNetwork && c.Network != NetworkFiltered:
			bad("ask network: it needs a filtered network")
		case kind != AskNetwork && c.Filter == FilterStatic:
			bad("ask %s: filter %s cannot hold an access: use filter %s", kind, c.Filter, FilterFuse)
		}
	}
	if c.AskLimit < 0 || c.AskLimit > MaxAskLimit {
		bad("ask limit %v: it must be at most %v", c.AskLimit, MaxAskLimit)
	}
}

// checkText checks that what is recorded is UTF-8: the record is JSON, which cannot hold
// other bytes.
func checkText(c *SandboxConfig, bad problem) {
	texts := append([]string{c.CodebaseID, c.CodebasePath, c.Rootfs, c.Image, c.Cwd, c.MountPointOrDefault()}, c.CodebaseNames...)
	for _, m := range c.Mounts {
		texts = append(texts, m.Source, m.Target)
	}
	for _, v := range c.Volumes {
		texts = append(texts, v.Target)
	}
	for _, s := range texts {
		if !utf8.ValidString(s) {
			bad("%q: it must be UTF-8", s)
		}
	}
}

// checkGit checks the configuration of git.
func checkGit(c *SandboxConfig, bad problem) {
	if c.Git == nil {
		return
	}
	size := 0
	text := func(what, text string) {
		if size += len(text); !utf8.ValidString(text) || strings.ContainsRune(text, 0) {
			bad("git %s: it must be UTF-8 without NUL", what)
		}
	}
	text("configuration", c.Git.Config)
	text("list of ignored files", c.Git.Ignore)
	for name, content := range c.Git.Files {
		text("file "+strconv.Quote(name), content)
		if n, err := strconv.Atoi(name); err != nil || n < 1 || n > maxGitFiles || strconv.Itoa(n) != name {
			bad("git file %q: its name must be a number from 1 to %d", name, maxGitFiles)
		}
	}
	if size > maxGitText {
		bad("git configuration: with its files it must be up to %d bytes", maxGitText)
	}
}

// Of a GitConfig.
const (
	maxGitFiles = 64
	maxGitText  = 512 << 10
)

// checkPairs checks labels and variables.
func checkPairs(c *SandboxConfig, bad problem) {
	if err := CheckLabels(c.Labels); err != nil {
		bad("%w", err)
	}
	for k, v := range c.Env {
		if err := CheckVariable(k, v); err != nil {
			bad("%w", err)
		}
	}
}

// CheckLabels returns why a sandbox cannot have labels, or nil. The error is of class
// [ErrInvalid].
func CheckLabels(labels map[string]string) error {
	for _, k := range slices.Sorted(maps.Keys(labels)) {
		switch v := labels[k]; {
		case k == "" || len(k) > 255 || len(v) > 4096 || strings.ContainsRune(k+v, 0):
			return Errorf(ErrInvalid, "label %q: a key has 1 to 255 bytes, a value up to 4096, neither a NUL", k)
		case !utf8.ValidString(k + v):
			return Errorf(ErrInvalid, "label %q: it must be UTF-8", k)
		}
	}
	return nil
}

// CheckVariable returns why a sandbox cannot have an environment variable, or nil. The
// error is of class [ErrInvalid].
func CheckVariable(name, value string) error {
	switch {
	case !isVariable(name) || strings.ContainsRune(value, 0):
		return Errorf(ErrInvalid, "variable %q: a name has letters, digits and underscores, a value no NUL", name)
	case !utf8.ValidString(value):
		return Errorf(ErrInvalid, "variable %q: value %q must be UTF-8", name, value)
	}
	return nil
}

// CheckEnv returns why variables cannot be in the environment of a command, or nil. The error is
// of class [ErrInvalid]. Other bytes than these are the program's affair.
func CheckEnv(env map[string]string) error {
	for k, v := range env {
		if k == "" || strings.ContainsAny(k, "=\x00") || strings.Contains(v, "\x00") {
			return Errorf(ErrInvalid, "variable %q: a name is not empty and has no '=', and neither a name nor a value has a NUL", k)
		}
	}
	return nil
}

func checkPermissions(c *SandboxConfig, bad problem) {
	if err := perm.Check(c.Permissions); err != nil {
		bad("%w", err)
	}
}

// minMemory is less than PID 1 and a shell need, in bytes.
const minMemory = 16 << 20

// Limited reports whether Memory, CPUs or PIDs is limited.
func (r *Resources) Limited() bool { return r.Memory != 0 || r.CPUs != 0 || r.PIDs != 0 }

// MountPointOrDefault returns where the codebase is inside.
func (c *SandboxConfig) MountPointOrDefault() string {
	if c.MountPoint == "" {
		return DefaultMountPoint
	}
	return c.MountPoint
}

func cleanAbs(p string) bool {
	return path.IsAbs(p) && path.Clean(p) == p && !strings.ContainsRune(p, 0)
}

// CanMountAt reports whether a [Mount] can appear at target inside: it is
// an absolute, clean path of UTF-8, and the sandbox does not need the place itself.
func CanMountAt(target string) bool {
	return cleanAbs(target) && utf8.ValidString(target) && !covers(target)
}

// covers reports whether a mount at target hides a reserved place, or lies in one.
func covers(target string) bool {
	if name, in := strings.CutPrefix(target, "/etc/"); in {
		name, _, _ = strings.Cut(name, "/")
		return slices.Contains(ownEtc, name)
	}
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
