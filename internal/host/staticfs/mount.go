package staticfs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"wolffia/internal/sys/beneath"
	"wolffia/perm"
	"wolffia/runtime"
)

// Bind mounts the directory that codebase is open on at place, without the file systems
// that are mounted in it. The caller has a mount namespace, and the right to mount in it.
// An error is of class ErrUnsupported or ErrUnavailable.
func Bind(codebase int, place string) error {
	base, err := bind(codebase, place)
	if err != nil {
		return err
	}
	return unix.Close(base)
}

// bind is Bind. It returns the mount's root, for the caller to close.
func bind(codebase int, place string) (base int, err error) {
	base, err = clone(codebase, 0)
	if errors.Is(err, unix.EINVAL) { // all mounts of the host are locked in a namespace of another user (mount_namespaces(7))
		return -1, runtime.Errorf(runtime.ErrUnsupported, "another file system is mounted in the codebase, which cannot be hidden without FUSE: unmount it, or choose a codebase without it, with --mount for the other")
	}
	if err == nil {
		if err = unix.MoveMount(base, "", unix.AT_FDCWD, place, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
			_ = unix.Close(base)
		}
	}
	if err != nil {
		return -1, unavailable("mount the codebase", err)
	}
	return base, nil
}

// unavailable returns an error of mounting.
func unavailable(what string, err error) error {
	if errors.Is(err, unix.ENOSYS) {
		return runtime.Errorf(runtime.ErrUnsupported, "%s: --filter static and none need Linux 5.12: %w", what, err)
	}
	return runtime.Errorf(runtime.ErrUnavailable, "%s: %w", what, err)
}

// clone returns a new mount of what fd is open on, alone, with the flags of fd's mount and
// attributes of mount_setattr(2), and without devices and set-id bits. It is not attached.
func clone(fd int, attributes uint64) (int, error) {
	made, err := unix.OpenTree(fd, "", unix.AT_EMPTY_PATH|unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return -1, err
	}
	set := unix.MountAttr{Attr_set: attributes | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV}
	if err := unix.MountSetattr(made, "", unix.AT_EMPTY_PATH, &set); err != nil {
		_ = unix.Close(made)
		return -1, err
	}
	return made, nil
}

// Mount mounts codebase at place as Bind does, plans by p which of its entries are masked, and
// mounts the masks. It makes the directory dir for its own files, which must be in memory. git has
// the git directories that are the sandbox's own; it may be nil.
func Mount(codebase int, place, dir string, p *perm.Policy, git *Git) (*Stats, error) {
	base, err := bind(codebase, place)
	if err != nil {
		return nil, err
	}
	defer unix.Close(base)
	root, err := openTree(base, "")
	if err != nil {
		return nil, runtime.Errorf(runtime.ErrUnavailable, "list the codebase: %w", err)
	}
	made, err := plan(p, root, git)
	root.close()
	if err != nil {
		return nil, err
	}
	m := &mounter{dir: dir}
	if err := m.begin(); err != nil {
		return nil, unavailable("prepare masks", err)
	}
	defer m.end()
	if m.git, err = git.show(dir); err != nil {
		return nil, unavailable("show the sandbox's own git directories", err)
	}
	if err := m.root(base, made.root); err != nil {
		return nil, unavailable("mask what the rules hide or protect in the codebase", err)
	}
	if err := m.git.hosts(); err != nil {
		return nil, unavailable("show the objects of the host's git directories", err)
	}
	return &made.Stats, nil
}

// A mounter mounts a plan.
type mounter struct {
	dir     string
	masks   [2]int // an empty file and an empty directory, without permissions
	skeleta int    // how many directories of kind only it has made
	git     *shown // nil: no git directory is the sandbox's own
}

// begin makes the masks.
func (m *mounter) begin() (err error) {
	m.masks = [2]int{-1, -1}
	if err := os.Mkdir(m.dir, 0o755); err != nil {
		return err
	}
	for i, name := range []string{"file", "directory"} {
		if err := mask(filepath.Join(m.dir, name), i == 1); err != nil {
			return err
		}
		if m.masks[i], err = unix.Open(filepath.Join(m.dir, name), unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0); err != nil {
			return err
		}
	}
	return nil
}

func (m *mounter) end() {
	m.git.close() // nil is fine
	for _, fd := range m.masks {
		if fd >= 0 {
			_ = unix.Close(fd)
		}
	}
}

