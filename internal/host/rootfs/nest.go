package rootfs

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	goruntime "runtime"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"wolffia/internal/host/boot"
	"wolffia/internal/host/statedir"
	"wolffia/internal/sys/beneath"
	"wolffia/runtime"
	"wolffia/runtime/launch"
)

// A backend makes the places to mount on by path, and follows symbolic links meanwhile. In a
// directory that sandboxes can write, an earlier one, or one that runs now, may have put a
// link: bubblewrap and runsc would make directories wherever on the host it leads. So what
// appears below such a directory is mounted here, by descriptor, and the backend binds the
// directory with all that is mounted in it.

// Nest mounts what is to appear below a directory that sandboxes can write, and takes it out
// of spec.Binds and spec.Scratch. The codebase is mounted, though maybe not served yet. An
// engine mounts by itself, later: for it Nest makes the places below volumes only.
func Nest(b *boot.Params, spec *launch.Spec) error {
	volumes := map[string]bool{}
	for _, v := range b.Config.Volumes {
		volumes[v.Target] = true
	}
	outer := func(m *runtime.Mount) bool { return volumes[m.Target] || m.Writable }
	around := innermost(spec.Binds, outer)
	bound := around
	if b.Can.Has(launch.ShimMounts) {
		around = outermost(spec.Binds, outer)
		bound = orShut(around, spec.Binds, TreeDir(b))
	}
	binds := slices.Clone(spec.Binds)
	slices.SortStableFunc(binds, func(a, b runtime.Mount) int {
		return cmp.Compare(strings.Count(a.Target, "/"), strings.Count(b.Target, "/"))
	})
	for i := range binds {
		m := &binds[i]
		in := bound(m.Target)
		if in == nil {
			continue
		}
		if err := nest(b, in, m); err != nil {
			return runtime.Errorf(runtime.ErrInvalid, "mount on %s: %w", m.Target, err)
		}
	}
	for _, target := range spec.Scratch {
		if in := around(target); in != nil {
			if err := nest(b, in, &runtime.Mount{Target: target}); err != nil {
				return runtime.Errorf(runtime.ErrInvalid, "mount point %s: %w", target, err)
			}
		}
	}
	spec.Scratch = slices.DeleteFunc(spec.Scratch, func(target string) bool { return around(target) != nil })
	if b.Can.Has(launch.ShimMounts) {
		spec.Binds = slices.DeleteFunc(binds, func(m runtime.Mount) bool { return bound(m.Target) != nil })
	}
	return nil
}

// orShut returns around, which for other targets returns the one of binds that target is in, if that
// is read-only and is shut on the way. tree is the source of the codebase, which may not be served.
func orShut(around func(string) *runtime.Mount, binds []runtime.Mount, tree string) func(target string) *runtime.Mount {
	first := outermost(binds, func(*runtime.Mount) bool { return true })
	last := innermost(binds, func(m *runtime.Mount) bool { return m.Source != tree })
	return func(target string) *runtime.Mount {
		if in := around(target); in != nil {
			return in
		}
		if in := last(target); in != nil && in == first(target) && shut(in, target) {
			return in
		}
		return nil
	}
}

// shut reports whether target is there in a bind, below a directory that this process can search and
// not read: bubblewrap 0.12.0 and 0.13.0 mount nothing there (its issue 806).
func shut(in *runtime.Mount, target string) bool {
	place := path.Join(in.Source, strings.TrimPrefix(target, in.Target))
	if _, err := os.Stat(place); err != nil {
		return false // the backend says what is wrong
	}
	for place != in.Source {
		place = path.Dir(place)
		if errors.Is(unix.Faccessat(unix.AT_FDCWD, place, unix.R_OK, unix.AT_EACCESS), fs.ErrPermission) {
			return true
		}
	}
	return false
}

// outermost returns a function that returns the first of binds, by depth, that is a parent of
// target and that outer accepts; or nil.
func outermost(binds []runtime.Mount, outer func(*runtime.Mount) bool) func(target string) *runtime.Mount {
	return func(target string) (in *runtime.Mount) {
		for i := range binds {
			m := &binds[i]
			if strings.HasPrefix(target, m.Target+"/") && outer(m) && (in == nil || len(m.Target) < len(in.Target)) {
				in = m
			}
		}
		return in
	}
}

// innermost returns a function that returns the last of binds, by depth, that is a parent of
// target: the place is made in it before anything is mounted. The function returns nil if target
// is in none of them, or if outer does not accept the bind.
func innermost(binds []runtime.Mount, outer func(*runtime.Mount) bool) func(target string) *runtime.Mount {
	return func(target string) (in *runtime.Mount) {
		for i := range binds {
			m := &binds[i]
			if strings.HasPrefix(target, m.Target+"/") && (in == nil || len(m.Target) > len(in.Target)) {
				in = m
			}
		}
		if in == nil || !outer(in) {
			return nil
		}
		return in
	}
}

