package gitcopy

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"wolffia/internal/beneath"
	"wolffia/internal/gitconfig"
)

// Bounds of one copy: git's own files, without objects.
const (
	maxNames   = 200_000
	maxBytes   = 2 << 30
	maxPointer = 1 << 20 // of a file that is read as a whole
	maxChain   = 5       // of alternates, as git
	maxDepth   = 40      // of directories below one another
	attempts   = 5       // while git on the host is at work
)

// errLarge is the error for a repository beyond the bounds.
var errLarge = fmt.Errorf("git's own files, without objects, are more than %d or have more than %d bytes", maxNames, int64(maxBytes))

// A copying is one copy of a repository.
type copying struct {
	*Copier
	at           string   // the path of the copy in the store
	names, bytes int64    // that may be copied yet
	leave        string   // the end of names that are left out of the present part; "": of none
	made         []string // the git directories in the copy, relative to it
}

// The parts of a git directory that a copy has; gitrepository-layout(5). All others are the host's alone: objects, large
// files of programs around git, and their secrets. What belongs to one working tree is in its own git directory, the rest in
// the common one.
var (
	ownParts = []string{
		"HEAD", "index", "config.worktree", "ORIG_HEAD", "FETCH_HEAD", "MERGE_HEAD", "MERGE_MSG", "MERGE_MODE", "MERGE_RR", "MERGE_AUTOSTASH",
		"AUTO_MERGE", "SQUASH_MSG", "CHERRY_PICK_HEAD", "REVERT_HEAD", "REBASE_HEAD", "BISECT_START", "BISECT_LOG", "BISECT_NAMES",
		"BISECT_TERMS", "BISECT_EXPECTED_REV", "BISECT_ANCESTORS_OK", "rebase-merge", "rebase-apply", "sequencer", "info/sparse-checkout",
	}
	ownPrefixes = []string{"sharedindex."}
	ownRefs     = []string{"bisect", "rewritten", "worktree"}

	commonParts = []string{
		"config", "packed-refs", "description", "shallow", "info/exclude", "info/attributes", "info/grafts", "hooks", "branches", "remotes",
		"reftable", "logs/refs/stash", "logs/refs/heads",
	}
)

// repository makes the private repository called tmp in work, for the path at of the store: a copy of git, the host's git directory,
// which it closes. away tells that git's working tree finds git by a pointer, which the copy does not need.
func (c *Copier) repository(tmp, at string, git *os.File, away bool) error {
	defer git.Close()
	common, err := commonOf(git)
	if err != nil {
		return err
	}
	if common != git {
		defer common.Close()
	}
	for try := 1; ; try++ {
		if err := unix.Mkdirat(c.work, tmp, 0o755); err != nil {
			return err
		}
		before := stampOf(git, common)
		p := &copying{Copier: c, at: at, names: maxNames, bytes: maxBytes}
		to, err := p.into(c.work, tmp)
		if err == nil {
			err = p.gitDirectory(to, "", git, common, away, 0)
			unix.Close(to)
		}
		if err != nil {
			return err
		}
		if slices.Equal(before, stampOf(git, common)) || try == attempts { // the last is what a reader of the files would have seen too
			for _, dir := range p.made {
				if err := c.Begin(filepath.Join(c.Dir.Name(), c.Work, tmp, dir), filepath.Join(at, dir)); err != nil {
					return err
				}
			}
			return nil
		}
		if err := unix.Renameat(c.work, tmp, c.work, c.temp()); err != nil {
			return err
		}
	}
}

// commonOf returns the common directory of git, which is git itself unless it is that of a linked working tree.
func commonOf(git *os.File) (*os.File, error) {
	text, err := readAt(int(git.Fd()), "commondir", maxPointer)
	if errors.Is(err, fs.ErrNotExist) {
		return git, nil
	}
	if err != nil {
		return nil, err
	}
	dir := strings.TrimRight(string(text), "\r\n")
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(git.Name(), dir)
	}
	return os.Open(dir)
}