// mask makes an empty file or directory without permissions.
func mask(path string, dir bool) error {
	if dir {
		return os.Mkdir(path, 0)
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0)
	if err != nil {
		return err
	}
	return f.Close()
}

// root mounts the plan of the codebase's root, over the mount at base.
func (m *mounter) root(base int, n *node) error {
	place := base
	if n.as != open {
		over, err := m.over(base, base, n)
		if err != nil {
			return err
		}
		defer unix.Close(over)
		place = over
	}
	return m.fill(base, place, n)
}

// fill mounts the planned entries of a directory. source is the directory in the mount of the
// whole codebase, place where it is shown: the same, or a mount of it, or a directory with names
// only.
func (m *mounter) fill(source, place int, n *node) error {
	for _, e := range n.nodes {
		if err := m.entry(source, place, n, e); err != nil {
			return fmt.Errorf("%q: %w", e.name, err)
		}
	}
	return nil
}

// errChanged means that a program on the host has changed a file since it was listed.
var errChanged = errors.New("was replaced while the codebase was prepared: try again")

// entry mounts an entry. It skips an entry that the host has removed meanwhile.
func (m *mounter) entry(source, place int, parent, e *node) error {
	if e.is == link || parent.as == only && e.as == hidden {
		return nil // skeleton has made it
	}
	at, err := beneath.Open(place, e.name, unix.O_PATH|unix.O_NOFOLLOW, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer unix.Close(at)
	from, err := beneath.Open(source, e.name, unix.O_PATH|unix.O_NOFOLLOW, 0)
	if errors.Is(err, fs.ErrNotExist) && parent.as == only {
		return nil
	}
	if err != nil {
		return err
	}
	defer unix.Close(from)
	var shown, real unix.Stat_t
	if err := errors.Join(unix.Fstat(at, &shown), unix.Fstat(from, &real)); err != nil {
		return err
	}
	folders := e.is == folder
	if (real.Mode&unix.S_IFMT == unix.S_IFDIR) != folders || (shown.Mode&unix.S_IFMT == unix.S_IFDIR) != folders ||
		real.Mode&unix.S_IFMT == unix.S_IFLNK || parent.as != only && (shown.Dev != real.Dev || shown.Ino != real.Ino) {
		return errChanged
	}
	inside := at
	if e.as != keep && !(e.as == only && parent.as == only) {
		if inside, err = m.over(from, at, e); err != nil {
			return err
		}
		defer unix.Close(inside)
	}
	return m.fill(from, inside, e)
}

// over mounts what the plan shows of the file or directory from over the one at at, and
// returns the new mount's root, for the caller to close.
func (m *mounter) over(from, at int, e *node) (made int, err error) {
	switch e.as {
	case open:
		made, err = clone(from, 0)
	case shut:
		made, err = clone(from, unix.MOUNT_ATTR_RDONLY)
	case hidden:
		mask := m.masks[0]
		if e.is == folder {
			mask = m.masks[1]
		}
		made, err = clone(mask, unix.MOUNT_ATTR_RDONLY)
	case only:
		made, err = m.skeleton(e)
	case own:
		made, err = m.git.own(e, m.dir)
	default:
		return -1, fmt.Errorf("a plan without a mount: %d", e.as)
	}
	if err != nil {
		return -1, err
	}
	if err := moveTo(made, at); err != nil {
		_ = unix.Close(made)
		return -1, err
	}
	return made, nil
}

// moveTo mounts the mount that made is the root of on what at is open on.
func moveTo(made, at int) error {
	return unix.MoveMount(made, "", at, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH)
}

// skeleton makes a directory with the names that the plan has of a directory of kind only,
// and returns a read-only mount of it.
func (m *mounter) skeleton(n *node) (int, error) {
	m.skeleta++
	path := filepath.Join(m.dir, strconv.Itoa(m.skeleta))
	if err := names(path, n); err != nil {
		return -1, err
	}
	dir, err := unix.Open(path, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	defer unix.Close(dir)
	return clone(dir, unix.MOUNT_ATTR_RDONLY)
}

// names makes the directory at path with a name for each of the nodes of n, to mount on or
// to be seen.
func names(path string, n *node) error {
	if err := os.Mkdir(path, 0o755); err != nil {
		return err
	}
	for _, e := range n.nodes {
		var err error
		switch name := filepath.Join(path, e.name); {
		case e.is == link:
			err = os.Symlink(e.text, name)
		case e.as == only:
			err = names(name, e)
		default:
			err = mask(name, e.is == folder)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
