package gitscan

import "golang.org/x/sys/unix"

// An inode identifies a file.
type inode struct{ dev, ino uint64 }

// A tally is the number of links that a file has, and of those that were found.
type tally struct{ has, found uint64 }

// look counts the regular file called name in the directory dir if it has several links,
// up to Options.Files.
func (w *walker) look(dir int, name string) {
	var st unix.Stat_t
	if w.files.Add(-1) < 0 || unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil || st.Nlink < 2 {
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

// outer returns the number of files with links that were not found, after the walk.
func (w *walker) outer() int {
	n := 0
	for _, t := range w.links {
		if t.found < t.has {
			n++
		}
	}
	return n
}
