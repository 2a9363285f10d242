package rootfs

import (
	"errors"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"wolffia/internal/host/boot"
	"wolffia/internal/sys/beneath"
	"wolffia/runtime"
	"wolffia/runtime/launch"
)

// MadeHooks is where husky, of which npm install is the set-up, makes hooks that lead to those of
// the project, and makes them again each time.
const MadeHooks = ".husky/_"

// Limits of what is copied: husky makes 17 small files.
const (
	maxMadeHooks = 100
	maxMadeHook  = 64 << 10
)

// composeHooks gives the sandbox a copy of MadeHooks in memory, if b.CopyHooks. The host's git runs
// what is there, so that a sandbox may not write it, and npm install would fail.
func composeHooks(b *boot.Params, spec *launch.Spec) error {
	if !b.CopyHooks {
		return nil
	}
	codebase, err := openSource("codebase", b.Config.CodebasePath)
	if err != nil {
		return err
	}
	defer unix.Close(codebase)
	fd, err := beneath.Open(codebase, MadeHooks, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil // it is as with a project that has none
	}
	from := os.NewFile(uintptr(fd), MadeHooks)
	defer from.Close()
	to := at(b, "hooks")
	err = os.Mkdir(to, 0o755)
	if err == nil {
		err = unix.Mount("wolffia", to, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0755,size=16m,nr_inodes=1000")
	}
	if err != nil {
		return err
	}
	names, _ := from.Readdirnames(maxMadeHooks) // an error is an empty directory
	for _, name := range names {
		content, unread := beneath.ReadFile(fd, name, maxMadeHook)
		if unread == nil { // else it is no hook
			err = errors.Join(err, os.WriteFile(filepath.Join(to, name), content, 0o755))
		}
	}
	target := filepath.Join(b.Config.MountPointOrDefault(), MadeHooks)
	spec.Binds = append(spec.Binds, runtime.Mount{Source: to, Target: target, Writable: true})
	return err
}
