package gitpairs

import (
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"wolffia/internal/sys/statefile"
)

// Repository returns what working trees of one repository on the host have in common, a directory:
// of a linked one that of the main one, or of the bare repository; else top itself. top is
// absolute and need not be a working tree. It is linked if the repository says so too: a file .git
// alone may have come with what is in the directory.
func Repository(top string) string {
	own := filepath.Join(top, name)
	dir, ok := strings.CutPrefix(line(own), "gitdir: ")
	if !ok {
		return top
	}
	dir = absolute(dir, top)
	common := Common(dir)
	back := line(filepath.Join(dir, "gitdir"))
	here, err := os.Lstat(own)
	there, err2 := os.Lstat(absolute(back, dir))
	if err != nil || err2 != nil || !os.SameFile(here, there) || filepath.Dir(filepath.Dir(dir)) != common {
		return top
	}
	if real, err := filepath.EvalSymlinks(common); err == nil {
		return strings.TrimSuffix(real, "/"+name)
	}
	return top
}

// line returns the text of a file that names a path.
func line(file string) string {
	b, err := statefile.ReadBytes(file, unix.PathMax)
	if err != nil {
		return ""
	}
	return strings.TrimRight(string(b), "\r\n")
}

// absolute returns path, which begins at dir if it is relative.
func absolute(path, dir string) string {
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(dir, path)
}
