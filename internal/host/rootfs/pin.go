package rootfs

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"wolffia/internal/host/boot"
	"wolffia/runtime"
	"wolffia/runtime/launch"
)

// pinMounts returns the mounts and volumes of a sandbox. Their sources are paths whose symbolic
// links were resolved when the sandbox was created. Since then, another sandbox with write
// access to a directory on the path may have put a link out of its codebase there (as in
// CVE-2024-42472 of Flatpak). So each source is opened without following links, and its
// descriptor bound to a place in the shim's own mount namespace, where no other process can
// replace it. An engine mounts by path, later: for it the source is checked only.
func pinMounts(b *boot.Params) ([]runtime.Mount, error) {
	var mounts []runtime.Mount
	for i, m := range slices.Concat(b.Config.Mounts, volumeMounts(b)) {
		source := m.Source
		fd, err := openSource("mount", m.Source)
		if m.Toolchain && (errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, fs.ErrPermission)) {
			continue // it was removed since, as by an update
		}
		if err != nil {
			return nil, err
		}
		if b.Can.Has(launch.ShimMounts) {
			m.Source, err = pin(fd, filepath.Join(b.Mnt, "mount"+strconv.Itoa(i)))
		}
		_ = unix.Close(fd)
		if err != nil {
			return nil, runtime.Errorf(runtime.ErrUnavailable, "mount %s: %w", source, err)
		}
		mounts = append(mounts, m)
	}
	return mounts, nil
}

// openSource opens what is to be mounted, a path without symbolic links; what says which it
// is. The caller closes the descriptor.
func openSource(what, path string) (int, error) {
	fd, err := unix.Openat2(unix.AT_FDCWD, path, &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS})
	if errors.Is(err, unix.ELOOP) {
		return -1, runtime.Errorf(runtime.ErrConflict, "%s %s: a symbolic link was put into this path after the sandbox was created: remove it, or create the sandbox again", what, path)
	}
	if err != nil {
		return -1, runtime.Errorf(runtime.ErrUnavailable, "%s %s: %w", what, path, err)
	}
	return fd, nil
}

// pin makes a file or directory at place, binds the one that fd is open on to it, with the
// mounts below, and returns place.
func pin(fd int, place string) (string, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return "", err
	}
	var err error
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		err = os.Mkdir(place, 0o700)
	} else {
		err = os.WriteFile(place, nil, 0o600)
	}
	if err == nil {
		err = unix.Mount("/proc/self/fd/"+strconv.Itoa(fd), place, "", unix.MS_BIND|unix.MS_REC, "")
	}
	return place, err
}