// stampOf tells whether git on the host has changed a repository: what of its files the copy must have of one moment.
func stampOf(git, common *os.File) (all []unix.Timespec) {
	add := func(dir *os.File, name string) {
		st, err := lstat(int(dir.Fd()), name)
		if err != nil {
			st = new(unix.Stat_t)
		}
		all = append(all, st.Mtim, unix.Timespec{Sec: int64(st.Ino), Nsec: st.Size})
	}
	for _, name := range []string{"HEAD", "index"} {
		add(git, name)
	}
	for _, name := range []string{"packed-refs", "refs/heads", "refs/tags", "refs/remotes", "refs/stash", "config"} {
		add(common, name)
	}
	return all
}

// gitDirectory fills the directory to, at the path at of the copy, with the copy of git, whose common directory is common.
func (p *copying) gitDirectory(to int, at string, git, common *os.File, away bool, depth int) error {
	if depth > maxDepth {
		return errLarge
	}
	p.made = append(p.made, at)
	for _, dir := range []string{"objects", "objects/info", "objects/pack", "refs", "refs/heads", "refs/tags", "info", "logs", "logs/refs", hostsName} {
		if err := unix.Mkdirat(to, dir, 0o755); err != nil {
			return err
		}
	}
	if err := p.objects(to, at, common); err != nil {
		return err
	}
	// git rerere is on where the directory exists. What it has recorded can be of files that the rules hide.
	if _, err := lstat(int(common.Fd()), "rr-cache"); err == nil {
		if err := unix.Mkdirat(to, "rr-cache", 0o755); err != nil {
			return err
		}
	}
	leave := func(s *gitconfig.Setting) bool { return away && s.Name == "core.worktree" }
	for _, from := range []struct {
		dir      *os.File
		parts    []string
		prefixes []string
	}{{common, commonParts, nil}, {git, ownParts, ownPrefixes}} {
		for _, part := range from.parts {
			if part == "config" || part == "config.worktree" {
				if err := p.config(to, from.dir, part, leave); err != nil {
					return err
				}
				continue
			}
			p.leave = ""
			if part == "hooks" {
				p.leave = ".sample"
			}
			if err := p.part(to, int(from.dir.Fd()), part); err != nil {
				return err
			}
		}
		p.leave = ""
		err := eachName(int(from.dir.Fd()), func(name string) error {
			if !slices.ContainsFunc(from.prefixes, func(prefix string) bool { return strings.HasPrefix(name, prefix) }) {
				return nil
			}
			return p.part(to, int(from.dir.Fd()), name)
		})
		if err != nil {
			return err
		}
	}
	if err := p.part(to, int(git.Fd()), "logs/HEAD"); err != nil {
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

// worktrees copies what common has of linked working trees.
func (p *copying) worktrees(to int, at string, common *os.File) error {
	if err := p.part(to, int(common.Fd()), "worktrees"); err != nil {
		return err
	}
	dir, err := p.into(to, "worktrees")
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	return eachName(dir, func(name string) error {
		p.made = append(p.made, filepath.Join(at, "worktrees", name))
		return nil
	})
}

// refs copies the references: those of the working tree of its own git directory, the others of the common one.
func (p *copying) refs(to int, git, common *os.File) error {
	from, err := beneath.Open(int(common.Fd()), "refs", unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	defer unix.Close(from)
	refs, err := beneath.Open(to, "refs", unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	defer unix.Close(refs)
	err = eachName(from, func(name string) error {
		if git != common && slices.Contains(ownRefs, name) {
			return nil
		}
		return p.entry(refs, from, name, 0)
	})
	if err != nil || git == common {
		return err
	}
	for _, name := range ownRefs {
		if err := p.part(to, int(git.Fd()), "refs/"+name); err != nil {
			return err
		}
	}
	return nil
}

// objects has git inside read the objects of common, the host's git directory, and of what that reads in turn.
func (p *copying) objects(to int, at string, common *os.File) error {
	var lines strings.Builder
	dirs := []string{common.Name()}
	for i := 0; i < len(dirs) && i < maxChain; i++ {
		n, err := p.number(dirs[i])
		if err != nil {
			return err
		}
		shown := ShownAt(n)
		for _, dir := range append([]string{shown}, ShownParts(shown)...) {
			if err := unix.Mkdirat(to, dir, 0o755); err != nil {
				return err
			}
		}
		lines.WriteString("../" + shown + "/objects\n")
		// git-lfs, and other programs with a git of their own, find absolute paths only. git knows both for one.
		if path := filepath.Join(p.MountPoint, p.at, at, shown, "objects"); filepath.IsAbs(path) && !strings.Contains(path, "\n") {
			lines.WriteString(path + "\n")
		}
		text, _ := os.ReadFile(filepath.Join(dirs[i], "objects/info/alternates"))
		for line := range strings.Lines(string(text)) {
			at := strings.TrimRight(line, "\n")
			if at == "" || at[0] == '#' || at[0] == '"' {
				continue
			}
			if !filepath.IsAbs(at) {
				at = filepath.Join(dirs[i], "objects", at)
			}
			if real, err := filepath.EvalSymlinks(at); err == nil && filepath.Base(real) == "objects" {
				if dir := filepath.Dir(real); !slices.Contains(dirs, dir) {
					dirs = append(dirs, dir)
				}
			}
		}
	}
	return p.put(to, "objects/info/alternates", []byte(lines.String()))
}

// modules copies the git directories of submodules below the directory at of the host's git directory common, whose copy has the path
// top. A submodule's name can have slashes.
func (p *copying) modules(to int, top string, common *os.File, at string, depth int) error {
	from, err := beneath.Open(int(common.Fd()), at, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
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
	return eachName(from, func(name string) error {
		below := at + "/" + name
		st, err := lstat(from, name)
		if err != nil || st.Mode&unix.S_IFMT != unix.S_IFDIR {
			return nil
		}
		if p.names--; p.names < 0 {
			return errLarge
		}
		if _, err := lstat(from, name+"/HEAD"); err != nil {
			return p.modules(to, top, common, below, depth+1)
		}
		fd, err := beneath.Open(from, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
		if err != nil {
			return err
		}
		git := os.NewFile(uintptr(fd), filepath.Join(common.Name(), below))
		defer git.Close()
		if err := unix.Mkdirat(to, below, 0o755); err != nil {
			return err
		}
		sub, err := p.into(to, below)
		if err != nil {
			return err
		}
		defer unix.Close(sub)
		return p.gitDirectory(sub, filepath.Join(top, below), git, git, false, depth+1)
	})
}

// config copies a configuration without credentials.
func (p *copying) config(to int, from *os.File, name string, leave func(*gitconfig.Setting) bool) error {
	text, err := readAt(int(from.Fd()), name, maxPointer)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return p.put(to, name, []byte(plainConfig(string(text), p.Credentials, leave)))
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
		target, err := p.into(to, filepath.Clean(dir))
		if err != nil {
			return err
		}
		defer unix.Close(target)
		from, to = source, target
	}
	return p.entry(to, from, name, 0)
}

// entry copies the entry called name of the directory from. What is neither a file, a directory nor a link is left out, as are locks
// of a git that is at work.
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
		source, err := beneath.Open(from, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
		if err != nil {
			return err
		}
		defer unix.Close(source)
		if err := unix.Mkdirat(to, name, 0o755); err != nil && err != unix.EEXIST {
			return err
		}
		target, err := p.into(to, name)
		if err != nil {
			return err
		}
		defer unix.Close(target)
		return eachName(source, func(e string) error { return p.entry(target, source, e, depth+1) })
	}
	return nil
}

// file copies a file with its mode and times: by the times of an index git finds files that have changed since it was written.
func (p *copying) file(to, from int, name string, st *unix.Stat_t) error {
	if p.bytes -= st.Size; p.bytes < 0 {
		return errLarge
	}
	in, err := beneath.Open(from, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
			return nil // removed meanwhile, or not this user's
		}
		return err
	}
	source := os.NewFile(uintptr(in), name)
	defer source.Close()
	var now unix.Stat_t
	if err := unix.Fstat(in, &now); err != nil || now.Mode&unix.S_IFMT != unix.S_IFREG {
		return err
	}
	out, err := beneath.Open(to, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	target := os.NewFile(uintptr(out), name)
	_, err = io.Copy(target, io.LimitReader(source, maxBytes))
	err = errors.Join(err, unix.Fchmod(out, now.Mode&0o777|0o600), target.Close())
	if err != nil {
		return err
	}
	return unix.UtimesNanoAt(to, name, []unix.Timespec{now.Atim, now.Mtim}, unix.AT_SYMLINK_NOFOLLOW)
}
