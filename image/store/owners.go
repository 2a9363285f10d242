package store

import (
	"bufio"
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"wolffia/internal/sys/beneath"
	"wolffia/runtime"
)

// An Owned is a file of an unpacked image of which the tree on the disk does not have all: its
// owner or group is not root, a part of its mode was dropped, or it has file capabilities. The
// image's file owners (STATE/images/HEX/owners) has one for each such file, as a line of JSON,
// sorted by path; it does not exist without one. All of it is hostile: but for Path, which leads
// to a file of the tree that is not a link's target, and bounds.
type Owned struct {
	Path string `json:"path,omitempty"` // relative to the root, clean
	// Path64 is the path in place of Path if that is not UTF-8.
	Path64 []byte `json:"path64,omitempty"`
	UID    uint32 `json:"uid,omitempty"` // as the image has it, also beyond 65535
	GID    uint32 `json:"gid,omitempty"`
	Mode   uint32 `json:"mode"` // all of it, 07777; without meaning for a symbolic link
	// Caps is the value of the extended attribute security.capability; nil for none.
	Caps []byte `json:"caps,omitempty"`
}

// Name returns the path, in whichever form it is stored.
func (o *Owned) Name() string {
	if o.Path64 != nil {
		return string(o.Path64)
	}
	return o.Path
}

// capability is the key of file capabilities in a layer (tar, "SCHILY.xattr").
const capability = "SCHILY.xattr.security.capability"

// maxCaps bounds the bytes of file capabilities (capabilities(7), VFS_CAP_REVISION_3).
const maxCaps = 24

// Owners returns what the tree of an image that Get or Pin has found does not have, sorted by
// path; nil for a layer of Stage, whose files have their owners on the disk.
func (s *Store) Owners(id string) (all []Owned, err error) {
	f, err := beneath.OpenPlain(filepath.Join(s.path, hexOf(id), ownersFile), unix.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, storeError(err)
	}
	defer f.Close()
	all, err = decodeOwners(f)
	if err != nil {
		return nil, runtime.Errorf(runtime.ErrUnavailable, "image %s is damaged: %s: %w; pull it again", Short(id), ownersFile, err)
	}
	return all, nil
}

// An owner is an Owned in the making, and the inode that it is of: what a later layer has put in
// its place has another one.
type owner struct {
	Owned
	ino uint64
}

// own notes what the tree will not have of the file base in parent.
func (u *unpacker) own(parent int, base, name string, o Owned) error {
	var st unix.Stat_t
	if err := unix.Fstatat(parent, base, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return err
	}
	// the mode of a symbolic link means nothing
	link := st.Mode&unix.S_IFMT == unix.S_IFLNK
	if o.UID == 0 && o.GID == 0 && o.Caps == nil && (link || o.Mode == st.Mode&0o7777) {
		delete(u.owners, name)
		return nil
	}
	if _, ok := u.owners[name]; !ok {
		if u.owned += len(name); u.owned > maxNames {
			return tooLarge("the names of files with owners take more than %d bytes", maxNames)
		}
	}
	o.Path = name
	if !utf8.ValidString(name) {
		o.Path, o.Path64 = "", []byte(name)
	}
	u.owners[name] = owner{o, st.Ino}
	return nil
}

// writeOwners writes the file of Owners, of the files that are still there.
func (u *unpacker) writeOwners(dir string) error {
	maps.DeleteFunc(u.owners, func(name string, o owner) bool { return !u.still(name, o.ino) })
	var all []Owned
	for _, name := range slices.Sorted(maps.Keys(u.owners)) {
		all = append(all, u.owners[name].Owned)
	}
	return writeOwners(dir, all)
}

// writeOwners writes the file of Owners, unless there are none.
func writeOwners(dir string, all []Owned) (err error) {
	if len(all) == 0 {
		return nil
	}
	f, err := os.OpenFile(filepath.Join(dir, ownersFile), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	w := bufio.NewWriter(f)
	for i := range all {
		if err := json.NewEncoder(w).Encode(&all[i]); err != nil {
			return err
		}
	}
	return w.Flush()
}

// still reports whether name is the file with this inode.
func (u *unpacker) still(name string, ino uint64) bool {
	dir, err := u.tree.open(filepath.Dir(name))
	var st unix.Stat_t
	return err == nil && unix.Fstatat(dir, filepath.Base(name), &st, unix.AT_SYMLINK_NOFOLLOW) == nil && st.Ino == ino
}
