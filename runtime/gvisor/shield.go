package gvisor

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"wolffia/runtime"
	"wolffia/runtime/launch"
)

// shield returns spec with a mount below spec.Dir in the place of all that is
// shown read-only, which cannot be written to from the beginning: runsc follows
// links while it makes places to mount on, and makes all of them before it
// makes anything read-only. The mounts are gone with the shim.
func shield(spec *launch.Spec) (*launch.Spec, error) {
	s := *spec
	s.Root, s.Binds = slices.Clone(spec.Root), slices.Clone(spec.Binds)
	var sources []*string
	for i := range s.Root {
		if s.Root[i].Link == "" {
			sources = append(sources, &s.Root[i].Source)
		}
	}
	if s.Etc != "" {
		sources = append(sources, &s.Etc)
	}
	for i := range s.Binds {
		if !s.Binds[i].Writable {
			sources = append(sources, &s.Binds[i].Source)
		}
	}
	dir := filepath.Join(spec.Dir, "shown")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	for i, source := range sources {
		place := filepath.Join(dir, strconv.Itoa(i))
		if err := mountReadOnly(*source, place); err != nil {
			return nil, runtime.Errorf(runtime.ErrUnavailable, "show %s read-only (which needs Linux 5.12): %w", *source, err)
		}
		*source = place
	}
	return &s, nil
}

// mountReadOnly makes place, where source is mounted with all that is mounted
// below it, read-only (mount_setattr(2)).
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
