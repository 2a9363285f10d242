package gitcopy

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"wolffia/internal/git/gitconfig"
	"wolffia/internal/sys/beneath"
	"wolffia/internal/sys/rmtree"
)

// Bounds of one copy: git's own files, without objects.
const (
	maxNames   = 200_000
	maxBytes   = 2 << 30
	maxPointer = 1 << 20 // of a file that is read as a whole
	maxChain   = 5       // of alternates, as git
	maxDepth   = 40      // of directories below one another
	maxInclude = 10      // files that include another, as git

	// While git is running on the host, a copy is tried up to attempts times, after a pause that
	// grows.
	attempts = 5
	pause    = 10 * time.Millisecond
)

// errLarge is the error for a repository beyond the bounds.
var errLarge = fmt.Errorf("git's own files, without objects, are more than %d or have more than %d bytes",
	maxNames, int64(maxBytes))

// A copying is one copy of a repository.
type copying struct {
	*Copier
	at           string   // the path of the copy in the store
	names, bytes int64    // that may be copied yet
	leave        string   // the suffix of names to skip in the present part; "": skip none
	lenient      bool     // skip unreadable entries of the present part
	made         []string // the git directories in the copy, relative to it
	tree         int      // the working tree of the first of these; -1: it is not known
}

// The parts of a git directory that a copy has; gitrepository-layout(5). All others are the host's
// alone: objects, large files of programs around git, and their secrets. What belongs to one
// working tree is in its own git directory, the rest in the common one.
var (
	ownParts = []string{
		"HEAD", "index", "ORIG_HEAD", "FETCH_HEAD", "MERGE_HEAD", "MERGE_MSG", "MERGE_MODE", "MERGE_RR", "MERGE_AUTOSTASH",
		"AUTO_MERGE", "SQUASH_MSG", "CHERRY_PICK_HEAD", "REVERT_HEAD", "REBASE_HEAD", "BISECT_START", "BISECT_LOG",
		"BISECT_NAMES", "BISECT_TERMS", "BISECT_EXPECTED_REV", "BISECT_ANCESTORS_OK", "rebase-merge", "rebase-apply",
		"sequencer", "info/sparse-checkout", "logs/HEAD",
	}
	ownPrefix = "sharedindex."

	commonParts = []string{
		"shallow", "info/exclude", "info/attributes", "info/grafts", "reftable", "logs/refs/stash", "logs/refs/heads",
		// Without these, if the user may not read them, git inside does the same.
		"hooks", "description",
	}
	optional = []string{"hooks", "description"}
)

// repository makes the private repository called tmp in work, for the path at of the store: a copy
// of git, the host's git directory, which it closes. tree is its working tree. away says that
// git's working tree finds git by a pointer, which the copy does not need.
//
// For a directory that is not a repository it makes an empty directory, which is not a repository
// to git either.
func (c *Copier) repository(tmp, at string, tree int, git *os.File, away bool) error {
	defer git.Close()
	common, err := commonOf(git)
	if err != nil {
		return err
	}
	if common != git {
		defer common.Close()
	}
	if !isRepository(git, common) {
		return unix.Mkdirat(c.work, tmp, 0o755)
	}
	for try := 1; ; try++ {
		before := stampOf(git, common)
		p, err := c.tryRepository(tmp, at, tree, git, common, away)
		if err != nil {
			return err
		}
		// The last is what a reader of the files would have seen too.
		if try == attempts || slices.Equal(before, stampOf(git, common)) {
			return p.finish(tmp, at)
		}
		if err := rmtree.Remove(c.dir, tmp); err != nil {
			return err
		}
		time.Sleep(time.Duration(try) * pause)
	}
}

