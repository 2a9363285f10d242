package gitscan

import "golang.org/x/sys/unix"

// An inode identifies a file.
type inode struct{ dev, ino uint64 }

// countLinks counts the regular file called name in the directory dir if it has several links,
// up to Options.Files.
func (w *walker) countLinks(dir int, name string) {
	var st unix.Stat_t
	if w.files.Add(-1) < 0 || unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil || st.Nlink < 2 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	at := inode{st.Dev, st.Ino}
	if _, known := w.links[at]; !known {
		w.links[at] = int(st.Nlink)
	}
	w.links[at]--
}

// outer returns the number of files with links that were not found, after the walk.
func (w *walker) outer() int {
	n := 0
	for _, missing := range w.links {
		if missing > 0 {
			n++
		}
	}
	return n
}
