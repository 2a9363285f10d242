package store

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"wolffia/internal/sys/beneath"
	"wolffia/internal/sys/filelock"
	"wolffia/internal/sys/rmtree"
	"wolffia/runtime"
)

// ownedDir begins the names of owned layers.
const ownedDir = "owned-"

// OwnedLayer returns the directory of a layer to put over the own tree of an image that Get or Pin
// has found: the files of Owners are in it, with their owners. It is empty for an image without
// such files. The layer is made once for each kind, which tells which ids the owners are on the
// disk: fill makes it, by FillOwned, in a process that may change the owner of files to them.
func (s *Store) OwnedLayer(ctx context.Context, id, kind string, fill func(tree, owners, layer *os.File) error) (dir string, err error) {
	image := filepath.Join(s.path, hexOf(id))
	owners, err := beneath.OpenPlain(filepath.Join(image, ownersFile), unix.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", storeError(err)
	}
	defer owners.Close()
	dir = filepath.Join(image, ownedDir+kind)
	if _, err := os.Lstat(dir); err == nil {
		return dir, nil
	}
	release, err := filelock.Flock(ctx, image)
	if err != nil {
		return "", storeError(err)
	}
	defer release()
	if _, err := os.Lstat(dir); err == nil { // another process was faster
		return dir, nil
	}
	name := ownedDir + kind + coming
	if err := rmtree.RemovePath(image, name); err != nil { // of a process that was killed
		return "", storeError(err)
	}
	if err := os.Mkdir(dir+coming, 0o700); err != nil {
		return "", storeError(err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, rmtree.RemovePath(image, name))
		}
	}()
	if err := os.Chmod(dir+coming, 0o755); err != nil { // whatever the umask
		return "", storeError(err)
	}
	tree, err := os.Open(s.Rootfs(id))
	if err != nil {
		return "", storeError(err)
	}
	defer tree.Close()
	layer, err := os.Open(dir + coming)
	if err != nil {
		return "", storeError(err)
	}
	defer layer.Close()
	if err := fill(tree, owners, layer); err != nil {
		return "", runtime.Errorf(runtime.ErrUnavailable, "the owners of files of image %s: %w", Short(id), err)
	}
	return dir, storeError(errors.Join(syncFS(image), os.Rename(dir+coming, dir)))
}

// FillOwned copies the files of an image's tree that owners, a file of Owned, lists into an empty
// layer, with owners, modes and file capabilities. Ids that this process's user namespace lacks
// become 65534. tree and layer are directories; all in tree is hostile.
func FillOwned(tree, owners, layer *os.File) error {
	all, err := decodeOwners(owners)
	if err != nil {
		return err
	}
	f := &filler{tree: int(tree.Fd()), layer: int(layer.Fd()), made: map[string]bool{".": true}, names: map[uint64]string{}}
	if err := layer.Chmod(0o755); err != nil { // whatever the umask
		return err
	}
	if err := f.times("."); err != nil {
		return err
	}
	for i := range all {
		if err := f.add(&all[i]); err != nil {
			return fmt.Errorf("%q: %w", all[i].Name(), err)
		}
	}
	for _, dir := range slices.Backward(f.dirs) { // what was made in them has changed their times
		if err := f.times(dir); err != nil {
			return err
		}
	}
	return nil
}

// A filler is the state of FillOwned.
type filler struct {
	tree, layer int
	made        map[string]bool   // directories of the layer
	dirs        []string          // the same, parents first
	names       map[uint64]string // of files with several names, by inode
}

