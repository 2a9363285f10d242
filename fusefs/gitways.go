package fusefs

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"wolffia/internal/gitguard"
	"wolffia/perm"
)

// A pointer is a file in the tree by which git on the host finds a directory elsewhere: a file named .git, a configuration, a
// list of other objects. Package gitguard judges the paths in it by their names, so that no symbolic link may be on the way:
// not when the pointer is written, and none may be put there later, as long as there is the pointer. A pointer that moves
// with its directory is judged anew, since relative paths lead elsewhere then.
//
// A copied tree has none: what is git's in it never comes to the host. Pointers that were there when the rules were made are
// package gitscan's.

// pointers are those that were written through the tree. The methods of tree that use them need tree.renameMu.
type pointers struct {
	keep func(files []string) error // Options.Pointed; nil: they are not kept

	mu   sync.Mutex
	ways map[string][]string // by the pointer's path from the root, where git looks; guarded by mu
}

const (
	maxPointers = 4096                              // of a tree
	maxWay      = unix.PathMax - unix.NAME_MAX - 10 // bytes; table.path returns all of such a path
)

// set records that the pointer at file leads over ways. It forgets pointers for which gone returns true, if there are many.
func (p *pointers) set(file string, ways []string, gone func(file string) bool) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.ways) >= maxPointers {
		for other := range p.ways {
			if gone(other) {
				delete(p.ways, other)
			}
		}
	}
	switch _, known := p.ways[file]; {
	case len(ways) == 0:
		delete(p.ways, file)
		return nil
	case known:
	case len(p.ways) >= maxPointers:
		return fmt.Errorf("there are more than %d files that lead git elsewhere: remove some", maxPointers)
	default:
		if err := p.record(file); err != nil {
			return err
		}
	}
	if p.ways == nil {
		p.ways = map[string][]string{}
	}
	p.ways[file] = ways
	return nil
}

// record keeps the names of all pointers, with more. The caller holds p.mu.
func (p *pointers) record(more ...string) error {
	if p.keep == nil {
		return nil
	}
	if err := p.keep(slices.Sorted(slices.Values(slices.AppendSeq(more, maps.Keys(p.ways))))); err != nil {
		return fmt.Errorf("record a file, so that its paths stay guarded: %w", err)
	}
	return nil
}

// willMove makes sure that pointers are known to a later server of the tree, wherever they are.
func (p *pointers) willMove(all []movedPointer) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var files []string
	for _, m := range all {
		files = append(files, m.to)
	}
	return p.record(files...)
}

// move records that pointers are elsewhere now.
func (p *pointers) move(all []movedPointer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, m := range all {
		delete(p.ways, m.from)
	}
	for _, m := range all {
		p.ways[m.to] = m.ways
	}
}

// all returns the pointers for which match returns true of their file or one of their ways, and those ways; nil if there
// are none.
func (p *pointers) all(match func(file, way string) bool) (found map[string][]string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for file, ways := range p.ways {
		for _, way := range ways {
			if !match(file, way) {
				continue
			}
			if found == nil {
				found = map[string][]string{}
			}
			found[file] = append(found[file], way)
		}
	}
	return found
}

// leadElsewhere reports whether a sandbox has made pointers in the tree that can lead git on the host elsewhere.
func (t *tree) leadElsewhere() bool {
	t.pointers.mu.Lock()
	defer t.pointers.mu.Unlock()
	return len(t.pointers.ways) > 0 && t.rules.Checks()
}

// isAt reports whether a path is at dir or below it.
func isAt(path, dir string) bool { return path == dir || strings.HasPrefix(path, dir+"/") }

// loadPointers records pointers that an earlier server of the tree had.
func (t *tree) loadPointers(files []string) {
	keep := t.pointers.keep
	t.pointers.keep = nil // they are kept
	for _, file := range files {
		if text, errno := t.textAt(file); errno == 0 {
			ways, _ := t.waysOf(file, text)
			_ = t.pointers.set(file, ways, t.isGone) // there were no more then
		}
	}
	t.pointers.keep = keep
}

// follow returns the reason not to have text as the content of file, which gitguard allows: a link on a way. If there is none,
// it records the ways. old is the present content. The caller holds t.renameMu for writing, and then writes the file.
func (t *tree) follow(file, old, text string) error {
	if t.copied != nil {
		return nil
	}
	ways, err := t.waysOf(file, text)
	if err != nil {
		return err
	}
	known, _ := t.waysOf(file, old)
	for _, way := range ways {
		switch {
		case max(len(file), len(way)) > maxWay:
			return fmt.Errorf("the path of %.100q..., or one in it, is too long", file)
		case slices.Contains(known, way):
			continue
		}
		if way != "" {
			if _, l := t.judgePath(way, true); l == perm.None {
				return fmt.Errorf("the rules hide %q", way)
			}
		}
		if !isPlainWay(t.root.fd, way) {
			return fmt.Errorf("there is a symbolic link, or a mount, on the way to %q, which git on the host would follow: use a path without", way)
		}
	}
	return t.pointers.set(file, ways, t.isGone)
}

// waysOf returns where git looks because of text, the content of file. If that is a file named .git, these include the
// remotes of its repository whose paths are relative to the working tree, of which one that leads out of the tree is an error.
func (t *tree) waysOf(file, text string) ([]string, error) {
	part := gitguard.PartOf(file)
	if part == gitguard.Config {
		return gitguard.Ways(file, t.remoteRoot, text), nil
	}
	ways := gitguard.Ways(file, t.shown, text)
	if part != gitguard.Link || len(ways) == 0 {
		return ways, nil
	}
	repo := ways[len(ways)-1]
	for _, dir := range []string{repo, path.Dir(path.Dir(repo))} { // of a linked working tree the second
		config := path.Join(dir, "config")
		text, errno := t.textAt(config)
		switch errno {
		case 0:
		case syscall.ENOENT, syscall.ENOTDIR, syscall.ELOOP, syscall.EXDEV: // a link is the user's own, or on the way, which is another refusal
			continue
		default:
			return nil, fmt.Errorf("read %s: %w", config, errno)
		}
		more, err := gitguard.RemoteWays(config, path.Dir(file), text)
		if err != nil {
			return nil, err
		}
		ways = append(ways, more...)
	}
	return ways, nil
}

