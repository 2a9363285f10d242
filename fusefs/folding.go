package fusefs

import (
	"errors"
	"os"
	"strings"
	"unicode"

	"golang.org/x/sys/unix"
)

// What linux/magic.h and linux/fs.h have of this and x/sys does not.
const (
	exfatMagic   = 0x2011bab0
	hfsPlusMagic = 0x482b
	casefoldFlag = 0x40000000 // FS_CASEFOLD_FL
)

// ErrFolds refuses a tree of which the rules could be got around.
var ErrFolds = errors.New("its file system takes names that differ in case for the same, so that rules for names hide nothing")

// CheckNames returns ErrFolds if the directory open as dir cannot be served for that; or
// an error of looking at it.
func CheckNames(dir int) error {
	folds, err := foldsCase(dir)
	if err == nil && folds {
		err = ErrFolds
	}
	return err
}

// foldsCase reports whether the directory open as dir takes names that differ in case
// for the same: then there is a name for everything that no rule tells of. Where the
// file system does not say so it shows by a name that is there; an empty directory
// tells nothing.
func foldsCase(dir int) (bool, error) {
	var fs unix.Statfs_t
	if err := unix.Fstatfs(dir, &fs); err != nil {
		return false, err
	}
	switch fs.Type {
	case unix.MSDOS_SUPER_MAGIC, exfatMagic, hfsPlusMagic:
		return true, nil
	}
	fd, errno := openBeneath(dir, ".", unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if errno != 0 {
		return false, errno
	}
	f := os.NewFile(uintptr(fd), ".")
	defer f.Close()
	if flags, err := unix.IoctlGetUint32(fd, unix.FS_IOC_GETFLAGS); err == nil && flags&casefoldFlag != 0 {
		return true, nil
	}
	const enough = 1000
	names, _ := f.Readdirnames(enough) // an error shows when it is listed
	there := map[string]bool{}
	for _, name := range names {
		there[name] = true
	}
	for _, name := range names {
		other := otherCase(name)
		if there[other] {
			continue // itself, without letters, or one of two that are told apart
		}
		var a, b unix.Stat_t
		if unix.Fstatat(dir, name, &a, unix.AT_SYMLINK_NOFOLLOW) != nil {
			continue // gone
		}
		err := unix.Fstatat(dir, other, &b, unix.AT_SYMLINK_NOFOLLOW)
		return err == nil && a.Dev == b.Dev && a.Ino == b.Ino, nil
	}
	return false, nil
}

// otherCase makes capital letters small, and small ones capital.
func otherCase(name string) string {
	return strings.Map(func(r rune) rune {
		if r > unicode.MaxASCII {
			return r
		}
		if unicode.IsUpper(r) {
			return unicode.ToLower(r)
		}
		return unicode.ToUpper(r)
	}, name)
}
