package bwrap

import (
	"fmt"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"wolffia/runtime/launch"
)

// memoryDir returns the host directory that becomes mount i of spec.Mounts, if that has a limit of
// names.
func memoryDir(spec *launch.Spec, i int) string {
	return filepath.Join(spec.Dir, "memory"+strconv.Itoa(i))
}

// makeMemory makes the file systems in memory that have a limit of names, in the caller's mount
// namespace: bubblewrap has no option for that (nr_inodes in tmpfs(5)). They belong to the caller,
// as bubblewrap's own do.
func makeMemory(spec *launch.Spec) error {
	for i, m := range spec.Mounts() {
		if m.Names == 0 {
			continue
		}
		dir := memoryDir(spec, i)
		if err := unix.Mkdir(dir, 0o755); err != nil {
			return fmt.Errorf("make %s: %w", m.Target, err)
		}
		options := fmt.Sprintf("mode=%04o,size=%d,nr_inodes=%d", m.Mode, m.Size, m.Names)
		if err := unix.Mount("tmpfs", dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, options); err != nil {
			return fmt.Errorf("mount %s: %w", m.Target, err)
		}
	}
	return nil
}
