package gitsync

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"wolffia/internal/git/gitconfig"
	"wolffia/internal/git/hostgit"
	"wolffia/runtime"
)

// firstBranch is the branch of a repository on the host whose HEAD inside names no branch that
// crosses.
const firstBranch = heads + "main"

// maxConfig bounds the bytes of a configuration that is read.
const maxConfig = 1 << 20

// IsRepository reports whether the directory Private looks like a git directory.
func (p *Pair) IsRepository() bool {
	t, err := p.openPrivate(p.Private)
	if err != nil {
		return false
	}
	defer t.Close()
	_, err = t.read("HEAD", 4096)
	return err == nil && (t.has("commondir") || t.has("objects") && t.has("refs"))
}

// Arrive makes the host's half of a repository that the sandbox has made, in the directory Host,
// which is empty. The caller renames Host when it is complete. Host gets everything that a Sync
// takes, and of the configuration inside the identity, the remotes with an address on a network,
// and the upstreams of branches. worktree becomes the host's core.worktree; "" means unset. State
// exists, and is empty or of an earlier Arrive. The errors are those of Sync. After an error the
// caller removes Host.
func (p *Pair) Arrive(ctx context.Context, worktree string) (Report, error) {
	private, err := p.openPrivate(p.Private)
	if err != nil {
		return Report{}, err
	}
	defer private.Close()
	if private.has("reftable") {
		return Report{}, errReftable(p.Dir)
	}
	text, err := private.read("config", maxConfig)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return Report{}, err
	}
	settings, format, left := arrivalConfig(string(text))
	d, err := hostgit.Init(ctx, p.Host, p.path(emptyDir), format)
	if err != nil {
		return Report{}, err
	}
	if worktree != "" {
		settings = append(settings, gitconfig.Setting{Name: "core.worktree", Value: worktree})
	}
	if err := addSettings(filepath.Join(p.Host, "config"), settings); err != nil {
		return Report{}, err
	}
	head := firstBranch
	if at, err := private.head(); err == nil && strings.HasPrefix(at, heads) && nameFault(short(at)) == "" {
		head = at
	}
	defer d.Close()
	if _, _, err := d.Run(ctx, hostgit.Command{Args: []string{"symbolic-ref", "HEAD", head}}); err != nil {
		return Report{}, err
	}
	if err := p.begin(&record{Base: table{Refs: map[string]string{}, Head: head}, Files: map[string]string{}}); err != nil {
		return Report{}, err
	}
	r, err := p.Sync(ctx)
	r.Said = append(left, r.Said...)
	return r, err
}

// addSettings adds settings to a configuration of the host's that was just made.
func addSettings(path string, settings []gitconfig.Setting) error {
	if len(settings) == 0 {
		return nil
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|unix.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(gitconfig.Format(settings))
	return errors.Join(err, f.Close())
}

// ArriveLinked makes the host's half of a linked working tree that the sandbox has made: HEAD,
// commondir, gitdir and an index in the directory dir, which is empty. The caller then moves it to
// Host, below worktrees in the repository. The next Sync takes the rest. State exists, and is
// empty or of an earlier ArriveLinked. The error is of class runtime.ErrInvalid if the branch is
// not free on the host.
func (p *Pair) ArriveLinked(ctx context.Context, dir string) error {
	private, err := p.openPrivate(p.Private)
	if err != nil {
		return err
	}
	defer private.Close()
	head, err := private.head()
	if err != nil {
		return err
	}
	d, err := hostgit.OpenDir(ctx, filepath.Dir(filepath.Dir(p.Host)), p.path(emptyDir))
	if err != nil {
		return err
	}
	h := p.newHost(d)
	defer h.close()
	t, err := h.table(ctx)
	if err != nil {
		return err
	}
	at := t.at()
	if strings.HasPrefix(head, "refs/") {
		blocked := h.blocked(t, "")
		if t.branch() != "" {
			blocked[t.branch()] = "it is checked out in another working tree"
		}
		reason := blocked[head]
		if at = t.Refs[head]; at == "" {
			reason = "the host has no such branch"
		}
		if reason != "" {
			return runtime.Errorf(runtime.ErrInvalid, "%s: %s", hostgit.Printable(short(head)), reason)
		}
	} else if head = at; at == "" {
		return runtime.Errorf(runtime.ErrInvalid, "the host has no commit yet")
	}
	common, err := p.shared(private)
	if err != nil {
		return err
	}
	defer common.Close()
	both, err := private.table(common)
	if err != nil {
		return err
	}
	maps.DeleteFunc(both.Refs, func(r, at string) bool { return t.Refs[r] != at })
	text := head
	if strings.HasPrefix(head, "refs/") {
		text = "ref: " + head
	}
	if _, _, err := d.Run(ctx, hostgit.Command{Args: []string{"read-tree", at}, Env: []string{"GIT_INDEX_FILE=" + filepath.Join(dir, "index")}}); err != nil {
		return err
	}
	for _, f := range [][2]string{{"HEAD", text}, {"commondir", "../.."}, {"gitdir", filepath.Join(p.Worktree, ".git")}} {
		file, err := os.OpenFile(filepath.Join(dir, f[0]), os.O_WRONLY|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, 0o644)
		if err != nil {
			return err
		}
		_, err = file.WriteString(f[1] + "\n")
		if err = errors.Join(err, d.Own(file), file.Close()); err != nil {
			return err
		}
	}
	return p.begin(&record{Base: table{Refs: both.Refs, Head: head}, Files: map[string]string{}})
}

// AsLeft reports whether the host's repository is as the last Sync left it, without any later work
// of the user: references, HEAD, the index, stashes and operations. For a linked working tree the
// references do not count. The error is one of running git.
func (p *Pair) AsLeft(ctx context.Context) (bool, error) {
	h, err := p.openHost(ctx)
	if err != nil {
		return false, err
	}
	defer h.close()
	var rec record
	if have, err := p.load(stateFile, &rec); err != nil || !have || rec.Theirs && p.Common == "" || p.interrupted() {
		return false, err
	}
	t, err := h.table(ctx)
	if err != nil {
		return false, err
	}
	if busy(h.own) != "" || t.Head != rec.Base.Head {
		return false, nil
	}
	if p.Common == "" { // else the references stay
		for r, at := range t.Refs {
			if rec.Base.Refs[r] != at && r != "refs/stash" {
				return false, nil
			}
		}
		list, err := h.common.stashes()
		if err != nil || slices.ContainsFunc(list, func(e stash) bool { return !slices.Contains(rec.Stash, e.At) }) {
			return false, err
		}
	}
	set, err := h.staged(ctx, t.at(), h.file("index"))
	if err != nil {
		return false, fmt.Errorf("read the staged files of %s: %w", p.Worktree, err)
	}
	return set == rec.Staged, nil
}
