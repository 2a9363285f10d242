package rootfs

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"wolffia/internal/host/boot"
	"wolffia/internal/host/statedir"
	"wolffia/internal/sys/overlay"
	"wolffia/internal/sys/rmtree"
	"wolffia/runtime"
	"wolffia/runtime/launch"
)

// attachImage receives mounts of n layers from the caller, attaches them below dir, and returns
// where.
func attachImage(dir string, n int) ([]string, error) {
	socket := os.NewFile(boot.FDImage, "image")
	defer socket.Close()
	layers := make([]string, n)
	for i := range layers {
		layers[i] = filepath.Join(dir, "image"+strconv.Itoa(i))
		if err := attachLayer(socket, layers[i]); err != nil {
			return nil, err
		}
	}
	return layers, nil
}

// attachLayer receives one mount and attaches it at path.
func attachLayer(socket *os.File, path string) error {
	tree, err := receiveImage(socket)
	if err != nil {
		return runtime.WithClass(runtime.ErrUnavailable, err)
	}
	defer tree.Close()
	if err := os.Mkdir(path, 0o755); err != nil {
		return err
	}
	if err := unix.MoveMount(int(tree.Fd()), "", unix.AT_FDCWD, path, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return runtime.Errorf(runtime.ErrUnavailable, "attach the image: %w", err)
	}
	return nil
}

func receiveImage(socket *os.File) (*os.File, error) {
	return boot.ReceiveFile(socket, "the image", "the process that starts the sandbox")
}

// composeImage mounts the sandbox's root directory: its own changes over an image.
func composeImage(b *boot.Params, spec *launch.Spec) error {
	lowers := b.Image
	if b.SendsImage {
		var err error
		if lowers, err = attachImage(b.Mnt, len(lowers)); err != nil {
			return err
		}
	}
	spec.RootDir = filepath.Join(b.Mnt, "root")
	if err := os.Mkdir(spec.RootDir, 0o755); err != nil {
		return err
	}
	upper := statedir.Upper(b.Run)
	if b.InDoubt {
		if err := unused(lowers[0], upper); err != nil {
			return err
		}
	}
	return mountOver(lowers, upper, statedir.Work(b.Run), spec.RootDir, b.Config.BoundToCaller)
}

// unused returns an error if upper is the upper directory of an overlay in any namespace. The
// kernel only warns of a second one, which damages the changes, and it releases a killed process's
// locks before its mount namespace. It requests a mount with index=on (overlayfs, "Sharing
// and copying layers") which always fails: with EBUSY, or else because workdir is the same
// as upperdir, which the kernel checks later. That leaves a line in the kernel's log.
func unused(lower, upper string) error {
	if _, err := os.Lstat(upper); errors.Is(err, fs.ErrNotExist) { // it is the first start
		return nil
	}
	err := overlay.Mount(upper, "userxattr,index=on", []string{lower}, upper, upper)
	switch {
	case err == nil: // the kernel checks neither
		return unix.Unmount(upper, unix.MNT_DETACH)
	case errors.As(err, new(*os.PathError)):
		return runtime.Errorf(runtime.ErrUnavailable, "image and changes: %w", err)
	case errors.Is(err, unix.EBUSY):
		return runtime.Errorf(runtime.ErrUnavailable, "the sandbox's changes to its image are still mounted by processes of an earlier start; try again when they have ended")
	}
	return nil
}

// mountOver mounts upper, which gets the changes, over lowers, of which the first is the highest
// (overlayfs in the kernel's documentation). It creates upper and work if they do not exist. If the kernel or the
// file system does not support it, that is an error: there is no read-only fallback.
//
// Changes reach the disk by fsync(2) and at the end of the sandbox, which may take a
// while. If brief is set, they never need to: such a sandbox does not survive a crash of
// the machine.
func mountOver(lowers []string, upper, work, target string, brief bool) error {
	options := "userxattr"
	if brief {
		// The kernel marks a work directory of a volatile mount as not to be used again.
		options += ",volatile"
		if err := rmtree.RemovePath(filepath.Dir(work), filepath.Base(work)); err != nil {
			return runtime.WithClass(runtime.ErrUnavailable, err)
		}
	}
	for _, dir := range []string{upper, work} {
		if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return runtime.Errorf(runtime.ErrUnavailable, "create the directory for the sandbox's changes: %w", err)
		}
	}
	// Overlayfs needs extended attributes, for opaque directories among others, and would
	// report their lack only then.
	const probe = "user.wolffia"
	if err := unix.Lsetxattr(upper, probe, []byte{1}, 0); err != nil {
		return runtime.Errorf(runtime.ErrUnsupported, "the file system of the state directory cannot keep a sandbox's changes to an image: it has no extended attributes (%w); choose another with --state-dir or WOLFFIA_STATE_DIR", err)
	}
	_ = unix.Lremovexattr(upper, probe)
	err := overlay.Mount(target, options, lowers, upper, work)
	switch {
	case errors.As(err, new(*os.PathError)):
		return runtime.Errorf(runtime.ErrUnavailable, "image and changes: %w", err)
	case err != nil:
		return runtime.Errorf(runtime.ErrUnsupported, "this host cannot put a sandbox's changes over an image: %w; it needs overlayfs in user namespaces (Linux 5.11), and a state directory on a file system that overlayfs can write to, which another overlayfs or a network file system is not: choose another with --state-dir or WOLFFIA_STATE_DIR", err)
	}
	return nil
}
