package filecall

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/user"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"wolffia/internal/archive"
)

// Do does what a request asks for.
func Do(q *Request) *Reply {
	r := &Reply{}
	if err := r.do(q); err != nil {
		r.Err = errorOf(err)
	}
	return r
}

// errorOf returns the kind of an error.
func errorOf(err error) *Error {
	e := &Error{KindOther, err.Error()}
	var own *Error
	switch {
	case errors.As(err, &own):
		return own
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ELOOP):
		e.Kind = KindMissing
	case errors.Is(err, fs.ErrExist):
		e.Kind = KindExists
	case errors.Is(err, fs.ErrPermission), errors.Is(err, unix.EROFS):
		e.Kind = KindDenied
	case errors.Is(err, archive.ErrNotRegular), errors.Is(err, archive.ErrTooLarge), errors.Is(err, unix.EISDIR), errors.Is(err, unix.EINVAL),
		errors.Is(err, unix.ENAMETOOLONG):
		e.Kind = KindInvalid
	}
	return e
}

func wrong(format string, args ...any) error {
	return &Error{KindInvalid, fmt.Sprintf(format, args...)}
}

func (r *Reply) do(q *Request) error {
	switch q.Op {
	case OpInfo:
		for _, p := range q.Paths {
			if err := r.add(p); err != nil {
				return err
			}
		}
		return nil
	case OpList:
		return r.walk(q.Path, max(q.Depth, 1), "")
	case OpSearch:
		return r.walk(q.Path, 1<<30, q.Pattern)
	case OpRemove:
		return each(q.Paths, remove)
	case OpRmdir:
		return each(q.Paths, rmdir)
	case OpMkdir:
		return eachMode(q.Modes, func(p string, m *Mode) error {
			if err := os.MkdirAll(p, 0o777); err != nil {
				return err
			}
			return m.apply(p)
		})
	case OpMode:
		return eachMode(q.Modes, func(p string, m *Mode) error {
			if _, err := os.Stat(p); err != nil { // also where nothing is to be changed
				return err
			}
			return m.apply(p)
		})
	case OpMove:
		for _, m := range q.Moves {
			if err := move(m.From, m.To); err != nil {
				return err
			}
		}
		return nil
	case OpReplace:
		return r.replace(q.Replace)
	case OpHost:
		var err error
		r.Host, err = host()
		return err
	}
	return wrong("operation %q: unknown", q.Op)
}

func each(paths []string, do func(string) error) error {
	for _, p := range paths {
		if err := do(p); err != nil {
			return err
		}
	}
	return nil
}

func eachMode(modes map[string]Mode, do func(string, *Mode) error) error {
	for _, p := range sorted(modes) {
		m := modes[p]
		if err := do(p, &m); err != nil {
			return err
		}
	}
	return nil
}

func sorted[T any](m map[string]T) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

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
		Path: p, Type: kind(st.Mode), Size: int64(st.Size), Modified: at(st.Mtime), Created: at(created), //nolint:gosec // a size fits
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

// walk describes what is below a directory, in lexical order. It follows no symbolic links.
// What cannot be read below it is left out.
func (r *Reply) walk(root string, depth int, pattern string) error {
	if _, err := path.Match(pattern, ""); err != nil {
		return wrong("pattern %q: invalid", pattern)
	}
	st, err := os.Lstat(root)
	if err != nil {
		return err
	}
	if !st.IsDir() {
		return wrong("%q: not a directory", root)
	}
	top := strings.Count(filepath.Clean(root), "/")
	if filepath.Clean(root) == "/" {
		top = 0
	}
	return filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		switch {
		case err != nil && p == root:
			return err
		case err != nil:
			return nil //nolint:nilerr // left out
		case p == root:
			return nil
		}
		matches := true
		if pattern != "" {
			matches, _ = path.Match(pattern, d.Name()) // its form is valid
		}
		if matches {
			err := r.add(p)
			if err != nil && !errors.Is(err, fs.ErrNotExist) { // it has gone meanwhile
				return err
			}
		}
		if d.IsDir() && strings.Count(p, "/")-top >= depth {
			return fs.SkipDir
		}
		return nil
	})
}

// remove deletes what is not a directory.
func remove(p string) error {
	st, err := os.Lstat(p)
	if err != nil {
		return err
	}
	if st.IsDir() {
		return wrong("%q: a directory: delete it as one", p)
	}
	return os.Remove(p)
}

// rmdir deletes a directory with all that is below it, on its own file system.
func rmdir(p string) error {
	var st unix.Stat_t
	if err := again(func() error { return unix.Lstat(p, &st) }); err != nil {
		return &fs.PathError{Op: "stat", Path: p, Err: err}
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return wrong("%q: not a directory", p)
	}
	return removeBelow(p, st.Dev)
}

func removeBelow(dir string, device uint64) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		p := filepath.Join(dir, e.Name())
		if !e.IsDir() {
			err = os.Remove(p)
		} else {
			var st unix.Stat_t
			if err = again(func() error { return unix.Lstat(p, &st) }); err == nil && st.Dev != device {
				err = wrong("%q: another file system is mounted there", p)
			}
			if err == nil {
				err = removeBelow(p, device)
			}
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return os.Remove(dir)
}

