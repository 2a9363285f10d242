package volume

import (
	"io/fs"
	"os"

	"golang.org/x/sys/unix"

	"wolffia/internal/sys/beneath"
)

// Usage is how much is in a volume.
type Usage struct {
	Bytes int64 // allocated on the disk
	Files int   // and directories
	// More says that there is more: Usage looks at 300000 names, and at those at most 64
	// directories deep.
	More bool
}

const (
	usageNames = 300000
	usageDepth = 64
)

// Usage returns how much is in a volume, as far as its user may list it.
func (s *Store) Usage(name string) (*Usage, error) {
	u := new(Usage)
	fd, err := unix.Open(s.Data(name), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, storeError(err)
	}
	u.add(os.NewFile(uintptr(fd), "data"), 1)
	return u, nil
}

// add counts what is in a directory, and closes it.
func (u *Usage) add(dir *os.File, depth int) {
	defer dir.Close()
	for u.Files < usageNames {
		entries, err := dir.ReadDir(512)
		for _, e := range entries {
			u.one(dir, e, depth)
		}
		if err != nil {
			return
		}
	}
	u.More = true
}

// one counts a name. The content changes meanwhile: what cannot be counted is left out.
func (u *Usage) one(dir *os.File, e fs.DirEntry, depth int) {
	var st unix.Stat_t
	if unix.Fstatat(int(dir.Fd()), e.Name(), &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
		return
	}
	u.Files++
	if st.Nlink <= 1 || st.Mode&unix.S_IFMT == unix.S_IFDIR {
		u.Bytes += st.Blocks * 512
	} else {
		u.Bytes += st.Blocks * 512 / int64(st.Nlink) // each name has its share
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return
	}
	if depth == usageDepth {
		u.More = true
		return
	}
	if fd, err := beneath.Open(int(dir.Fd()), e.Name(), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0); err == nil {
		u.add(os.NewFile(uintptr(fd), e.Name()), depth+1)
	}
}
