package gvisor

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"wolffia/runtime"
	"wolffia/runtime/launch"
)

// shield mounts the source of each read-only bind again below dir, read-only from the
// beginning, and makes that the source. Runsc follows symbolic links while it makes
// places to mount on, and makes all of them before it makes any mount read-only. The
// mounts are gone with the shim.
func shield(mounts []launch.Mount, dir string) error {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	for i := range mounts {
		m := &mounts[i]
		if m.Kind != launch.Bind || m.Writable {
			continue
		}
		place := filepath.Join(dir, strconv.Itoa(i))
		if err := mountReadOnly(m.Source, place); err != nil {
			return runtime.Errorf(runtime.ErrUnavailable, "show %s read-only (which needs Linux 5.12): %w", m.Source, err)
		}
		m.Source = place
	}
	return nil
}

// mountReadOnly creates place and mounts source there recursively and read-only
// (mount_setattr(2)).
func mountReadOnly(source, place string) error {
	fd, err := unix.OpenTree(unix.AT_FDCWD, source, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE)
	if err != nil {
		return fmt.Errorf("open_tree: %w", err)
	}
	tree := os.NewFile(uintptr(fd), source)
	defer tree.Close()
	if err := unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}); err != nil {
		return fmt.Errorf("mount_setattr: %w", err)
	}
	st, err := tree.Stat()
	switch {
	case err != nil:
	case st.IsDir():
		err = os.Mkdir(place, 0o700)
	default:
		err = os.WriteFile(place, nil, 0o600)
	}
	if err == nil {
		err = unix.MoveMount(fd, "", unix.AT_FDCWD, place, unix.MOVE_MOUNT_F_EMPTY_PATH)
	}
	if err != nil {
		return fmt.Errorf("mount on %s: %w", place, err)
	}
	return nil
}