// add makes a file, and the directories above it.
func (f *filler) add(o *Owned) error {
	name := cmp.Or(path.Clean("/" + o.Name())[1:], ".")
	if err := f.parents(path.Dir(name)); err != nil {
		return err
	}
	from, err := beneath.Open(f.tree, name, unix.O_PATH|unix.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer unix.Close(from)
	var st unix.Stat_t
	if err := unix.Fstat(from, &st); err != nil {
		return err
	}
	dir, err := beneath.Open(f.layer, path.Dir(name), unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	base := path.Base(name)
	if st.Mode&unix.S_IFMT != unix.S_IFDIR && st.Nlink > 1 {
		if first := f.names[st.Ino]; first != "" {
			return unix.Linkat(f.layer, first, dir, base, 0)
		}
		f.names[st.Ino] = name
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		err = f.mkdir(name)
	case unix.S_IFREG:
		err = f.copy(from, dir, base)
	case unix.S_IFLNK:
		var text string
		if text, err = beneath.Readlink(from, ""); err == nil {
			err = unix.Symlinkat(text, dir, base)
		}
	case unix.S_IFIFO:
		err = unix.Mknodat(dir, base, unix.S_IFIFO|0o600, 0)
	default:
		return nil // the store has no others
	}
	if err == nil {
		err = unix.Fchownat(dir, base, mapped(o.UID), mapped(o.GID), unix.AT_SYMLINK_NOFOLLOW)
	}
	if err == nil && st.Mode&unix.S_IFMT != unix.S_IFLNK {
		err = unix.Fchmodat(dir, base, o.Mode&0o7777, 0)
	}
	if err == nil && o.Caps != nil && st.Mode&unix.S_IFMT == unix.S_IFREG {
		err = setCapabilities(dir, base, o.Caps)
	}
	if err == nil {
		err = f.times(name)
	}
	return err
}

// mapped returns an id, or 65534 for one that no namespace of subordinate ids has.
func mapped(id uint32) int {
	if id > 0xffff {
		return 65534
	}
	return int(id)
}

// setCapabilities sets the file capabilities of a regular file.
func setCapabilities(dir int, base string, value []byte) error {
	fd, err := unix.Openat(dir, base, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.Fsetxattr(fd, "security.capability", value, 0)
}

// parents makes a directory of the tree and those above it, with the modes that they have there.
func (f *filler) parents(dir string) error {
	if f.made[dir] {
		return nil
	}
	if err := f.parents(path.Dir(dir)); err != nil {
		return err
	}
	if err := f.mkdir(dir); err != nil {
		return err
	}
	st, err := f.stat(dir)
	if err != nil {
		return err
	}
	return unix.Fchmodat(f.layer, dir, st.Mode&0o7777, 0)
}

// mkdir makes a directory, unless it is the layer's own.
func (f *filler) mkdir(dir string) error {
	if f.made[dir] {
		return nil
	}
	f.made[dir] = true
	f.dirs = append(f.dirs, dir)
	return unix.Mkdirat(f.layer, dir, 0o700)
}

// stat returns the attributes of a file of the tree.
func (f *filler) stat(name string) (st unix.Stat_t, err error) {
	fd, err := beneath.Open(f.tree, name, unix.O_PATH|unix.O_NOFOLLOW, 0)
	if err != nil {
		return st, err
	}
	defer unix.Close(fd)
	return st, unix.Fstat(fd, &st)
}

// copy copies a regular file.
func (f *filler) copy(from, dir int, base string) error {
	in, err := os.Open(fmt.Sprintf("/proc/self/fd/%d", from))
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := beneath.Create(dir, base, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

// times gives a file of the layer the times that it has in the tree.
func (f *filler) times(name string) error {
	st, err := f.stat(name)
	if err != nil {
		return err
	}
	return unix.UtimesNanoAt(f.layer, name, []unix.Timespec{st.Mtim, st.Mtim}, unix.AT_SYMLINK_NOFOLLOW)
}

// decodeOwners returns what a file of Owned has.
func decodeOwners(r io.Reader) (all []Owned, err error) {
	for d := json.NewDecoder(bufio.NewReader(r)); d.More(); {
		all = append(all, Owned{})
		if err := d.Decode(&all[len(all)-1]); err != nil {
			return nil, err
		}
	}
	return all, nil
}
