// Package rootfs composes what a sandbox sees beside its codebase: its root directory,
// /etc, and its image.
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

	"golang.org/x/sys/unix"

	"wolffia/internal/host/boot"
	"wolffia/internal/sys/seccomp"
	"wolffia/runtime"
	"wolffia/runtime/launch"
)

// systemDirs are the names in the host's root directory that programs need. One that is
// a symbolic link, as on merged-/usr systems, is the same link inside.
var systemDirs = []string{"usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32"}

// stores are the directories with the packages of Nix and Guix. Not /nix/var: it has the
// socket of Nix's daemon, which builds with a network for any user.
var stores = []string{"/nix/store", "/gnu/store"}

// HostDirs returns the directories of the host that a sandbox without an image and a root
// directory of its own is shown, as far as they exist.
func HostDirs() []string {
	dirs := slices.Clone(stores)
	for _, name := range systemDirs {
		dirs = append(dirs, "/"+name)
	}
	names := etcNames{}
	for _, name := range slices.Concat(names.dirs(hostDirs), names.distro(nil)) {
		dirs = append(dirs, "/etc/"+name)
	}
	dirs = append(dirs, distroData...)
	return slices.DeleteFunc(dirs, func(dir string) bool {
		st, err := os.Stat(dir)
		return err != nil || !st.IsDir()
	})
}

// ownDirs are the names in a root directory that every sandbox has directories of its own for.
var ownDirs = []string{"proc", "dev", "sys", "tmp", "run", "var", "home", "etc"}

// Compose mounts the sources of a sandbox's mounts below b.Mnt, in the shim's own mount
// namespace, and returns the spec for the backend. view is for root inside over the host's system.
func Compose(b *boot.Params, view View) (*launch.Spec, error) {
	// No mount propagates to or from the host's namespace (mount_namespaces(7)).
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
	if !b.Can.Has(launch.OwnKernel) {
		if spec.Covers, err = coverProc(b); err != nil {
			return nil, fmt.Errorf("cover the host's part of /proc: %w", err)
		}
		spec.Binds = processors()
	}
	if b.Config.OverHost() {
		err = composeSystem(b, spec, view)
	} else {
		err = ComposeRoot(b, spec)
	}
	if err != nil {
		return nil, err
	}
	for _, dir := range spec.HostEtc {
		if err := unix.Mount("/etc/"+dir, filepath.Join(spec.Etc, dir), "", unix.MS_BIND, ""); err != nil {
			return nil, fmt.Errorf("mount the host's /etc/%s: %w", dir, err)
		}
	}
	if err := ComposeTree(b, spec); err != nil {
		return nil, err
	}
	if err := composeHooks(b, spec); err != nil {
		return nil, err
	}
	return spec, joinVar(b, spec)
}

// NewSpec returns the parts of a spec that need no files on the host.
func NewSpec(b *boot.Params) (*launch.Spec, error) {
	c := &b.Config
	uid, gid := c.Inside()
	filter, err := seccomp.Filter(uint32(uid), uint32(gid))
	home := Home(c)
	if c.Root {
		filter, err = seccomp.RootFilter()
		home = "" // what is installed there stays
	}
	if err != nil {
		return nil, runtime.WithClass(runtime.ErrUnsupported, err)
	}
	return &launch.Spec{
		ID: b.ID, Tag: b.Tag, Hostname: Hostname(c), UID: uid, GID: gid, Home: home, RootInside: c.Root,
		Guest: b.Guest, Network: c.Network, Seccomp: filter, Platform: c.Platform,
		Config: &c.SandboxConfig, Rlimits: b.Rlimits, Processors: boot.Processors(),
	}, nil
}

