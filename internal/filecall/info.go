package filecall

import (
	"errors"
	"io/fs"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/bmatcuk/doublestar/v4"
	"golang.org/x/sys/unix"
)

// add describes a file.
func (r *Reply) add(p string) error {
	if len(r.Infos) == MaxInfos {
		return wrong("more than %d files: ask for a part of them", MaxInfos)
	}
	var st unix.Statx_t
	err := again(func() error {
		return unix.Statx(unix.AT_FDCWD, p, unix.AT_SYMLINK_NOFOLLOW, unix.STATX_BASIC_STATS|unix.STATX_BTIME, &st)
	})
	if err != nil {
		return &fs.PathError{Op: "stat", Path: p, Err: err}
	}
	created := st.Ctime
	if st.Mask&unix.STATX_BTIME != 0 {
		created = st.Btime
	}
	r.Infos = append(r.Infos, Info{
		Path: p, Type: kind(st.Mode), Size: int64(st.Size), Modified: at(st.Mtime), Created: at(created), // a size fits
		Owner: names.of(st.Uid, false), Group: names.of(st.Gid, true), Mode: uint32(st.Mode & 0o7777),
	})
	return nil
}

func at(t unix.StatxTimestamp) time.Time { return time.Unix(t.Sec, int64(t.Nsec)).UTC() }

// kind returns the type of a file by its mode.
func kind(mode uint16) string {
	switch mode & unix.S_IFMT {
	case unix.S_IFREG:
		return "file"
	case unix.S_IFDIR:
		return "directory"
	case unix.S_IFLNK:
		return "symlink"
	}
	return "other"
}

// again calls f until no signal interrupts it.
func again(f func() error) error {
	for {
		if err := f(); err != unix.EINTR {
			return err
		}
	}
}

// A nameCache has the names of users and groups that were looked up.
type nameCache map[nameKey]string

type nameKey struct {
	id    uint32
	group bool
}

var names = nameCache{}

// of returns the name of a user or group, or its number if it has no name.
func (c nameCache) of(id uint32, group bool) string {
	k := nameKey{id, group}
	if name, known := c[k]; known {
		return name
	}
	text := strconv.FormatUint(uint64(id), 10)
	name := text
	if group {
		if g, err := user.LookupGroupId(text); err == nil {
			name = g.Name
		}
	} else if u, err := user.LookupId(text); err == nil {
		name = u.Username
	}
	c[k] = name
	return name
}

// list describes what is in a directory, and so many levels deep, in lexical order.
func (r *Reply) list(root string, depth int) error {
	return r.walk(root, func(rel string, d fs.DirEntry) (matches bool, err error) {
		if d.IsDir() && strings.Count(rel, "/")+1 >= depth {
			err = fs.SkipDir
		}
		return true, err
	})
}

// search describes the files below a directory that match a pattern, in lexical order; empty: all.
func (r *Reply) search(root, pattern string) error {
	if !doublestar.ValidatePattern(pattern) {
		return wrong("pattern %q: invalid", pattern)
	}
	whole := strings.Contains(pattern, "/")
	return r.walk(root, func(rel string, d fs.DirEntry) (matches bool, err error) {
		name := d.Name()
		if whole {
			name = rel
		}
		return !d.IsDir() && (pattern == "" || doublestar.MatchUnvalidated(pattern, name)), nil
	})
}

// walk describes what is below a directory, as far as it matches. It follows no symbolic links below it.
// What cannot be read is left out.
func (r *Reply) walk(root string, match func(rel string, d fs.DirEntry) (matches bool, err error)) error {
	real, err := directory(root)
	if e, ok := errors.AsType[*Error](err); ok && e.Kind == KindNotDir {
		return wrong("%q: not a directory", root)
	}
	if err != nil {
		return err
	}
	w := &walk{res: new(Reply)}
	err = w.each(real, func(rel string, d fs.DirEntry) error {
		matches, skip := match(rel, d)
		if matches {
			err := r.add(filepath.Join(root, rel))
			if err != nil && !errors.Is(err, fs.ErrNotExist) { // it has gone meanwhile
				return err
			}
		}
		return skip
	})
	if err == nil && w.res.Truncated {
		err = wrong("more than %d files: ask for a part of them", maxVisited)
	}
	return err
}