// tryRepository makes the copy tmp.
func (c *Copier) tryRepository(tmp, at string, tree int, git, common *os.File, away bool) (*copying, error) {
	if err := unix.Mkdirat(c.work, tmp, 0o755); err != nil {
		return nil, err
	}
	to, err := openDir(c.work, tmp)
	if err != nil {
		return nil, err
	}
	defer unix.Close(to)
	p := &copying{Copier: c, at: at, names: maxNames, bytes: maxBytes, tree: tree}
	return p, p.gitDirectory(to, "", git, common, away, 0)
}

// finish has the references of the copy tmp, for the path at of the store, on the disk, and records
// them: after a power cut the sandbox would seem to have deleted those that were lost.
func (p *copying) finish(tmp, at string) error {
	for _, dir := range p.made {
		from := filepath.Join(tmp, dir)
		if _, err := lstat(p.work, from+"/reftable"); err == nil {
			continue // it is not synchronised
		}
		for _, name := range []string{"HEAD", "packed-refs"} {
			if err := flush(p.work, from+"/"+name); err != nil {
				return err
			}
		}
		if p.Begin == nil {
			continue
		}
		if err := p.Begin(filepath.Join(p.Dir.Name(), p.Work, from), filepath.Join(at, dir)); err != nil {
			return err
		}
	}
	return nil
}

// commonOf returns the common directory of git, which is git itself unless it is that of a linked
// working tree.
func commonOf(git *os.File) (*os.File, error) {
	text, err := beneath.ReadFile(int(git.Fd()), "commondir", maxPointer)
	if errors.Is(err, fs.ErrNotExist) {
		return git, nil
	}
	if err != nil {
		return nil, err
	}
	dir := strings.TrimRight(string(text), "\r\n")
	path, seen := dir, dir
	if !filepath.IsAbs(dir) {
		path, seen = git.Name()+"/"+dir, procPath(int(git.Fd()))+"/"+dir
	}
	if dir, err = realPath(path, seen); err != nil {
		return nil, err
	}
	return os.Open(dir)
}

// realPath returns path without links. The result names the same directory as seen, which leads
// there through a descriptor: another sandbox over the codebase can put links in the place of
// directories meanwhile.
func realPath(path, seen string) (string, error) {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return "", err
	}
	a, err := os.Stat(real)
	if err != nil {
		return "", err
	}
	b, err := os.Stat(seen)
	if err == nil && !os.SameFile(a, b) {
		err = fmt.Errorf("%s has moved: %w", path, unix.EAGAIN)
	}
	return real, err
}

// isRepository reports whether git takes git for a git directory.
func isRepository(git, common *os.File) bool {
	_, head := lstat(int(git.Fd()), "HEAD")
	_, objects := lstat(int(common.Fd()), "objects")
	_, refs := lstat(int(common.Fd()), "refs")
	return head == nil && objects == nil && refs == nil
}

// A stamp shows whether a file or directory has changed.
type stamp struct {
	ino, size int64
	mtime     unix.Timespec
}

// stampOf returns the stamp of the files that the copy must have of one moment. It shows whether
// git on the host has changed the repository.
func stampOf(git, common *os.File) (all []stamp) {
	add := func(dir int, name string) {
		if st, err := lstat(dir, name); err == nil {
			all = append(all, stamp{int64(st.Ino), st.Size, st.Mtim})
		} else {
			all = append(all, stamp{})
		}
	}
	for _, name := range []string{"HEAD", "index"} {
		add(int(git.Fd()), name)
	}
	for _, name := range []string{"packed-refs", "config", "reftable/tables.list"} {
		add(int(common.Fd()), name)
	}
	var walk func(dir int, depth int)
	walk = func(dir int, depth int) {
		add(dir, ".")
		if depth > maxDepth || len(all) > maxNames {
			return
		}
		_ = eachEntry(dir, func(e os.DirEntry) error {
			if !e.IsDir() {
				return nil
			}
			if fd, err := openDir(dir, e.Name()); err == nil {
				walk(fd, depth+1)
				unix.Close(fd)
			}
			return nil
		})
	}
	if refs, err := openDir(int(common.Fd()), "refs"); err == nil {
		walk(refs, 0)
		unix.Close(refs)
	}
	return all
}

