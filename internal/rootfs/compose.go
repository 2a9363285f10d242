// Package rootfs composes what a sandbox sees beside its codebase. That is the root
// directory, /etc, an image with the sandbox's changes over it, and what covers parts of
// the host.
package rootfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"wolffia/internal/boot"
	"wolffia/internal/seccomp"
	"wolffia/internal/statedir"
	"wolffia/runtime"
	"wolffia/runtime/launch"
)

// systemDirs are what programs need to run, of the host's root directory.
// Where one is a symbolic link, as on merged-/usr systems, it is one inside.
var systemDirs = []string{"usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32"}

// stores are where Nix and Guix keep what is installed. Below /nix/var is the socket of
// Nix's daemon, which builds, with a network, for everybody.
var stores = []string{"nix/store", "gnu/store"}

// ownDirs are names in a root directory that the sandbox has its own of.
var ownDirs = []string{"proc", "dev", "sys", "tmp", "run", "var", "home", "etc"}

// Of /etc only this is shown: what programs need to find libraries,
// certificates, names and their own settings, and what holds no secret. Single
// files are copied; directories are the host's, read-only.
var (
	etcFiles = []string{"ld.so.cache", "ld.so.conf", "localtime", "timezone", "services", "protocols", "mime.types", "ssl/openssl.cnf", "os-release", "debian_version"}
	etcDirs  = []string{"ssl/certs", "pki/ca-trust", "pki/tls/certs", "alternatives", "perl", "java", "java-*", "crypto-policies"}
)

const maxEtcFile = 4 << 20 // bytes; ld.so.cache has a few hundred KiB

// Compose mounts what the sandbox will see in the shim's own mount namespace,
// below b.Mnt, and says how a backend puts it together.
func Compose(b *boot.Params) (*launch.Spec, error) {
	// Nothing of ours reaches the host's namespace, nothing of the host's
	// later mounts reaches us (mount_namespaces(7)).
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return nil, fmt.Errorf("make mounts private: %w", err)
	}
	if err := unix.Mount("wolffia", b.Mnt, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0755,size=64m"); err != nil {
		return nil, fmt.Errorf("mount a tmpfs: %w", err)
	}
	spec, err := NewSpec(b)
	if err != nil {
		return nil, err
	}
	spec.Dir = filepath.Join(b.Mnt, "backend")
	if err := os.Mkdir(spec.Dir, 0o700); err != nil {
		return nil, err
	}
	if b.HasBackend {
		spec.Program = "/proc/self/fd/" + strconv.Itoa(boot.FDBackend)
	}
	if b.CopyGuest {
		spec.Guest = filepath.Join(b.Mnt, "guest")
		if err := copyGuest(spec.Guest); err != nil {
			return nil, err
		}
	}
	if spec.Covers, err = coverProc(b.Mnt); err != nil {
		return nil, fmt.Errorf("cover the host's part of /proc: %w", err)
	}
	etc := filepath.Join(b.Mnt, "etc")
	if err := ComposeRoot(b, spec, etc, func(dir string) error { return bindReadOnly("/etc/"+dir, filepath.Join(etc, dir)) }); err != nil {
		return nil, err
	}
	return spec, ComposeTree(b, spec)
}

// NewSpec is what a backend needs to know that lies nowhere.
func NewSpec(b *boot.Params) (*launch.Spec, error) {
	filter, err := seccomp.Filter()
	if err != nil {
		return nil, runtime.WithClass(runtime.ErrUnsupported, err)
	}
	c := &b.Config
	return &launch.Spec{
		ID: b.ID, Hostname: hostname(c), UID: c.UID, GID: c.GID, User: c.User, Home: Home(c),
		Guest: b.Guest, Network: c.Network, Seccomp: filter, Platform: c.Platform,
		Config: &c.SandboxConfig, Rlimits: b.Rlimits,
	}, nil
}

// ComposeTree makes the place of the tree, and shows it and what else the user
// named.
func ComposeTree(b *boot.Params, spec *launch.Spec) error {
	c := &b.Config
	if c.CodebasePath == "" {
		spec.Scratch = append(spec.Scratch, c.MountPointOrDefault())
	} else {
		spec.Binds = append(spec.Binds, runtime.Mount{Source: TreeDir(b), Target: c.MountPointOrDefault(), Writable: true})
		if err := os.Mkdir(TreeDir(b), 0o755); err != nil {
			return err
		}
	}
	mounts, err := pinMounts(b)
	if err != nil {
		return err
	}
	spec.Binds = append(spec.Binds, mounts...)
	if spec.RootDir != "" {
		if err := furnish(b, spec); err != nil {
			return runtime.WithClass(runtime.ErrUnavailable, err)
		}
	}
	return nil
}

// hostname is what the sandbox calls itself.
func hostname(c *statedir.Config) string {
	if c.Name != "" {
		return c.Name
	}
	return c.ID
}

// ComposeRoot fills in the root directory and /etc, which is put together in the
// directory etc; show shows a directory of the host's /etc there.
func ComposeRoot(b *boot.Params, spec *launch.Spec, etc string, show func(dir string) error) error {
	if b.Config.ImageID != "" {
		return composeImage(b, spec)
	}
	if err := WriteEtc(etc, &b.Config); err != nil {
		return err
	}
	if b.Config.Rootfs == "" {
		spec.Etc = etc
		var err error
		spec.Root, err = rootEntries("/", func(name string) bool { return slices.Contains(systemDirs, name) })
		if err != nil {
			return err
		}
		spec.Root = append(spec.Root, storeEntries("/")...)
		return copyEtc(etc, show)
	}
	// A root file system of its own brings its /etc; only what names the user
	// and the host is replaced, where it is there.
	root, err := rootEntries(b.Config.Rootfs, func(name string) bool {
		return name == "etc" || !slices.Contains(ownDirs, name)
	})
	if err != nil {
		return runtime.Errorf(runtime.ErrInvalid, "root file system %s: %w", b.Config.Rootfs, err)
	}
	spec.Root = root
	own, err := os.ReadDir(etc)
	if err != nil {
		return err
	}
	for _, f := range own {
		st, err := os.Lstat(filepath.Join(b.Config.Rootfs, "etc", f.Name()))
		if err == nil && st.Mode().IsRegular() {
			spec.Binds = append(spec.Binds, runtime.Mount{Source: filepath.Join(etc, f.Name()), Target: "/etc/" + f.Name()})
		}
	}
	return nil
}

