package bwrap

import (
	"fmt"
	"path/filepath"

	"golang.org/x/sys/unix"

	"wolffia/runtime/launch"
)

// devices are those in /dev (bwrap(1), --dev).
var devices = []string{"null", "zero", "full", "random", "urandom", "tty"}

// devLinks are the symbolic links in /dev, by name.
var devLinks = map[string]string{
	"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2",
	"core": "/proc/kcore", "ptmx": "pts/ptmx",
}

// devDir returns the host directory that becomes /dev.
func devDir(spec *launch.Spec) string { return filepath.Join(spec.Dir, "dev") }

// makeDev makes devDir with what bubblewrap's own --dev has, in the caller's mount namespace.
// bubblewrap reads the whole mount table again for each device, which takes it a millisecond; this
// takes a fifth of that.
func makeDev(spec *launch.Spec) error {
	dir := devDir(spec)
	if err := unix.Mkdir(dir, 0o755); err != nil {
		return fmt.Errorf("make /dev: %w", err)
	}
	// Only the devices themselves can be opened as such: the rest has MS_NODEV.
	if err := unix.Mount("tmpfs", dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0755"); err != nil {
		return fmt.Errorf("mount /dev: %w", err)
	}
	for _, name := range devices {
		place := filepath.Join(dir, name)
		if err := unix.Mknod(place, unix.S_IFREG|0o444, 0); err != nil {
			return fmt.Errorf("make /dev/%s: %w", name, err)
		}
		if err := unix.Mount("/dev/"+name, place, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("mount /dev/%s: %w", name, err)
		}
	}
	for name, text := range devLinks {
		if err := unix.Symlink(text, filepath.Join(dir, name)); err != nil {
			return fmt.Errorf("link /dev/%s: %w", name, err)
		}
	}
	for _, name := range []string{"shm", "pts"} {
		if err := unix.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			return fmt.Errorf("make /dev/%s: %w", name, err)
		}
	}
	const flags, options = unix.MS_NOSUID | unix.MS_NOEXEC, "newinstance,ptmxmode=0666,mode=620"
	if err := unix.Mount("devpts", filepath.Join(dir, "pts"), "devpts", flags, options); err != nil {
		return fmt.Errorf("mount /dev/pts: %w", err)
	}
	return nil
}