// gitDirectory fills the directory to, at the path at of the copy, with the copy of git, whose
// common directory is common.
func (p *copying) gitDirectory(to int, at string, git, common *os.File, away bool, depth int) error {
	if depth > maxDepth {
		return errLarge
	}
	p.made = append(p.made, at)
	for _, dir := range []string{
		"objects", "objects/info", "objects/pack", "refs", "refs/heads", "refs/tags", "info", "logs", "logs/refs",
	} {
		if err := unix.Mkdirat(to, dir, 0o755); err != nil {
			return err
		}
	}
	if err := p.objects(to, at, common); err != nil {
		return err
	}
	// git rerere is on where the directory exists. What it has recorded can be of files that the
	// rules hide.
	if _, err := lstat(int(common.Fd()), "rr-cache"); err == nil {
		if err := unix.Mkdirat(to, "rr-cache", 0o755); err != nil {
			return err
		}
	}
	leave := func(s *gitconfig.Setting) bool { return away && s.Name == "core.worktree" }
	if err := p.config(to, common, "config", leave, 0); err != nil {
		return err
	}
	for _, part := range commonParts {
		p.lenient = slices.Contains(optional, part)
		p.leave = ""
		if part == "hooks" {
			p.leave = ".sample"
		}
		if err := p.part(to, int(common.Fd()), part); err != nil {
			return err
		}
	}
	p.lenient, p.leave = false, ""
	if err := p.own(to, git, leave); err != nil {
		return err
	}
	if err := p.refs(to, git, common); err != nil {
		return err
	}
	if err := p.modules(to, at, common, "modules", depth); err != nil {
		return err
	}
	if away { // the working tree's own entry would claim its branch
		return nil
	}
	return p.worktrees(to, at, common)
}

// own copies what the git directory git has for its working tree, but references.
func (p *copying) own(to int, git *os.File, leave func(*gitconfig.Setting) bool) error {
	if err := p.config(to, git, "config.worktree", leave, 0); err != nil {
		return err
	}
	for _, part := range ownParts {
		if err := p.part(to, int(git.Fd()), part); err != nil {
			return err
		}
	}
	if err := p.index(to); err != nil {
		return err
	}
	return eachEntry(int(git.Fd()), func(e os.DirEntry) error {
		if !strings.HasPrefix(e.Name(), ownPrefix) {
			return nil
		}
		return p.entry(to, int(git.Fd()), e.Name(), 0)
	})
}

// worktrees copies what common has of linked working trees.
func (p *copying) worktrees(to int, at string, common *os.File) error {
	from, err := openDir(int(common.Fd()), "worktrees")
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer unix.Close(from)
	if err := unix.Mkdirat(to, "worktrees", 0o755); err != nil {
		return err
	}
	return eachEntry(from, func(e os.DirEntry) error {
		if !e.IsDir() {
			return nil
		}
		name := "worktrees/" + e.Name()
		fd, err := openDir(from, e.Name())
		if err != nil {
			return err
		}
		git := os.NewFile(uintptr(fd), filepath.Join(common.Name(), name))
		defer git.Close()
		for _, dir := range []string{"", "/info", "/logs", "/refs"} {
			if err := unix.Mkdirat(to, name+dir, 0o755); err != nil {
				return err
			}
		}
		tree, err := openDir(to, name)
		if err != nil {
			return err
		}
		defer unix.Close(tree)
		p.made = append(p.made, filepath.Join(at, name))
		for _, line := range []string{"gitdir", "commondir"} {
			text, err := beneath.ReadFile(fd, line, maxPointer)
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err == nil {
				err = p.put(tree, line, []byte(p.inside(string(text))))
			}
			if err != nil {
				return err
			}
		}
		for _, name := range ownRefs {
			if err := p.part(tree, fd, "refs/"+name); err != nil {
				return err
			}
		}
		if err := p.entry(tree, fd, "locked", 0); err != nil {
			return err
		}
		return p.own(tree, git, func(*gitconfig.Setting) bool { return false })
	})
}

