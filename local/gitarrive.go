package local

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"golang.org/x/sys/unix"

	"wolffia/internal/beneath"
	"wolffia/internal/gitconfig"
	"wolffia/internal/gitpairs"
	"wolffia/internal/gitsync"
	"wolffia/internal/rmtree"
	"wolffia/internal/statedir"
	"wolffia/internal/statefile"
	"wolffia/internal/step"
	"wolffia/runtime"
)

// arrive makes an empty repository on the host for one that the sandbox has made at the place of f, and the base of its first
// synchronisation, which brings what is in it. The host's gets nothing else of the sandbox but settings that name people and remotes.
func (b *gitBox) arrive(ctx context.Context, f *gitpairs.Pair, state string) error {
	inside := &gitInside{exec: b.gits.exec, box: b.box.ID(), dir: filepath.Join(b.config.MountPointOrDefault(), f.Place)}
	var out bounded
	status, err := inside.Run(ctx, []string{"sh", "-c", arriveScript}, nil, &out)
	if err != nil || status != 0 {
		return errors.Join(err, fmt.Errorf("git in %s cannot be asked (status %d)", inside.dir, status))
	}
	config, left, err := arrivedConfig(out.String())
	if err != nil {
		return err
	}
	if err := beginEmpty(state); err != nil {
		return err
	}
	step.Reached("git: arrival begun")
	if err := makeRepository(b.config.CodebasePath, f, config); err != nil {
		return err
	}
	for _, url := range left {
		b.say(fmt.Sprintf("the remote %.100q is left out", url))
	}
	return nil
}

// arriveScript prints the format of objects, and the settings of which a repository that arrives may get some.
const arriveScript = `f=$(git rev-parse --show-object-format 2>/dev/null) || f=sha1
printf '%s\0' "$f"
git config --local --null --get-regexp '^(user\.(name|email)|remote\..*\.(url|fetch)|branch\..*\.(remote|merge))$' || test $? = 1`

// maxArrived bounds the bytes that arriveScript prints.
const maxArrived = 64 << 10

// bounded keeps what is written up to maxArrived.
type bounded struct{ bytes.Buffer }

func (b *bounded) Write(p []byte) (int, error) {
	if b.Len()+len(p) > maxArrived {
		return 0, errors.New("the configuration of a repository is too large")
	}
	return b.Buffer.Write(p)
}

// What settings of a repository that arrives look like. None of it is more than a name for git on the host.
var (
	arrivedKey    = regexp.MustCompile(`^(user|remote|branch)\.(?:([A-Za-z0-9._/-]{1,100})\.)?(name|email|url|fetch|remote|merge)$`)
	arrivedPerson = regexp.MustCompile(`^[\pL\pM\pN ._+@()',-]{1,200}$`)
	arrivedURL    = regexp.MustCompile(`^((https?|ssh|git)://[A-Za-z0-9._-]|[A-Za-z0-9._-]+@[A-Za-z0-9.-]+:)[A-Za-z0-9._~:/?@!&()*+,=%-]*$`)
	arrivedRef    = regexp.MustCompile(`^[A-Za-z0-9._/-]{1,200}$`)
)

// arrivedConfig returns the configuration of a repository that arrives, for what arriveScript prints, and the addresses of remotes that
// are left out.
func arrivedConfig(said string) (config string, left []string, err error) {
	format, rest, _ := strings.Cut(said, "\x00")
	settings := []gitconfig.Setting{
		{Name: "core.repositoryformatversion", Value: "0"}, {Name: "core.filemode", Value: "true"}, {Name: "core.bare", Value: "false"},
		{Name: "core.logallrefupdates", Value: "true"},
	}
	switch format {
	case "sha1":
	case "sha256":
		settings[0].Value = "1"
		settings = append(settings, gitconfig.Setting{Name: "extensions.objectformat", Value: format})
	default:
		return "", nil, runtime.Errorf(runtime.ErrInvalid, "git inside names the format of objects as %.20q", format)
	}
	remotes := map[string]bool{}
	for entry := range strings.SplitSeq(strings.TrimSuffix(rest, "\x00"), "\x00") {
		key, value, _ := strings.Cut(entry, "\n")
		parts := arrivedKey.FindStringSubmatch(key)
		if parts == nil {
			continue
		}
		section, sub, name := parts[1], parts[2], parts[3]
		fits := false
		switch section + "." + name {
		case "user.name", "user.email":
			fits = sub == "" && arrivedPerson.MatchString(value)
		case "remote.url":
			if fits = sub != "" && arrivedURL.MatchString(value); !fits {
				left = append(left, value)
			}
			remotes[sub] = remotes[sub] || fits
		case "remote.fetch":
			fits = remotes[sub] && value == "+refs/heads/*:refs/remotes/"+sub+"/*"
		case "branch.remote", "branch.merge":
			fits = sub != "" && arrivedRef.MatchString(value) && value[0] != '-'
		}
		if fits {
			settings = append(settings, gitconfig.Setting{Name: key, Value: value})
		}
	}
	return gitconfig.Format(settings), left, nil
}