// nest makes the place of m below the directory in, and without an engine mounts m there. A
// mount without a source is only a directory.
func nest(b *boot.Params, in, m *runtime.Mount) error {
	if !in.Writable && !shut(in, m.Target) {
		return fmt.Errorf("the volume at %s is read-only, so nothing can be mounted below: choose another place", in.Target)
	}
	isFile := false
	if m.Source != "" && m.Source != TreeDir(b) { // which would wait until the tree is served
		st, err := os.Stat(m.Source)
		if err != nil {
			return err
		}
		isFile = !st.IsDir()
	}
	top, err := openSource("mount", in.Source)
	if err != nil {
		return err
	}
	w := &walk{at: top, shown: in.Target}
	defer func() { _ = unix.Close(w.at) }()
	if !b.Can.Has(launch.ShimMounts) && os.Geteuid() == 0 {
		w.as = func(f func() error) error { return asUser(b.Config.UID, b.Config.GID, f) }
	}
	rest := strings.TrimPrefix(m.Target, in.Target+"/")
	dir, name := path.Split(rest)
	for _, part := range strings.FieldsFunc(dir, func(r rune) bool { return r == '/' }) {
		if err := w.enter(part, false); err != nil {
			return err
		}
	}
	if err := w.enter(name, isFile); err != nil || !b.Can.Has(launch.ShimMounts) || m.Source == "" {
		return err
	}
	return mountAt(m, w.at)
}

// A walk goes down a tree that others change, and makes what is missing.
type walk struct {
	at    int    // descriptor
	shown string // where that is inside
	// calls what makes something, as another user; nil: as this process
	as func(func() error) error
}

// enter goes to a file or directory, which it makes if it does not exist.
func (w *walk) enter(name string, isFile bool) error {
	w.shown = path.Join(w.shown, name)
	flags, kind, want := unix.O_PATH|unix.O_NOFOLLOW|unix.O_DIRECTORY, uint32(unix.S_IFDIR), "directory"
	if isFile {
		flags, kind, want = unix.O_PATH|unix.O_NOFOLLOW, unix.S_IFREG, "file"
	}
	fd, err := beneath.OpenAcross(w.at, name, flags, 0)
	if errors.Is(err, fs.ErrNotExist) {
		if err = w.make(name, isFile); err == nil || errors.Is(err, fs.ErrExist) {
			fd, err = beneath.OpenAcross(w.at, name, flags, 0)
		}
	}
	var st unix.Stat_t
	if err == nil {
		if err = unix.Fstat(fd, &st); err != nil || st.Mode&unix.S_IFMT != kind {
			_ = unix.Close(fd)
			err = cmp.Or(err, error(unix.ENOTDIR))
		}
	}
	switch {
	case errors.Is(err, unix.ELOOP), errors.Is(err, unix.ENOTDIR), errors.Is(err, fs.ErrExist):
		return fmt.Errorf("%s is not a %s, and links are not followed: remove it, or choose another place", w.shown, want)
	case err != nil:
		return fmt.Errorf("%s: %w", w.shown, err)
	}
	_ = unix.Close(w.at)
	w.at = fd
	return nil
}

// make makes an empty file or directory.
func (w *walk) make(name string, isFile bool) error {
	f := func() error {
		if !isFile {
			return unix.Mkdirat(w.at, name, 0o755)
		}
		fd, err := beneath.OpenAcross(w.at, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW, 0o644)
		if err == nil {
			_ = unix.Close(fd)
		}
		return err
	}
	if w.as == nil {
		return f()
	}
	return w.as(f)
}

// asUser calls f with the rights that root's thread has to files as another user
// (setfsuid(2)), who owns what f makes.
func asUser(uid, gid int, f func() error) error {
	done := make(chan error, 1)
	go func() { // ends with f, and its thread with it
		goruntime.LockOSThread()
		_, _ = unix.SetfsgidRetGid(gid)
		_, _ = unix.SetfsuidRetUid(uid)
		if is, _ := unix.SetfsuidRetUid(-1); is != uid { // which changes nothing
			done <- unix.EPERM
			return
		}
		done <- f()
	}()
	return <-done
}

// mountAt mounts m's source, with all that is mounted in it, on the place that fd is open on
// (move_mount(2)).
func mountAt(m *runtime.Mount, fd int) error {
	tree, err := unix.OpenTree(unix.AT_FDCWD, m.Source, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE)
	if err != nil {
		return fmt.Errorf("open_tree: %w", err)
	}
	defer unix.Close(tree)
	if !m.Writable {
		err := unix.MountSetattr(tree, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY})
		if err != nil {
			return fmt.Errorf("make it read-only (which needs Linux 5.12): %w", err)
		}
	}
	if err := unix.MoveMount(tree, "", fd, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH); err != nil {
		return fmt.Errorf("move_mount: %w", err)
	}
	return nil
}

func volumeMounts(b *boot.Params) []runtime.Mount {
	var mounts []runtime.Mount
	for _, v := range b.Config.Volumes {
		mounts = append(mounts, runtime.Mount{Source: statedir.VolumeData(b.Volumes, v.Name), Target: v.Target, Writable: !v.ReadOnly})
	}
	return mounts
}