// objects has git inside read the objects of common, the host's git directory, and of what that
// reads in turn.
func (p *copying) objects(to int, at string, common *os.File) error {
	var lines strings.Builder
	dirs := []string{common.Name() + "/objects"}
	for i := 0; i < len(dirs); i++ {
		seen := dirs[i]
		if i == 0 {
			seen = procPath(int(common.Fd())) + "/objects"
		}
		real, err := realPath(dirs[i], seen)
		if i > 0 && errors.Is(err, fs.ErrNotExist) {
			continue // git works without it as well
		}
		if err == nil && filepath.Base(real) != "objects" {
			err = fmt.Errorf("objects are in %s, which is not called objects", real)
		}
		if err == nil && i == maxChain {
			err = fmt.Errorf("alternates are more than %d", maxChain)
		}
		if err != nil {
			return err
		}
		n, err := p.number(filepath.Dir(real))
		if err != nil {
			return err
		}
		for _, line := range p.objectPaths(at, n, real) {
			lines.WriteString(line + "\n")
		}
		text, err := os.ReadFile(filepath.Join(real, "info/alternates"))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		for line := range strings.Lines(string(text)) {
			at := strings.TrimRight(line, "\n")
			if at == "" || at[0] == '#' {
				continue
			}
			if at[0] == '"' {
				return fmt.Errorf("%s/info/alternates has a quoted path, which is not read", real)
			}
			if !filepath.IsAbs(at) {
				at = filepath.Join(real, at)
			}
			if !slices.Contains(dirs, at) {
				dirs = append(dirs, at)
			}
		}
	}
	return p.put(to, "objects/info/alternates", []byte(lines.String()))
}

// objectPaths returns the lines by which the directory at of the copy finds the host's objects at
// real, which belong to the git directory number n.
func (p *copying) objectPaths(at string, n int, real string) []string {
	if p.Shown != "" {
		return []string{filepath.Join(p.Shown, strconv.Itoa(n), "objects")}
	}
	shown := ShownAt(n) + "/objects"
	paths := []string{"../" + shown}
	// git-lfs follows absolute paths only, and go-git follows no other path beside an absolute one
	// (with EnableDotGitCommonDir). git takes both for one directory. It warns of paths that do not
	// exist, as when the sandbox has moved a directory: so only the top one gets an absolute path.
	path := filepath.Join(p.MountPoint, p.at, at, shown)
	_, err := os.Stat(filepath.Join(filepath.Dir(real), "lfs"))
	if err == nil && p.at == gitName && filepath.IsAbs(path) && !strings.Contains(path, "\n") {
		paths = append(paths, path)
	}
	return paths
}

// modules copies the git directories of submodules below the directory at of the host's git
// directory common, whose copy has the path top. A submodule's name can have slashes.
func (p *copying) modules(to int, top string, common *os.File, at string, depth int) error {
	from, err := openDir(int(common.Fd()), at)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	}
	defer unix.Close(from)
	if depth > maxDepth {
		return errLarge
	}
	if err := unix.Mkdirat(to, at, 0o755); err != nil {
		return err
	}
	return eachEntry(from, func(e os.DirEntry) error {
		name := e.Name()
		below := at + "/" + name
		if !e.IsDir() {
			return nil
		}
		if p.names--; p.names < 0 {
			return errLarge
		}
		if _, err := lstat(from, name+"/HEAD"); err != nil {
			return p.modules(to, top, common, below, depth+1)
		}
		fd, err := openDir(from, name)
		if err != nil {
			return err
		}
		git := os.NewFile(uintptr(fd), filepath.Join(common.Name(), below))
		defer git.Close()
		if err := unix.Mkdirat(to, below, 0o755); err != nil {
			return err
		}
		sub, err := openDir(to, below)
		if err != nil {
			return err
		}
		defer unix.Close(sub)
		return p.gitDirectory(sub, filepath.Join(top, below), git, git, false, depth+1)
	})
}

