package rootfs

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"wolffia/internal/boot"
	"wolffia/runtime"
)

// pinMounts returns the mounts that the user named, from where they were when the
// sandbox was created, symbolic links resolved. Another sandbox may have write access to
// a directory on the way, and put a link out of its codebase there (CVE-2024-42472 is this
// in Flatpak). So each source is opened without following links, and bound by its
// descriptor to a place in the shim's own mount namespace, where nobody can replace it. An
// engine mounts by path, later: for it the source is checked only.
func pinMounts(b *boot.Params) ([]runtime.Mount, error) {
	mounts := slices.Clone(b.Config.Mounts)
	for i := range mounts {
		m := &mounts[i]
		fd, err := unix.Openat2(unix.AT_FDCWD, m.Source, &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS})
		if errors.Is(err, unix.ELOOP) {
			return nil, runtime.Errorf(runtime.ErrConflict, "mount %s: since the sandbox was created a symbolic link has been put into this path, which may lead anywhere: remove it, or create the sandbox again", m.Source)
		}
		if err != nil {
			return nil, runtime.Errorf(runtime.ErrUnavailable, "mount %s: %w", m.Source, err)
		}
		if b.Engine == "" {
			m.Source, err = pin(fd, filepath.Join(b.Mnt, "mount"+strconv.Itoa(i)))
		}
		_ = unix.Close(fd)
		if err != nil {
			return nil, runtime.Errorf(runtime.ErrUnavailable, "mount %s: %w", b.Config.Mounts[i].Source, err)
		}
	}
	return mounts, nil
}

// pin binds what fd is to a new file or directory, with all that is mounted below, and
// returns its path.
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
