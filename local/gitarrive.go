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
	if err := makeRepository(b.config.CodebasePath, f.Place, config); err != nil {
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
		case "remote.fetch":
			fits = value == "+refs/heads/*:refs/remotes/"+sub+"/*"
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

// makeRepository makes an empty repository in a directory below codebase, as the directory's owner's. It is one when all of it is there.
func makeRepository(codebase, place, config string) error {
	top, err := unix.Open(codebase, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(top)
	parent, err := beneath.Open(top, place, unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return fmt.Errorf("%s: %w", place, err)
	}
	defer unix.Close(parent)
	var st unix.Stat_t
	if err := unix.Fstat(parent, &st); err != nil {
		return err
	}
	give := func(dir int, name string) error {
		if os.Geteuid() != 0 {
			return nil
		}
		return unix.Fchownat(dir, name, int(st.Uid), int(st.Gid), unix.AT_SYMLINK_NOFOLLOW)
	}
	mkdir := func(dir int, name string) error {
		if err := unix.Mkdirat(dir, name, 0o777); err != nil && !errors.Is(err, unix.EEXIST) {
			return err
		}
		return give(dir, name)
	}
	write := func(dir int, name, text string) error {
		fd, err := beneath.Open(dir, name, unix.O_WRONLY|unix.O_CREAT|unix.O_TRUNC, 0o666)
		if err != nil {
			return err
		}
		f := os.NewFile(uintptr(fd), name)
		_, err = f.WriteString(text)
		return errors.Join(err, f.Close(), give(dir, name))
	}
	if err := mkdir(parent, ".git"); err != nil {
		return err
	}
	git, err := beneath.Open(parent, ".git", unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	defer unix.Close(git)
	for _, dir := range []string{"objects", "objects/info", "objects/pack", "refs", "refs/heads", "refs/tags"} {
		if err := mkdir(git, dir); err != nil {
			return err
		}
	}
	if err := write(git, "config", config); err != nil {
		return err
	}
	if err := write(git, "HEAD.new", emptyHead); err != nil {
		return err
	}
	step.Reached("git: arrival made")
	return unix.Renameat2(git, "HEAD.new", git, "HEAD", unix.RENAME_NOREPLACE)
}

// stateOf returns the directory of what both sides of a pair had last.
func (b *gitBox) stateOf(f *gitpairs.Pair) string {
	return filepath.Join(statedir.Git(b.box.Run()), statedir.GitBase, statedir.GitBaseName(f.Private))
}
