package rootfs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"wolffia/internal/boot"
	"wolffia/internal/rmtree"
	"wolffia/internal/statedir"
	"wolffia/runtime"
	"wolffia/runtime/launch"
)

// attachImage waits for sendImage and attaches the mount at path.
func attachImage(path string) error {
	socket := os.NewFile(boot.FDImage, "image")
	defer socket.Close()
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

// receiveImage returns the mount that sendImage has sent; the caller closes it.
func receiveImage(socket *os.File) (*os.File, error) {
	packet, tree, err := boot.ReceivePacket(socket, make([]byte, 1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("receive the image: %w", err)
	case len(packet) == 0:
		return nil, errors.New("receive the image: the process that starts the sandbox has ended")
	case tree == nil:
		return nil, errors.New("receive the image: no descriptor came")
	}
	return tree, nil
}

// composeImage makes the root directory of an image and the sandbox's own
// changes over it.
func composeImage(b *boot.Params, spec *launch.Spec) error {
	lower := b.Image
	if b.SendsImage {
		lower = filepath.Join(b.Mnt, "image")
		if err := attachImage(lower); err != nil {
			return err
		}
	}
	spec.RootDir = filepath.Join(b.Mnt, "root")
	if err := os.Mkdir(spec.RootDir, 0o755); err != nil {
		return err
	}
	upper := statedir.Upper(b.Run)
	if b.InDoubt {
		if err := unused(lower, upper); err != nil {
			return err
		}
	}
	return overlay(lower, upper, statedir.Work(b.Run), spec.RootDir, b.Config.BoundToCaller)
}

// unused returns an error if upper is mounted in any namespace as the place of an
// overlay's changes. Two such mounts damage what is in it, and the kernel only
// warns of the second, unless index=on is set (overlayfs, "Sharing and copying
// layers"). So unused asks for a mount with that option which fails in any case:
// with EBUSY, or else because workdir is the same as upperdir, which the
// kernel looks at later. That leaves a line in the kernel's log.
func unused(lower, upper string) error {
	var dirs [2]*os.File
	for i, dir := range []string{lower, upper} {
		f, err := os.OpenFile(dir, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
		if errors.Is(err, fs.ErrNotExist) && dir == upper { // it is the first start
			return nil
		}
		if err != nil {
			return runtime.Errorf(runtime.ErrUnavailable, "image and changes: %w", err)
		}
		defer f.Close()
		dirs[i] = f
	}
	options := fmt.Sprintf("userxattr,index=on,lowerdir=/proc/self/fd/%d,upperdir=/proc/self/fd/%d,workdir=/proc/self/fd/%[2]d", dirs[0].Fd(), dirs[1].Fd())
	err := unix.Mount("wolffia", upper, "overlay", unix.MS_NOSUID|unix.MS_NODEV, options)
	if err == nil { // a kernel that looks at nothing says nothing either
		return unix.Unmount(upper, unix.MNT_DETACH)
	}
	if errors.Is(err, unix.EBUSY) {
		return runtime.Errorf(runtime.ErrUnavailable, "the sandbox's changes to its image are still mounted by processes of an earlier start; try again when they have ended")
	}
	return nil
}

// overlay mounts upper, where changes go, over lower (overlayfs in the kernel's
// documentation). The first two of upper, work and lower are made if they are
// not there. If the kernel or the file system cannot do it, that is an error:
// there is no read-only instead.
//
// What is changed reaches the disk when a program asks for it (fsync(2)), and
// when the sandbox ends, which may take a while: if brief, never. That is for a
// sandbox that is gone after a crash of the machine anyway.
func overlay(lower, upper, work, target string, brief bool) error {
	options := "userxattr"
	if brief {
		// The kernel leaves a mark in work that keeps it from being used again.
		options += ",volatile"
		if err := rmtree.RemovePath(filepath.Dir(work), filepath.Base(work)); err != nil {
			return runtime.WithClass(runtime.ErrUnavailable, err)
		}
	}
	var dirs [3]*os.File
	for i, dir := range []string{lower, upper, work} {
		if dir != lower {
			if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
				return runtime.Errorf(runtime.ErrUnavailable, "place for the sandbox's changes: %w", err)
			}
		}
		f, err := os.OpenFile(dir, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
		if err != nil {
			return runtime.Errorf(runtime.ErrUnavailable, "image and changes: %w", err)
		}
		defer f.Close()
		dirs[i] = f
	}
	// It is how overlayfs remembers, for one, that a directory hides the one
	// below it; it would notice only then.
	const probe = "user.wolffia"
	if err := unix.Fsetxattr(int(dirs[1].Fd()), probe, []byte{1}, 0); err != nil {
		return runtime.Errorf(runtime.ErrUnsupported, "the file system of the state directory cannot keep a sandbox's changes to an image: it has no extended attributes (%w); choose another with --state-dir or WOLFFIA_STATE_DIR", err)
	}
	_ = unix.Fremovexattr(int(dirs[1].Fd()), probe)
	// By descriptor: a path may have characters that mean something in options.
	options += fmt.Sprintf(",lowerdir=/proc/self/fd/%d,upperdir=/proc/self/fd/%d,workdir=/proc/self/fd/%d",
		dirs[0].Fd(), dirs[1].Fd(), dirs[2].Fd())
	if err := unix.Mount("wolffia", target, "overlay", unix.MS_NOSUID|unix.MS_NODEV, options); err != nil {
		return runtime.Errorf(runtime.ErrUnsupported, "this host cannot put a sandbox's changes over an image: %w; it needs overlayfs in user namespaces (Linux 5.11), and a state directory on a file system that overlayfs can write to, which another overlayfs or a network file system is not: choose another with --state-dir or WOLFFIA_STATE_DIR", err)
	}
	return nil
}

// furnish makes the places in a root directory of an image's that things are
// mounted on, and the files that say who and where the sandbox is. What the
// image, or the sandbox in an earlier life, has there that would lead elsewhere
// is replaced: no link of theirs is followed.
func furnish(b *boot.Params, spec *launch.Spec) error {
	root, err := os.OpenFile(spec.RootDir, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer root.Close()
	if err := openUp(root); err != nil {
		return err
	}
	dirs := append([]string{"/proc", "/dev", "/sys", "/tmp", "/etc", spec.Home, launch.SessionsPath}, spec.Scratch...)
	files := []string{launch.GuestPath, launch.FilterPath}
	for _, m := range spec.Binds {
		if st, err := os.Stat(m.Source); err == nil && !st.IsDir() {
			files = append(files, m.Target)
		} else {
			dirs = append(dirs, m.Target)
		}
	}
	for _, dir := range dirs {
		d, err := ensureDir(root, dir)
		if err != nil {
			return fmt.Errorf("make %s in the image: %w", dir, err)
		}
		_ = d.Close()
	}
	for _, file := range files {
		if err := ensureFile(root, file); err != nil {
			return fmt.Errorf("make %s in the image: %w", file, err)
		}
	}
	return furnishEtc(root, &b.Config)
}

// ensureDir opens a directory below root, and makes what is missing of it. The
// caller closes it.
func ensureDir(root *os.File, name string) (*os.File, error) {
	fd, err := unix.Openat(int(root.Fd()), ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	at := os.NewFile(uintptr(fd), "/")
	for part := range strings.SplitSeq(strings.Trim(name, "/"), "/") {
		next, err := enterDir(at, part)
		_ = at.Close()
		if err != nil {
			return nil, err
		}
		at = next
	}
	return at, nil
}

// enterDir opens a directory in another. Anything else of that name is replaced.
func enterDir(at *os.File, name string) (*os.File, error) {
	const flags = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC
	fd, err := unix.Openat(int(at.Fd()), name, flags, 0)
	if errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
		err = unix.Unlinkat(int(at.Fd()), name, 0)
		if err == nil {
			err = unix.ENOENT
		}
	}
	if errors.Is(err, unix.ENOENT) {
		if err = unix.Mkdirat(int(at.Fd()), name, 0o755); err == nil {
			fd, err = unix.Openat(int(at.Fd()), name, flags, 0)
		}
	}
	if err != nil {
		return nil, err
	}
	dir := os.NewFile(uintptr(fd), name)
	if err := openUp(dir); err != nil {
		_ = dir.Close()
		return nil, err
	}
	return dir, nil
}

// openUp lets a directory's owner, the sandbox's user, use it: through it PID 1
// is started.
func openUp(dir *os.File) error {
	st, err := dir.Stat()
	if err == nil && st.Mode().Perm()&0o700 != 0o700 {
		err = dir.Chmod(st.Mode() | 0o700)
	}
	return err
}

// ensureFile makes a regular file below root if there is none.
func ensureFile(root *os.File, name string) error {
	dir, err := ensureDir(root, path.Dir(name))
	if err != nil {
		return err
	}
	defer dir.Close()
	var st unix.Stat_t
	if unix.Fstatat(int(dir.Fd()), path.Base(name), &st, unix.AT_SYMLINK_NOFOLLOW) == nil && st.Mode&unix.S_IFMT == unix.S_IFREG {
		return nil
	}
	return writeIn(dir, path.Base(name), nil)
}

// writeIn makes a file anew.
func writeIn(dir *os.File, name string, content []byte) error {
	if err := rmtree.Remove(dir, name); err != nil {
		return err
	}
	fd, err := unix.Openat(int(dir.Fd()), name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o644)
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), name)
	_, err = f.Write(content)
	return errors.Join(err, f.Close())
}

// furnishEtc names the user and the host. Users of the image stay.
func furnishEtc(root *os.File, c *statedir.Config) error {
	etc, err := ensureDir(root, "/etc")
	if err != nil {
		return err
	}
	defer etc.Close()
	own, err := etcOf(c)
	if err != nil {
		return err
	}
	for _, name := range []string{"hostname", "hosts", "resolv.conf"} {
		if text, ok := own[name]; ok {
			if err := writeIn(etc, name, []byte(text)); err != nil {
				return fmt.Errorf("write /etc/%s: %w", name, err)
			}
		}
	}
	for name, id := range map[string]int{"passwd": c.UID, "group": c.GID} {
		old, err := readIn(etc, name)
		text, changed := withID(string(old), own[name], id)
		if err == nil && changed {
			err = writeIn(etc, name, []byte(text))
		}
		if err != nil {
			return fmt.Errorf("write /etc/%s: %w", name, err)
		}
	}
	return nil
}

// withID adds to the text of passwd(5) or group(5) the line of own that has the
// id, unless there is a line with it; an empty text becomes own.
func withID(text, own string, id int) (result string, changed bool) {
	if strings.TrimSpace(text) == "" {
		return own, true
	}
	find := func(text string) string {
		for line := range strings.Lines(text) {
			if f := strings.Split(strings.TrimSuffix(line, "\n"), ":"); len(f) > 2 && f[2] == strconv.Itoa(id) {
				return line
			}
		}
		return ""
	}
	if find(text) != "" {
		return text, false
	}
	if !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	return text + find(own), true
}

// readIn reads a file, which is empty if it is not there, or no regular file.
func readIn(dir *os.File, name string) ([]byte, error) {
	fd, err := unix.Openat(int(dir.Fd()), name, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ENXIO) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	st, err := f.Stat()
	if err != nil || !st.Mode().IsRegular() {
		return nil, err
	}
	return readUpTo(f)
}
