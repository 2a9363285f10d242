package cow

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"wolffia/internal/sys/beneath"
)

// Extended attributes of the upper layer (xattr(7)). A sandbox cannot set them: its tree has no
// extended attributes.
const (
	// AttrLower of a directory is the path of its lower half from the codebase's root, without a
	// slash at its beginning or end; empty if it has none and shows nothing of the host's. Without
	// the attribute the lower half has the same name in the lower half of the parent.
	AttrLower = "user.wolffia.lower"
	// AttrData of a regular file is DataLower if the file has attributes only and its content is
	// that of the lower file that AttrLower names.
	AttrData = "user.wolffia.data"
)

// TempPrefix begins the temporary names of Apply in the host's directories. No sandbox can use a
// name that begins so: another one may have the same codebase, and would else put its own content
// at a name that only this one may change.
const TempPrefix = ".wolffia-new-"

// MoveTemps are the names, in the host's codebase of a sandbox with this ID, of a directory that is
// moved to where other rules hold: the new one, and the former one. See package fusefs.
func MoveTemps(id string) [2]string {
	return [2]string{TempPrefix + "move-" + id, TempPrefix + "moved-" + id}
}

// DataLower is the value of AttrData.
const DataLower = "lower"

// MinData is the size in bytes from which a file may have AttrData: a smaller one is copied, which
// costs one more flush.
const MinData = 1 << 20

// IsWhiteout reports whether an object of the upper layer with this mode (of stat(2)) and device
// number is a whiteout.
func IsWhiteout(mode, major, minor uint32) bool {
	return mode&unix.S_IFMT == unix.S_IFCHR && major == 0 && minor == 0
}

// MakeWhiteout makes a whiteout called name, which must not exist, in the directory dir. No
// privilege is needed since Linux 5.8 (mknod(2)). The error is an Errno.
func MakeWhiteout(dir int, name string) error {
	return unix.Mknodat(dir, name, unix.S_IFCHR, 0)
}

// A Half is the kind of lower half of an upper directory.
type Half uint8

// The values of Half.
const (
	Merged Half = iota // it has the same name in the parent's lower half
	Own                // no lower half: the sandbox made the directory
	Moved              // it is at the path of AttrLower: the directory was renamed
)

// Lower returns where the lower half of the upper directory fd is, which may be open with O_PATH,
// and for Moved its path.
func Lower(fd int) (Half, string, error) {
	var buf [unix.PathMax]byte
	n, err := unix.Getxattr(procPath(fd), AttrLower, buf[:])
	switch {
	case errors.Is(err, unix.ENODATA):
		return Merged, "", nil
	case err != nil:
		return Own, "", fmt.Errorf("attribute %s: %w", AttrLower, err)
	case n == 0:
		return Own, "", nil
	}
	p := string(buf[:n])
	if !ValidPath(p) {
		return Own, "", fmt.Errorf("attribute %s: %q is not a path in the codebase", AttrLower, p)
	}
	return Moved, p, nil
}

// SetLower gives the upper directory fd, which may be open with O_PATH, the lower half of half
// and, for Moved, path.
func SetLower(fd int, half Half, path string) error {
	switch {
	case half == Merged:
		if err := unix.Removexattr(procPath(fd), AttrLower); err != nil && !errors.Is(err, unix.ENODATA) {
			return err
		}
		return nil
	case half == Own:
		path = ""
	case !ValidPath(path):
		return fmt.Errorf("lower half at %q: not a path in the codebase", path)
	}
	return unix.Setxattr(procPath(fd), AttrLower, []byte(path), 0)
}

func procPath(fd int) string { return "/proc/self/fd/" + strconv.Itoa(fd) }

// ValidPath reports whether p is a path below the codebase's root: names separated by single
// slashes, no name "." or "..", at most PATH_MAX bytes.
func ValidPath(p string) bool {
	if p == "" || len(p) >= unix.PathMax || strings.IndexByte(p, 0) >= 0 {
		return false
	}
	for name := range strings.SplitSeq(p, "/") {
		if name == "" || name == "." || name == ".." || len(name) > unix.NAME_MAX {
			return false
		}
	}
	return true
}

// Probe reports whether the file system of the directory dir, in which it makes and removes
// objects called "probe" and "probe2", can hold an upper layer: user attributes on directories,
// whiteouts, and exchange and whiteout by rename (renameat2(2)). The error names what is missing.
func Probe(dir int) (err error) {
	const a, b = "probe", "probe2"
	clean := func() {
		for _, name := range []string{a, b} {
			if unix.Unlinkat(dir, name, 0) != nil {
				_ = unix.Unlinkat(dir, name, unix.AT_REMOVEDIR)
			}
		}
	}
	clean()
	defer clean()
	if err := unix.Mkdirat(dir, a, 0o700); err != nil {
		return fmt.Errorf("make a directory: %w", err)
	}
	fd, err := beneath.Open(dir, a, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return fmt.Errorf("open a directory: %w", err)
	}
	err = SetLower(fd, Moved, "a/b")
	if err == nil {
		var half Half
		var p string
		if half, p, err = Lower(fd); err == nil && (half != Moved || p != "a/b") {
			err = errors.New("they do not keep their value")
		}
	}
	_ = unix.Close(fd)
	if err != nil {
		return fmt.Errorf("user extended attributes: %w", err)
	}
	if err := MakeWhiteout(dir, b); err != nil {
		return fmt.Errorf("make a character device 0:0: %w", err)
	}
	if err := unix.Renameat2(dir, a, dir, b, unix.RENAME_EXCHANGE); err != nil {
		return fmt.Errorf("exchange two names: %w", err)
	}
	clean()
	if err := unix.Mkdirat(dir, a, 0o700); err != nil {
		return fmt.Errorf("make a directory: %w", err)
	}
	if err := unix.Renameat2(dir, a, dir, b, unix.RENAME_NOREPLACE|unix.RENAME_WHITEOUT); err != nil {
		return fmt.Errorf("rename and leave a whiteout: %w", err)
	}
	return nil
}

// text returns s as the two fields of JSON that it has in the log: text if it is UTF-8, else bytes.
func text(s string) (string, []byte) {
	if utf8.ValidString(s) {
		return s, nil
	}
	return "", []byte(s)
}