// apply changes mode and owner of a file; symbolic links are followed.
func (m *Mode) apply(p string) error {
	if m.Mode&^0o7777 != 0 {
		return wrong("mode %o: more than permission bits", m.Mode)
	}
	if m.Owner != "" || m.Group != "" {
		uid, err := id(m.Owner, false)
		if err != nil {
			return err
		}
		gid, err := id(m.Group, true)
		if err != nil {
			return err
		}
		if err := os.Chown(p, uid, gid); err != nil {
			return err
		}
	}
	if m.Mode == 0 {
		return nil
	}
	if err := again(func() error { return unix.Chmod(p, m.Mode) }); err != nil {
		return &fs.PathError{Op: "chmod", Path: p, Err: err}
	}
	return nil
}

// id returns the number of a user or group; -1 for an empty name, which changes nothing.
func id(name string, group bool) (int, error) {
	if name == "" {
		return -1, nil
	}
	text := name
	if group {
		if g, err := user.LookupGroup(name); err == nil {
			text = g.Gid
		}
	} else if u, err := user.Lookup(name); err == nil {
		text = u.Uid
	}
	n, err := strconv.ParseUint(text, 10, 31)
	if err != nil {
		return 0, wrong("%q: no such user or group in the sandbox", name)
	}
	return int(n), nil
}

// move renames. Between file systems it copies a regular file.
func move(from, to string) error {
	if _, err := os.Lstat(from); err != nil {
		return err
	}
	exists := &fs.PathError{Op: "rename", Path: to, Err: fs.ErrExist}
	err := again(func() error { return unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, to, unix.RENAME_NOREPLACE) })
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) { // the file system has no such flag
		if _, lerr := os.Lstat(to); lerr == nil {
			return exists
		}
		err = again(func() error { return unix.Rename(from, to) })
	}
	switch {
	case errors.Is(err, unix.EXDEV):
		return moveCopy(from, to)
	case errors.Is(err, unix.EEXIST):
		return exists
	case err != nil:
		return &os.LinkError{Op: "rename", Old: from, New: to, Err: err}
	}
	return nil
}

func moveCopy(from, to string) error {
	st, err := os.Lstat(from)
	if err != nil {
		return err
	}
	if _, err := os.Lstat(to); err == nil {
		return &fs.PathError{Op: "rename", Path: to, Err: fs.ErrExist}
	}
	if _, err := os.Stat(filepath.Dir(to)); err != nil {
		return err
	}
	if !st.Mode().IsRegular() {
		return wrong("%q: only a file can be moved to another file system: copy the directory with a command", from)
	}
	err = archive.PutFrom(func(w io.Writer) error { return archive.Get(w, from, 1<<62) }, to)
	if err != nil {
		return err
	}
	if err := os.Chmod(to, st.Mode()&fs.ModePerm); err != nil {
		return err
	}
	return os.Remove(from)
}

// replace replaces text in files.
func (r *Reply) replace(all map[string]Replace) error {
	r.Counts = map[string]int{}
	for _, p := range sorted(all) {
		q := all[p]
		if q.Old == "" {
			return wrong("%q: the text to replace is empty", p)
		}
		var content bytes.Buffer
		if err := archive.Get(&content, p, MaxText); err != nil {
			return err
		}
		n := bytes.Count(content.Bytes(), []byte(q.Old))
		r.Counts[p] = n
		if n == 0 {
			continue
		}
		if content.Len()+n*(len(q.New)-len(q.Old)) > MaxText {
			return wrong("%q: it would have more than %d bytes", p, MaxText)
		}
		target, err := filepath.EvalSymlinks(p) // Put replaces a link
		if err != nil {
			return err
		}
		changed := bytes.ReplaceAll(content.Bytes(), []byte(q.Old), []byte(q.New))
		if err := archive.Put(bytes.NewReader(changed), target, int64(len(changed))); err != nil {
			return err
		}
	}
	return nil
}

// host reads what /proc says of the machine.
func host() (*Host, error) {
	stat, err := os.ReadFile("/proc/stat")
	if err != nil {
		return nil, err
	}
	h := &Host{}
	for line := range strings.Lines(string(stat)) {
		f := strings.Fields(line)
		if len(f) < 5 || !strings.HasPrefix(f[0], "cpu") {
			continue
		}
		if f[0] != "cpu" {
			h.CPUs++
			continue
		}
		for i, text := range f[1:min(len(f), 9)] { // guest time is part of user time
			n, err := strconv.ParseUint(text, 10, 64)
			if err != nil {
				return nil, err
			}
			h.Total += n
			if i != 3 && i != 4 { // idle, iowait
				h.Busy += n
			}
		}
	}
	mem, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(mem)) {
		f := strings.Fields(line)
		if len(f) < 2 {
			continue
		}
		n, err := strconv.ParseUint(f[1], 10, 50)
		switch {
		case err != nil:
		case f[0] == "MemTotal:":
			h.MemTotal = n << 10
		case f[0] == "MemAvailable:":
			h.MemUnused = n << 10
		}
	}
	return h, nil
}