// textAt returns the content of the regular file at a path from the root, over no link.
func (t *tree) textAt(file string) (string, syscall.Errno) {
	fd, errno := openBeneath(t.root.fd, file, unix.O_PATH|unix.O_NOFOLLOW, 0)
	if errno != 0 {
		return "", errno
	}
	defer unix.Close(fd)
	obj, errno := t.stat(fdName{fd: fd})
	if errno != 0 {
		return "", errno
	}
	text, _, errno := t.content(fdName{t.root.fd, file}, obj)
	return text, errno
}

// isGone reports whether nothing is at a path from the root.
func (t *tree) isGone(file string) bool {
	fd, errno := openBeneath(t.root.fd, file, unix.O_PATH|unix.O_NOFOLLOW, 0)
	if errno == 0 {
		unix.Close(fd)
	}
	return errno == syscall.ENOENT || errno == syscall.ENOTDIR
}

// isPlainWay reports whether no name of a path from the directory dir is a symbolic link, or a mount. Names that are not there
// are none.
func isPlainWay(dir int, way string) bool {
	for end := 0; end < len(way); end++ {
		next := strings.IndexByte(way[end:], '/')
		if end += next; next < 0 {
			end = len(way)
		}
		fd, errno := openBeneath(dir, way[:end], unix.O_PATH|unix.O_NOFOLLOW, 0)
		switch errno {
		case 0:
		case syscall.ENOENT, syscall.ENOTDIR:
			return true
		default:
			return false
		}
		var st unix.Stat_t
		err := unix.Fstat(fd, &st)
		unix.Close(fd)
		if err != nil || st.Mode&unix.S_IFMT == unix.S_IFLNK {
			return false
		}
	}
	return true
}

// linkStrays returns the reason not to have a symbolic link at the entry called name of dir: a pointer leads over it. "": there
// is none.
func (t *tree) linkStrays(dir *node, name string) string {
	if !t.leadElsewhere() {
		return ""
	}
	at := t.table.path(dir, name)
	for file := range t.pointers.all(func(_, way string) bool { return isAt(way, at) }) {
		if !t.isGone(file) {
			return fmt.Sprintf("git on the host looks there because of %q, and would follow the link", file)
		}
	}
	return ""
}

// A movedPointer is a pointer that moves with a directory.
type movedPointer struct {
	from, to string
	ways     []string // after that
}

// renameStrays returns the reason to refuse r: that a link would come onto the way of a pointer, or that a pointer would lead
// elsewhere. "": there is none; then it sets r.pointers.
func (t *tree) renameStrays(r *renaming) string {
	r.pointers = nil
	if !t.leadElsewhere() {
		return ""
	}
	from, to := t.table.path(r.from.dir, r.from.name), t.table.path(r.to.dir, r.to.name)
	why := t.endStrays(r, &r.to, r.src, r.srcAt, from, to)
	if why == "" && r.swap && r.dst != nil {
		why = t.endStrays(r, &r.from, r.dst, r.dstAt, to, from)
	}
	if why == "" && len(r.pointers) > 0 {
		if err := t.pointers.willMove(r.pointers); err != nil {
			return err.Error()
		}
	}
	return why
}

// endStrays is renameStrays for one object of r: obj, which is at a, has the path from and gets the path to, the entry dst.
func (t *tree) endStrays(r *renaming, dst *entry, obj *object, a fdName, from, to string) string {
	if obj.typ() == unix.S_IFLNK {
		return t.linkStrays(dst.dir, dst.name)
	}
	if !obj.isDir() {
		return ""
	}
	for file, ways := range t.pointers.all(func(_, way string) bool { return strings.HasPrefix(way, to+"/") }) {
		for _, way := range ways {
			if !isPlainWay(a.fd, a.name+way[len(to):]) && !t.isGone(file) {
				return fmt.Sprintf("git on the host looks into it because of %q, and would follow a symbolic link", file)
			}
		}
	}
	for file, known := range t.pointers.all(func(file, _ string) bool { return strings.HasPrefix(file, from+"/") }) {
		text, errno := t.textAt(file)
		if errno == syscall.ENOENT {
			continue
		}
		moved := movedPointer{from: file, to: to + file[len(from):]}
		ways, err := t.waysOf(moved.to, text)
		if errno != 0 || err != nil || len(ways) < len(known) {
			return fmt.Sprintf("%q in it would lead git on the host elsewhere", file)
		}
		for _, way := range ways {
			now, at := way, true
			switch {
			case isAt(way, to):
				now = from + way[len(to):]
			case isAt(way, from):
				now, at = to+way[len(from):], r.swap // else nothing is there then
			}
			if at && !isPlainWay(t.root.fd, now) {
				return fmt.Sprintf("%q in it would lead git on the host over a symbolic link", file)
			}
		}
		moved.ways = ways
		r.pointers = append(r.pointers, moved)
	}
	return ""
}

// isLinked reports whether the repository with the git directory d, which is at dir, may have other working trees than the
// directory that it is in.
func (t *tree) isLinked(dir *node, d openDir) bool {
	const name = "worktrees"
	below := t.table.path(dir, name) + "/"
	return t.exists(d, name) || len(t.pointers.all(func(_, way string) bool { return strings.HasPrefix(way, below) })) > 0
}
