package statefile

import "golang.org/x/sys/unix"

// A Stamp identifies a version of a file that only Write changes. Stamps are comparable with ==.
// The zero Stamp means that the file does not exist.
type Stamp struct {
	inode   uint64
	changed unix.Timespec
}

// StampOf returns the Stamp of the present file at path. A caller that takes it before it reads
// the file reads a later version again.
func StampOf(path string) Stamp {
	var st unix.Stat_t
	if unix.Lstat(path, &st) != nil {
		return Stamp{}
	}
	return Stamp{st.Ino, st.Ctim}
}
