package host

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"wolffia/local/defaults"
	"wolffia/runtime"
	"wolffia/toolchain"
)

// Toolchains finds what of the caller's PATH a sandbox of c may be shown.
func (h *Host) Toolchains(c *runtime.SandboxConfig) (*toolchain.Found, error) {
	home, err := os.UserHomeDir()
	if err != nil {
		home = ""
	}
	p := &toolchain.Host{FS: toolchain.HostFS(), Path: os.Getenv("PATH"), Home: home, Getenv: os.Getenv}
	state, err := h.StatePath()
	if err != nil {
		return nil, err
	}
	p.Apart = append(p.Apart, resolved(state))
	codebase := ""
	if c.CodebasePath != "" {
		codebase = resolved(c.CodebasePath)
		p.Apart = append(p.Apart, codebase)
		if point := c.MountPointOrDefault(); resolved(point) == codebase {
			p.Inside = append(p.Inside, point)
		}
		p.Inside = append(p.Inside, c.CodebaseNames...)
	}
	for _, m := range c.Mounts {
		if m.Source == m.Target {
			p.Inside = append(p.Inside, m.Target)
		}
	}
	uid, gid, err := defaults.UserOf(codebase)
	if errors.Is(err, fs.ErrNotExist) {
		return &toolchain.Found{}, nil // Create reports it
	}
	if err != nil {
		return nil, err
	}
	if p.Readable = readable; uid != os.Geteuid() {
		p.Readable = func(path string) bool { return readableBy(path, uid, gid) }
	}
	return toolchain.Find(p), nil
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
