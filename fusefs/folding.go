package fusefs

import (
	"errors"
	"os"
	"strings"
	"unicode"

	"golang.org/x/sys/unix"
)

// Constants of linux/magic.h and linux/fs.h that x/sys lacks.
const (
	exfatMagic   = 0x2011bab0
	hfsPlusMagic = 0x482b
	casefoldFlag = 0x40000000 // FS_CASEFOLD_FL
)

// ErrFolds is CheckNames's error for a file system that ignores case.
var ErrFolds = errors.New("the file system takes names that differ only in case for the same: another spelling would get around the rules for a name")

// CheckNames returns ErrFolds if the file system of the directory open as dir ignores case, or
// an error of looking at it.
func CheckNames(dir int) error {
	folds, err := foldsCase(dir)
	if err == nil && folds {
		err = ErrFolds
	}
	return err
}

// foldsCase reports whether the directory open as dir ignores case. Where the file system does
// not tell, foldsCase tries another spelling of an existing name; for an empty directory it
// reports false.
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
	names, _ := f.Readdirnames(enough) // on an error, those that were read
	there := map[string]bool{}
	for _, name := range names {
		there[name] = true
	}
	for _, name := range names {
		other := otherCase(name)
		if there[other] {
			continue // a name without letters, or one of two that differ in case
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

// otherCase swaps upper and lower case of ASCII letters.
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
