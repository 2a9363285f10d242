package beneath

import (
	"errors"
	"os"
	"strings"

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
// an error of looking at it. Where the file system does not tell, CheckNames tries another
// spelling of an existing name; for an empty directory it returns nil.
func CheckNames(dir int) error {
	var fs unix.Statfs_t
	if err := unix.Fstatfs(dir, &fs); err != nil {
		return err
	}
	switch fs.Type {
	case unix.MSDOS_SUPER_MAGIC, exfatMagic, hfsPlusMagic:
		return ErrFolds
	}
	fd, err := Open(dir, ".", unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), ".")
	defer f.Close()
	if flags, err := unix.IoctlGetUint32(fd, unix.FS_IOC_GETFLAGS); err == nil && flags&casefoldFlag != 0 {
		return ErrFolds
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
		if unix.Fstatat(dir, other, &b, unix.AT_SYMLINK_NOFOLLOW) == nil && a.Dev == b.Dev && a.Ino == b.Ino {
			return ErrFolds
		}
		return nil
	}
	return nil
}

// otherCase swaps upper and lower case of ASCII letters.
func otherCase(name string) string {
	return strings.Map(func(r rune) rune {
		if 'a' <= r|0x20 && r|0x20 <= 'z' {
			return r ^ 0x20
		}
		return r
	}, name)
}
