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
			return fmt.Errorf("there is a file, a symbolic link, or a mount, on the way to %q, which git on the host would follow: use a path without", way)
		}
	}
	if err := t.judgePointer(file, old, text, moves{}); err != nil {
		return err
	}
	return t.pointers.set(file, ways, t.isGone)
}

// moves are what paths become by a rename, which may be none.
type moves struct {
	from, to string
	swap     bool
}

// after returns the path that an object has afterwards.
func (m moves) after(path string) string {
	switch {
	case m.from == m.to:
	case isAt(path, m.from):
		return m.to + path[len(m.from):]
	case m.swap && isAt(path, m.to):
		return m.from + path[len(m.to):]
	}
	return path
}

// before returns the path of the object that has path afterwards; there is false if that is none.
func (m moves) before(path string) (now string, there bool) {
	switch {
	case m.from == m.to:
	case isAt(path, m.to):
		return m.from + path[len(m.to):], true
	case isAt(path, m.from):
		return m.to + path[len(m.from):], m.swap
	}
	return path, true
}

// judgePointer returns the reason to refuse text as the content of file, both after m, for what a commit can bring there that git on the
// host checks out: another git directory, or a symbolic link, which is not made through the tree. old is the present content, which
// was judged, or is the user's own.
func (t *tree) judgePointer(file, old, text string, m moves) error {
	part := gitguard.PartOf(file)
	if part.IsConfig() {
		return t.judgeWorktree(file, old, text, m)
	}
	for _, dir := range gitguard.Ways(file, t.shown, text) {
		for _, top := range gitguard.Tracks(file, dir) {
			if now, there := m.before(path.Join(top, gitSuffix)); there && !t.isGone(now) {
				return fmt.Errorf("%q could be replaced by what git on the host checks out at %q: only a git directory above the file, or in no working tree, can be named here", dir, "/"+top)
			}
		}
	}
	if part != gitguard.Link {
		return nil
	}
	for _, name := range []string{"config", "config.worktree"} {
		config := path.Join(gitDirOf(file, t.shown, text), name)
		now, there := m.before(config)
		text, errno := t.textAt(now)
		if !there || absent(errno) {
			continue
		}
		tops, err := gitguard.Worktree(config, text)
		switch {
		case errno != 0:
			return fmt.Errorf("read %s: %w", now, errno)
		case err != nil:
			return fmt.Errorf("%s: %w", now, err)
		case slices.ContainsFunc(tops, func(top string) bool { return top != path.Dir(file) }):
			return fmt.Errorf("%q has another working tree, %q, by its core.worktree", path.Dir(config), tops)
		}
	}
	return nil
}

// judgeWorktree is judgePointer for a configuration: what core.worktree names must be where the file named .git is that leads to
// its git directory, so that no commit can put a link there without that this file is gone.
func (t *tree) judgeWorktree(file, old, text string, m moves) error {
	was, _ := gitguard.Worktree(file, old)
	tops, err := gitguard.Worktree(file, text)
	if err != nil || slices.Equal(tops, was) {
		return nil // else gitguard has refused it, or it is the user's own
	}
	dir, links := path.Dir(file), []string{}
	for _, top := range tops {
		link := path.Join(top, gitSuffix)
		now, there := m.before(link)
		text, errno := t.textAt(now)
		if !there || errno != 0 || gitDirOf(link, t.shown, text) != dir {
			return fmt.Errorf("core.worktree: there is no file %q that leads to %q: git on the host could follow a symbolic link there that it checks out", link, dir)
		}
		links = append(links, link)
	}
	for other := range t.pointers.all(func(_, way string) bool { return m.after(way) == dir }) {
		if link := m.after(other); path.Base(link) == gitSuffix && !slices.Contains(links, link) && !t.isGone(other) {
			return fmt.Errorf("core.worktree: %q leads to %q too, from another working tree", link, dir)
		}
	}
	return nil
}

// judgeRemotes returns the reason to refuse text as the configuration of a repository that was there before: a remote where a commit,
// which git on the host checks out, can bring another repository, or a link to one. Git on the host executes its hooks at a push. A
// repository with a .git that was there before stays there.
func (t *tree) judgeRemotes(file, old, text string) error {
	if t.copied != nil {
		return nil
	}
	known := gitguard.Remotes(file, t.remoteRoot, old)
	for _, dir := range gitguard.Remotes(file, t.remoteRoot, text) {
		if slices.Contains(known, dir) || t.wasThere(path.Join(dir, gitSuffix)) {
			continue
		}
		for _, top := range gitguard.Tracks(file, dir) {
			if !t.isGone(path.Join(top, gitSuffix)) {
				return fmt.Errorf("git on the host could check out another repository at %q, whose hooks a push executes: a remote in the codebase must be in no working tree", "/"+dir)
			}
		}
	}
	return nil
}