// rootEntries lists the names of a root directory that want is true of.
func rootEntries(dir string, want func(name string) bool) ([]launch.RootEntry, error) {
	names, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var entries []launch.RootEntry
	for _, n := range names {
		e := launch.RootEntry{Name: n.Name(), Source: filepath.Join(dir, n.Name())}
		switch {
		case !want(e.Name):
			continue
		case n.Type() == fs.ModeSymlink:
			if e.Link, err = os.Readlink(e.Source); err != nil {
				return nil, err
			}
			e.Source = ""
		case n.Type() != 0 && n.Type() != fs.ModeDir:
			continue // a socket, a device: nothing to run from
		}
		entries = append(entries, e)
	}
	return entries, nil
}

// storeEntries are those of the stores that are there.
func storeEntries(dir string) (entries []launch.RootEntry) {
	for _, name := range stores {
		source := filepath.Join(dir, name)
		if st, err := os.Stat(source); err == nil && st.IsDir() {
			entries = append(entries, launch.RootEntry{Name: name, Source: source})
		}
	}
	return entries
}

// etcOf are the files in /etc that are the sandbox's own, and what is in them.
func etcOf(c *statedir.Config) (map[string]string, error) {
	name := hostname(c)
	files := map[string]string{
		"passwd":        passwd(c),
		"group":         group(c),
		"hosts":         "127.0.0.1 localhost " + name + "\n::1 localhost " + name + "\n",
		"hostname":      name + "\n",
		"nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\nservices: files\nprotocols: files\n",
	}
	if c.Network == runtime.NetworkHost {
		resolv, err := readFile("/etc/resolv.conf")
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		files["resolv.conf"] = string(resolv)
	}
	return files, nil
}

// WriteEtc makes the files of etcOf.
func WriteEtc(etc string, c *statedir.Config) error {
	files, err := etcOf(c)
	if err != nil {
		return err
	}
	if err := os.Mkdir(etc, 0o755); err != nil {
		return err
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(etc, name), []byte(content), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// copyEtc adds what is shown of the host's /etc.
func copyEtc(etc string, show func(dir string) error) error {
	for _, name := range etcFiles {
		content, err := readFile("/etc/" + name)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
			continue
		}
		if err == nil {
			err = os.MkdirAll(filepath.Dir(filepath.Join(etc, name)), 0o755)
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(etc, name), content, 0o644)
		}
		if err != nil {
			return err
		}
	}
	dirs, err := shownEtc()
	if err != nil {
		return err
	}
	for _, dir := range dirs {
		if err := os.MkdirAll(filepath.Join(etc, dir), 0o755); err != nil {
			return err
		}
		if err := show(dir); err != nil {
			return err
		}
	}
	if link, err := os.Readlink("/etc/mtab"); err == nil && !filepath.IsAbs(link) {
		return os.Symlink(link, filepath.Join(etc, "mtab"))
	}
	return nil
}

// shownEtc are the directories of the host's /etc that etcDirs names.
func shownEtc() (dirs []string, err error) {
	for _, pattern := range etcDirs {
		found, err := filepath.Glob("/etc/" + pattern)
		if err != nil {
			return nil, err
		}
		for _, dir := range found {
			if st, err := os.Stat(dir); err == nil && st.IsDir() {
				dirs = append(dirs, strings.TrimPrefix(dir, "/etc/"))
			}
		}
	}
	return dirs, nil
}

// readFile reads a regular file of the host's, up to maxEtcFile.
func readFile(name string) ([]byte, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if st, err := f.Stat(); err != nil || !st.Mode().IsRegular() {
		return nil, errors.Join(err, fs.ErrNotExist)
	}
	return readUpTo(f)
}

// readUpTo reads a file up to maxEtcFile.
func readUpTo(f *os.File) ([]byte, error) { return io.ReadAll(io.LimitReader(f, maxEtcFile)) }

// bindReadOnly shows a directory of the host's at target, which is there.
func bindReadOnly(source, target string) error {
	if err := unix.Mount(source, target, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("show %s: %w", source, err)
	}
	// A remount must repeat the flags that the host has set: they are locked in
	// a user namespace (mount_namespaces(7)).
	var fsst unix.Statfs_t
	if err := unix.Statfs(target, &fsst); err != nil {
		return err
	}
	flags := uintptr(fsst.Flags) & (unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC | unix.MS_NOATIME | unix.MS_NODIRATIME)
	if err := unix.Mount("", target, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY|flags, ""); err != nil {
		return fmt.Errorf("show %s read-only: %w", source, err)
	}
	return nil
}

// copyGuest copies the guest binary to where the dropped user can reach it.
func copyGuest(path string) error {
	from := os.NewFile(boot.FDGuest, "guest")
	defer from.Close()
	to, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(to, from)
	if err = errors.Join(err, to.Close()); err != nil {
		return fmt.Errorf("copy the guest: %w", err)
	}
	return nil
}
