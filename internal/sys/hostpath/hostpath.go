// Package hostpath follows the paths of the host that a caller names. It tells whether a sandbox
// could have changed where one leads, by a symbolic link or a file where the sandbox writes.
package hostpath

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"wolffia/internal/pathname"
)

// maxLinks is how many symbolic links the kernel follows in one path: path_resolution(7).
const maxLinks = 40

// Resolve returns an absolute path without symbolic links. place is which of the places a sandbox
// could change the path in: it holds a link that the path follows, or what the path names; empty:
// none. places are absolute, without symbolic links. The error is that of the first name that
// cannot be followed, an *fs.PathError.
func Resolve(path string, places []string) (real, place string, err error) {
	real, place, err = ResolveLinks(path, places)
	if err == nil && place == "" {
		place, err = Holder(real, places)
	}
	return real, place, err
}

// ResolveLinks is [Resolve] for what may itself be in one of the places: only a link there counts.
func ResolveLinks(path string, places []string) (real, place string, err error) {
	real, err = follow(path, func(at string, st fs.FileInfo) (err error) {
		if place == "" && st.Mode()&fs.ModeSymlink != 0 {
			place, err = Holder(at, places)
		}
		return err
	})
	return real, place, err
}

// follow returns an absolute path without symbolic links. It calls visit with each directory, file
// and link on the way, at its place without links.
func follow(path string, visit func(at string, st fs.FileInfo) error) (at string, err error) {
	at = "/"
	rest := strings.Split(path, "/")
	for links := 0; len(rest) > 0; {
		next := filepath.Join(at, rest[0])
		if rest = rest[1:]; next == at {
			continue
		}
		st, err := os.Lstat(next)
		if err == nil {
			err = visit(next, st)
		}
		switch {
		case err != nil:
			return "", err
		case st.Mode()&fs.ModeSymlink != 0:
			text, err := os.Readlink(next)
			if err != nil {
				return "", err
			}
			if links++; links > maxLinks {
				return "", &fs.PathError{Op: "open", Path: path, Err: unix.ELOOP}
			}
			if filepath.IsAbs(text) {
				at = "/"
			}
			rest = append(strings.Split(text, "/"), rest...)
		case len(rest) > 0 && !st.IsDir():
			return "", &fs.PathError{Op: "open", Path: next, Err: unix.ENOTDIR}
		default:
			at = next
		}
	}
	return at, nil
}

// Holder returns which of the places is a file or directory, or holds it; empty: none. path is
// absolute, and only its last part may be a symbolic link, which is not followed. Files are
// compared, not only names: a directory can have several. A place that does not exist holds
// nothing.
func Holder(path string, places []string) (string, error) {
	for _, place := range places {
		if pathname.Within(path, place) {
			return place, nil
		}
		at, err := os.Stat(place)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return "", err
		}
		for p := path; ; p = filepath.Dir(p) {
			if st, err := os.Lstat(p); err == nil && os.SameFile(at, st) {
				return place, nil
			}
			if p == "/" {
				break
			}
		}
	}
	return "", nil
}
