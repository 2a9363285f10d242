package gitscan

import "golang.org/x/sys/unix"

// An inode tells one file from another.
type inode struct{ dev, ino uint64 }

// A tally is how many links a file has, and how many of them were found.
type tally struct{ has, found uint64 }

// look counts the regular file called name in the directory dir, if it has several links and
// there may be more files looked at.
func (w *walker) look(dir int, name []byte) {
	var st unix.Stat_t
	if w.files.Add(-1) < 0 || unix.Fstatat(dir, string(name), &st, unix.AT_SYMLINK_NOFOLLOW) != nil || st.Nlink < 2 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.links == nil {
		w.links = map[inode]tally{}
	}
	at := inode{st.Dev, st.Ino}
	w.links[at] = tally{uint64(st.Nlink), w.links[at].found + 1}
}

// outer returns how many files have links that were not found. The walk has ended.
func (w *walker) outer() int {
	n := 0
	for _, t := range w.links {
		if t.found < t.has {
			n++
		}
	}
	return n
}