// emptyHead is HEAD of a repository that arrives, until its first synchronisation.
const emptyHead = "ref: refs/heads/main\n"

// beginEmpty makes the base of a synchronisation with an empty repository.
func beginEmpty(state string) error {
	const scratch = ".new"
	dir, name := filepath.Split(state + scratch)
	if err := rmtree.RemovePath(dir, name); err != nil { // a killed process has left it
		return err
	}
	if err := os.Mkdir(state+scratch, 0o700); err != nil {
		return err
	}
	err := statefile.Create(filepath.Join(state+scratch, "HEAD"), []byte(emptyHead))
	if err == nil {
		err = gitsync.Begin(state+scratch, state)
	}
	return errors.Join(err, rmtree.RemovePath(dir, name))
}

// makeRepository makes an empty repository of the host for f, as the owner's of the directory that it is in. It is one when all of it
// is there. That of a submodule is in another git directory, and a file in its working tree leads there.
func makeRepository(codebase string, f *gitpairs.Pair, config string) error {
	work := filepath.Join(codebase, f.Place)
	apart := filepath.Join(work, ".git") != f.Host
	parent, err := parentOf(filepath.Dir(f.Host), apart)
	if err != nil {
		return err
	}
	defer parent.Close()
	if apart {
		back, err := filepath.Rel(f.Host, work)
		if err != nil {
			return err
		}
		config += gitconfig.Format([]gitconfig.Setting{{Name: "core.worktree", Value: back}})
	}
	name := filepath.Base(f.Host)
	for _, dir := range []string{"", "objects", "objects/info", "objects/pack", "refs", "refs/heads", "refs/tags"} {
		if err := parent.mkdir(filepath.Join(name, dir)); err != nil {
			return err
		}
	}
	if err := parent.write(filepath.Join(name, "config"), config, unix.O_TRUNC); err != nil {
		return err
	}
	if apart {
		if err := lead(work, f.Host); err != nil {
			return err
		}
	}
	if err := parent.write(filepath.Join(name, "HEAD.new"), emptyHead, unix.O_TRUNC); err != nil {
		return err
	}
	step.Reached("git: arrival made")
	git, err := beneath.Open(int(parent.Fd()), name, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	defer unix.Close(git)
	return unix.Renameat2(git, "HEAD.new", git, "HEAD", unix.RENAME_NOREPLACE)
}

// lead makes the file .git of the working tree of a submodule that leads to its git directory, unless there is one.
func lead(work, git string) error {
	to, err := filepath.Rel(work, git)
	if err != nil {
		return err
	}
	dir, err := openPlace(work)
	if err != nil {
		return err
	}
	defer dir.Close()
	if err := dir.write(".git", "gitdir: "+to+"\n", unix.O_EXCL); !errors.Is(err, unix.EEXIST) {
		return err
	}
	return nil
}

// A place is a directory of the host in which something is made that is its owner's.
type place struct {
	*os.File
	uid, gid int
}

// openPlace opens a directory over which no link leads.
func openPlace(path string) (*place, error) {
	fd, err := unix.Openat2(unix.AT_FDCWD, path, &unix.OpenHow{
		Flags: unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS,
	})
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	p := &place{File: os.NewFile(uintptr(fd), path)}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	p.uid, p.gid = int(st.Uid), int(st.Gid)
	return p, nil
}

// parentOf opens a directory; with makes it is made, with those above it, if it does not exist.
func parentOf(path string, makes bool) (*place, error) {
	p, err := openPlace(path)
	if !makes || !errors.Is(err, unix.ENOENT) {
		return p, err
	}
	above, err := parentOf(filepath.Dir(path), true)
	if err != nil {
		return nil, err
	}
	defer above.Close()
	if err := above.mkdir(filepath.Base(path)); err != nil {
		return nil, err
	}
	return openPlace(path)
}

// mkdir makes a directory, if it does not exist.
func (p *place) mkdir(name string) error {
	dir, err := beneath.Open(int(p.Fd()), filepath.Dir(name), unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	if err := unix.Mkdirat(dir, filepath.Base(name), 0o777); err != nil && !errors.Is(err, unix.EEXIST) {
		return err
	}
	if os.Geteuid() != 0 {
		return nil
	}
	return unix.Fchownat(dir, filepath.Base(name), p.uid, p.gid, unix.AT_SYMLINK_NOFOLLOW)
}

// write makes a file, or writes one anew, as flags say.
func (p *place) write(name, text string, flags int) error {
	fd, err := beneath.Open(int(p.Fd()), name, unix.O_WRONLY|unix.O_CREAT|flags, 0o666)
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), name)
	_, err = f.WriteString(text)
	if err == nil && os.Geteuid() == 0 {
		err = f.Chown(p.uid, p.gid)
	}
	return errors.Join(err, f.Close())
}

// stateOf returns the directory of what both sides of a pair had last.
func (b *gitBox) stateOf(f *gitpairs.Pair) string {
	return filepath.Join(statedir.Git(b.box.Run()), statedir.GitBase, statedir.GitBaseName(f.Private))
}