// wasThere reports whether there is a directory at a path from the root that this sandbox has not made.
func (t *tree) wasThere(dir string) bool {
	fd, errno := openBeneath(t.root.fd, dir, unix.O_PATH|unix.O_NOFOLLOW, 0)
	if errno != 0 {
		return false
	}
	defer unix.Close(fd)
	obj, errno := t.stat(fdName{fd: fd})
	return errno == 0 && obj.isDir() && !t.created.mayHave(obj.ident)
}

// gitDirOf returns the git directory to which text, the content of a file named .git, leads; "" if that is none.
func gitDirOf(file, root, text string) string {
	ways := gitguard.Ways(file, root, text)
	if len(ways) == 0 {
		return ""
	}
	return ways[len(ways)-1]
}

// absent reports whether errno is that of a file that is not there. A link is the user's own, or on the way, which is another refusal.
func absent(errno syscall.Errno) bool {
	return errno == syscall.ENOENT || errno == syscall.ENOTDIR || errno == syscall.ELOOP || errno == syscall.EXDEV
}

// waysOf returns where git looks because of text, the content of file. If that is a file named .git, these include the
// remotes of its repository whose paths are relative to the working tree, of which one that leads out of the tree is an error.
func (t *tree) waysOf(file, text string) ([]string, error) {
	part := gitguard.PartOf(file)
	if part.IsConfig() {
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
		switch {
		case absent(errno):
			continue
		case errno != 0:
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

// isPlainWay reports whether a path from the directory dir leads over no symbolic link, or mount, to a directory, or to nothing. At a
// remote that is a file, git takes what that says for the path of the repository.
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
		if typ := st.Mode & unix.S_IFMT; err != nil || typ == unix.S_IFLNK || end == len(way) && typ != unix.S_IFDIR {
			return false
		}
	}
	return true
}

// strays returns the reason not to have an object of the type typ, but a directory, at the entry called name of dir: a pointer leads over
// the symbolic link, or to the file. "": there is none.
func (t *tree) strays(dir *node, name string, typ uint32) string {
	if typ == unix.S_IFDIR || !t.leadElsewhere() {
		return ""
	}
	at := t.table.path(dir, name)
	for file := range t.pointers.all(func(_, way string) bool { return way == at || typ == unix.S_IFLNK && isAt(way, at) }) {
		if !t.isGone(file) {
			return fmt.Sprintf("git on the host looks there because of %q, and would follow it", file)
		}
	}
	return ""
}

// tracks returns the reason not to have a working tree whose repository is at e, which is called .git: a commit in it could take the place of
// what a pointer leads to. "": there is none.
func (t *tree) tracks(e *entry) string {
	if e.name != gitSuffix || !t.leadElsewhere() {
		return ""
	}
	top := t.table.path(e.dir, "")
	for file, ways := range t.pointers.all(func(file, way string) bool {
		return !gitguard.PartOf(file).IsConfig() && slices.Contains(gitguard.Tracks(file, way), top)
	}) {
		if !t.isGone(file) {
			return fmt.Sprintf("git on the host looks at %q because of %q, and could check out another repository there", ways[0], file)
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
	if why := t.tracks(dst); why != "" {
		return why
	}
	if !obj.isDir() {
		return t.strays(dst.dir, dst.name, obj.typ())
	}
	m := moves{from, to, r.swap}
	for file, ways := range t.pointers.all(func(_, way string) bool { return strings.HasPrefix(way, to+"/") }) {
		for _, way := range ways {
			if !isPlainWay(a.fd, a.name+way[len(to):]) && !t.isGone(file) {
				return fmt.Sprintf("git on the host looks into it because of %q, and would follow a symbolic link", file)
			}
		}
		if isAt(file, from) {
			continue // below
		}
		text, errno := t.textAt(file)
		if errno == syscall.ENOENT {
			continue
		}
		if errno != 0 || t.judgePointer(m.after(file), "", text, m) != nil {
			return fmt.Sprintf("git on the host looks into it because of %q, and could check out another repository there", file)
		}
	}
	for file, known := range t.pointers.all(func(file, _ string) bool { return strings.HasPrefix(file, from+"/") }) {
		text, errno := t.textAt(file)
		if errno == syscall.ENOENT {
			continue
		}
		moved := movedPointer{from: file, to: m.after(file)}
		ways, err := t.waysOf(moved.to, text)
		if errno != 0 || err != nil || len(ways) < len(known) {
			return fmt.Sprintf("%q in it would lead git on the host elsewhere", file)
		}
		for _, way := range ways {
			if now, there := m.before(way); there && !isPlainWay(t.root.fd, now) {
				return fmt.Sprintf("%q in it would lead git on the host over a symbolic link", file)
			}
		}
		if err := t.judgePointer(moved.to, "", text, m); err != nil {
			return fmt.Sprintf("%q in it: %v", file, err)
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