// ComposeTree adds the codebase and the mounts that the user named to spec, and creates
// the directory to mount the codebase on.
func ComposeTree(b *boot.Params, spec *launch.Spec) error {
	c := &b.Config
	switch {
	case c.CodebasePath == "" && c.BareImage:
		// runsc would mount a tmpfs over an empty /tmp. No process changes the tree meanwhile.
		tmp := filepath.Join(spec.RootDir, "tmp")
		if st, err := os.Lstat(tmp); b.Can.Has(launch.OwnKernel) && err == nil && st.IsDir() {
			spec.Binds = append(spec.Binds, runtime.Mount{Source: tmp, Target: "/tmp", Writable: true})
		}
	case c.CodebasePath == "":
		spec.Scratch = append(spec.Scratch, c.MountPointOrDefault())
	default:
		source := TreeDir(b)
		if !b.Can.Has(launch.ShimMounts) && c.Native() { // an engine mounts by path
			source = c.CodebasePath
			fd, err := openSource("codebase", source)
			if err != nil {
				return err
			}
			_ = unix.Close(fd)
		}
		spec.Binds = append(spec.Binds, runtime.Mount{Source: source, Target: c.MountPointOrDefault(), Writable: true})
		if err := os.Mkdir(TreeDir(b), 0o755); err != nil {
			return err
		}
	}
	if c.PrivateGit && c.Filter == runtime.FilterStatic {
		spec.Binds = append(spec.Binds, runtime.Mount{Source: GitDir(b), Target: launch.GitDirsPath, Writable: true})
		if err := os.Mkdir(GitDir(b), 0o755); err != nil {
			return err
		}
	}
	if err := composeGit(b, spec); err != nil {
		return err
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

// ComposeRoot fills in the root directory and /etc, except for the directories of
// spec.HostEtc, which are empty in spec.Etc.
func ComposeRoot(b *boot.Params, spec *launch.Spec) (err error) {
	kind, etc := kindOf(b), at(b, "etc")
	names, copied := etcNames{}, make(chan error, 1)
	switch kind {
	case storeImage:
		return composeImage(b, spec)
	case ownRootfs:
		// It has an /etc, in which composeEtc replaces files.
		spec.Root, err = rootEntries(b.Config.Rootfs, func(name string) bool { return name == "etc" || !slices.Contains(ownDirs, name) })
		if err != nil {
			return runtime.Errorf(runtime.ErrInvalid, "root file system %s: %w", b.Config.Rootfs, err)
		}
	case hostRoot:
		distro := names.found(distroFiles)
		go func() { copied <- copyHost(etc, distro) }() // ends with the copy
		if spec.Root, err = rootEntries("/", func(name string) bool { return slices.Contains(systemDirs, name) }); err != nil {
			return err
		}
		for _, dir := range stores {
			if st, err := os.Stat(dir); err == nil && st.IsDir() {
				spec.Root = append(spec.Root, launch.Mount{Source: dir, Target: dir})
			}
		}
	}
	if kind != engineImage {
		spec.Root = append(spec.Root, launch.Mount{Kind: launch.Symlink, Source: "../tmp", Target: "/var/tmp"})
	}
	if kind == hostRoot {
		places := append(slices.Concat(b.Config.Mounts, volumeMounts(b)), runtime.Mount{Target: b.Config.MountPointOrDefault()})
		spec.Root = append(spec.Root, distroVar(places)...)
	}
	return composeEtc(b, spec, etc, names, copied)
}

// rootEntries returns the entries of the directory dir whose names want accepts, without
// devices and sockets.
func rootEntries(dir string, want func(name string) bool) ([]launch.Mount, error) {
	names, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var entries []launch.Mount
	for _, n := range names {
		m := launch.Mount{Source: filepath.Join(dir, n.Name()), Target: "/" + n.Name()}
		switch {
		case !want(n.Name()):
			continue
		case n.Type() == fs.ModeSymlink:
			m.Kind = launch.Symlink
			if m.Source, err = os.Readlink(m.Source); err != nil {
				return nil, err
			}
		case n.Type() != 0 && n.Type() != fs.ModeDir:
			continue
		}
		entries = append(entries, m)
	}
	return entries, nil
}

// copyGuest copies the guest binary to path, which the sandbox's user can reach.
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
