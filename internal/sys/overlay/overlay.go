// Package overlay mounts overlayfs over directories by descriptor: a path may have characters with a
// meaning in mount options.
package overlay

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Mount mounts lowers, of which the first is the highest, on the directory target, and over them
// upper, which gets the changes, with its work directory. Without upper the mount is read-only.
// options come before those of the directories. No directory may be a link. An error of opening one
// is an *os.PathError, and that of the kernel an Errno.
func Mount(target, options string, lowers []string, upper, work string) error {
	keys, dirs := []string{",upperdir=", ",workdir=", ",lowerdir="}, append([]string{upper, work}, lowers...)
	if upper == "" {
		keys, dirs = keys[2:], lowers
	}
	for i, dir := range dirs {
		f, err := os.OpenFile(dir, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
		if err != nil {
			return err
		}
		defer f.Close()
		key := ":"
		if i < len(keys) {
			key = keys[i]
		}
		options += fmt.Sprintf("%s/proc/self/fd/%d", key, f.Fd())
	}
	return unix.Mount("wolffia", target, "overlay", unix.MS_NOSUID|unix.MS_NODEV, options)
}
