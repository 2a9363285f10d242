package boot

import "golang.org/x/sys/unix"

// A Dir tells a directory of the host from others, as long as a process has it open. The zero Dir
// means no directory.
type Dir struct {
	Device uint64 `json:"device"`
	Inode  uint64 `json:"inode"`
}

// DirAt returns the directory that is at path now; the zero Dir if this process finds none there.
func DirAt(path string) Dir {
	var st unix.Stat_t
	if unix.Lstat(path, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return Dir{}
	}
	return Dir{st.Dev, st.Ino}
}

// DirOf returns the open directory fd, of which O_PATH is enough.
func DirOf(fd int) (Dir, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return Dir{}, err
	}
	return Dir{st.Dev, st.Ino}, nil
}