// config copies a configuration without credentials, and the files beside it that it includes.
func (p *copying) config(to int, from *os.File, name string, leave func(*gitconfig.Setting) bool, depth int) error {
	text, err := beneath.ReadFile(int(from.Fd()), name, maxPointer)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	plain, includes := plainConfig(string(text), p.Credentials, leave)
	if err := p.put(to, name, []byte(plain)); err != nil {
		if depth > 0 {
			return nil // another include has made it, or its directory does not exist
		}
		return err
	}
	for _, include := range includes {
		if depth == maxInclude || strings.Contains(include, "/") {
			continue
		}
		if err := p.config(to, from, include, leave, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// part copies the file or directory at the path at, if the host has it.
func (p *copying) part(to, from int, at string) error {
	dir, name := filepath.Split(at)
	if dir != "" {
		source, err := beneath.Open(from, filepath.Clean(dir), unix.O_RDONLY|unix.O_DIRECTORY, 0)
		if err != nil {
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			return err
		}
		defer unix.Close(source)
		target, err := openDir(to, filepath.Clean(dir))
		if err != nil {
			return err
		}
		defer unix.Close(target)
		from, to = source, target
	}
	return p.entry(to, from, name, 0)
}

// entry copies the entry called name of the directory from. It skips an entry that is not a file,
// a directory or a link, and the locks of a running git.
func (p *copying) entry(to, from int, name string, depth int) error {
	st, err := lstat(from, name)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	}
	if p.names--; p.names < 0 || depth > maxDepth {
		return errLarge
	}
	if ext := filepath.Ext(name); ext == ".lock" || ext == p.leave && ext != "" {
		return nil
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		return p.file(to, from, name, st)
	case unix.S_IFLNK:
		target, err := os.Readlink(filepath.Join(procPath(from), name))
		if err != nil {
			return err
		}
		return unix.Symlinkat(target, to, name)
	case unix.S_IFDIR:
		source, err := openDir(from, name)
		if p.lenient && errors.Is(err, fs.ErrPermission) {
			return nil
		}
		if err != nil {
			return err
		}
		defer unix.Close(source)
		if err := unix.Mkdirat(to, name, 0o755); err != nil && err != unix.EEXIST {
			return err
		}
		target, err := openDir(to, name)
		if err != nil {
			return err
		}
		defer unix.Close(target)
		return eachEntry(source, func(e os.DirEntry) error { return p.entry(target, source, e.Name(), depth+1) })
	}
	return nil
}

// file copies a file with its mode and times: by the times of an index git finds files that have
// changed since it was written.
func (p *copying) file(to, from int, name string, st *unix.Stat_t) error {
	if p.bytes -= st.Size; p.bytes < 0 {
		return errLarge
	}
	in, err := beneath.Open(from, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) || p.lenient && errors.Is(err, fs.ErrPermission) {
			return nil // removed, or not this user's
		}
		return fmt.Errorf("%s: %w", name, err)
	}
	source := os.NewFile(uintptr(in), name)
	defer source.Close()
	var now unix.Stat_t
	if err := unix.Fstat(in, &now); err != nil || now.Mode&unix.S_IFMT != unix.S_IFREG {
		return err
	}
	target, err := beneath.Create(to, name, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(target, io.LimitReader(source, maxBytes))
	err = errors.Join(err, unix.Fchmod(int(target.Fd()), now.Mode&0o777|0o600), target.Close())
	if err != nil {
		return err
	}
	return unix.UtimesNanoAt(to, name, []unix.Timespec{now.Atim, now.Mtim}, unix.AT_SYMLINK_NOFOLLOW)
}
