package gitsync

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"wolffia/internal/git/hostgit"
)

// refFormat is how for-each-ref prints references on both sides.
const refFormat = "--format=%(objectname) %(refname) %(symref)"

// A host is the host's side of one sync.
type host struct {
	*hostgit.Dir
	pair    *Pair
	own     tree // of the working tree; common is that of the repository
	common  tree
	objects *hostgit.Objects // nil: not started
	known   map[[2]string]bool
}

func (p *Pair) openHost(ctx context.Context) (*host, error) {
	d, err := hostgit.OpenDir(ctx, p.Host, p.path(emptyDir))
	if err != nil {
		return nil, err
	}
	if d.Config("extensions.refstorage") == "reftable" {
		return nil, errors.Join(errReftable(d.Name()), d.Close())
	}
	return p.newHost(d), nil
}

func (p *Pair) newHost(d *hostgit.Dir) *host {
	own, common := d.Files()
	return &host{Dir: d, pair: p, own: tree{own}, common: tree{common}, known: make(map[[2]string]bool)}
}

func (h *host) close() {
	if h.objects != nil {
		h.objects.Close()
	}
	_ = h.Close()
}

// indexFile returns the variable that names an index, for git, which runs in the git directory.
func (h *host) indexFile(path string) string {
	return "GIT_INDEX_FILE=" + strings.TrimPrefix(path, h.Path()+"/")
}

// file returns the path of a file of the working tree's own git directory.
func (h *host) file(name string) string { return filepath.Join(h.Path(), name) }

// emptyTree returns the name of the tree without entries.
func (h *host) emptyTree() string {
	if h.Config("extensions.objectformat") == "sha256" {
		return "6ef19b41225c5369f1c104d45d8d85efa9b057b53b14b4b9b939dd74decc5321"
	}
	return "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
}

// git runs a command and returns its output.
func (h *host) git(ctx context.Context, env []string, args ...string) ([]byte, error) {
	out, _, err := h.Run(ctx, hostgit.Command{Args: args, Env: env})
	return out, err
}

// table returns the host's references and HEAD.
func (h *host) table(ctx context.Context) (table, error) {
	out, err := h.git(ctx, nil, "for-each-ref", refFormat)
	if err != nil {
		return table{}, err
	}
	t := table{}
	if t.Refs, err = parseRefs(out); err != nil {
		return table{}, err
	}
	t.Head, err = h.own.head()
	return t, err
}

// parseRefs parses the output of for-each-ref. It skips symbolic references.
func parseRefs(out []byte) (map[string]string, error) {
	refs := make(map[string]string)
	for line := range bytes.Lines(out) {
		fields := strings.Split(strings.TrimSuffix(string(line), "\n"), " ")
		if len(fields) != 3 || !objectName.MatchString(fields[0]) || !strings.HasPrefix(fields[1], "refs/") || strings.ContainsRune(fields[1], 0) {
			return nil, fmt.Errorf("git names a reference as %.100q", line)
		}
		if fields[2] == "" {
			refs[fields[1]] = fields[0]
		}
	}
	return refs, nil
}

// operations are what git leaves in a git directory while it waits for its user.
var operations = []struct{ file, called string }{
	{"rebase-merge", "a rebase"},
	{"rebase-apply", "a rebase"},
	{"MERGE_HEAD", "a merge"},
	{"CHERRY_PICK_HEAD", "a cherry-pick"},
	{"REVERT_HEAD", "a revert"},
	{"sequencer", "a sequence of picks"},
	{"BISECT_LOG", "a bisection"},
}

// busy returns the operation that is in progress in a git directory, or "".
func busy(t tree) string {
	for _, o := range operations {
		if t.has(o.file) {
			return o.called
		}
	}
	return ""
}

// headNames are files with the branch that a rebase began at, and moves in the end: until then
// HEAD is on no branch.
var headNames = []string{"rebase-merge/head-name", "rebase-apply/head-name"}

// maxWorktrees bounds the linked working trees of a repository that are looked at.
const maxWorktrees = 100_000

// rebased returns the branches that rebases in progress move in the end: in t, and in the working
// trees linked to it. Of those it looks at as many as maxWorktrees allows: a sandbox that has more
// harms itself.
func (t tree) rebased() (refs []string) {
	read := func(dir string) {
		for _, name := range headNames {
			if b, err := t.read(dir+name, maxArgument); err == nil {
				refs = append(refs, strings.TrimSpace(string(b)))
			}
		}
	}
	read("")
	_ = t.list("worktrees", maxWorktrees, func(dir string, trees []os.DirEntry) error {
		for _, tree := range trees {
			read(dir + "/" + tree.Name() + "/")
		}
		return io.EOF // entries below it are not listed
	})
	return refs
}

// blocked returns the branches that may not move, with the reasons: those of other working trees,
// and of operations.
func (h *host) blocked(t table, busy string) map[string]string {
	blocked := make(map[string]string)
	if busy != "" && t.branch() != "" {
		blocked[t.branch()] = busy + " is in progress here"
	}
	add := func(reason, dir string, files ...string) {
		for _, f := range files {
			b, err := os.ReadFile(filepath.Join(dir, f))
			if ref, is := strings.CutPrefix(strings.TrimSpace(string(b)), "ref: "); err == nil && (is || f != "HEAD") {
				blocked[ref] = reason
			}
		}
	}
	add("a rebase of it is in progress here", h.Path(), headNames...)
	others, _ := filepath.Glob(filepath.Join(h.Common(), "worktrees", "*"))
	if h.Path() != h.Common() {
		others = append(others, h.Common())
	}
	for _, dir := range others {
		if same(dir, h.Path()) {
			continue
		}
		const reason = "it is checked out in another working tree"
		if add(reason, dir, headNames...); dir != h.Common() || h.Config("core.bare") != "true" {
			add(reason, dir, "HEAD")
		}
	}
	return blocked
}

func same(a, b string) bool {
	x, err := os.Stat(a)
	y, other := os.Stat(b)
	return err == nil && other == nil && os.SameFile(x, y)
}

// unmerged is the set of staged files if the index has conflicts.
const unmerged = "unmerged"

// staged identifies the set of what an index has that commit does not: paths, modes and objects.
// The empty one is "".
func (h *host) staged(ctx context.Context, commit, index string) (string, error) {
	if h.pair.Worktree == "" {
		return "", nil
	}
	args := append(strings.Fields(stagedArgs), cmp.Or(commit, h.emptyTree()), "--")
	out, err := h.git(ctx, []string{h.indexFile(index)}, args...)
	if err != nil {
		return "", err
	}
	return stagedSet(out)
}

// stagedArgs are the arguments with which git on both sides compares a commit with the index.
const stagedArgs = "diff-index --cached --raw -z --no-renames --no-abbrev --ignore-submodules=none"

// stagedSet identifies a set of what git diff-index -z --raw prints.
func stagedSet(out []byte) (string, error) {
	if len(out) == 0 {
		return "", nil
	}
	fields := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
	if len(fields)%2 != 0 || out[len(out)-1] != 0 {
		return "", fmt.Errorf("git prints %.100q for the staged files", out)
	}
	set := make([]string, 0, len(fields)/2)
	for n := 0; n < len(fields); n += 2 {
		f := strings.Split(fields[n], " ")
		if len(f) != 5 {
			return "", fmt.Errorf("git prints %.100q for the staged files", fields[n])
		}
		if f[4] == "U" {
			return unmerged, nil
		}
		set = append(set, f[1]+" "+f[3]+" "+fields[n+1]+"\x00")
	}
	slices.Sort(set)
	sum := sha256.Sum256([]byte(strings.Join(set, "")))
	return hex.EncodeToString(sum[:]), nil
}

// idOf returns the identity of a file of the host.
func idOf(path string) fileID {
	var st unix.Stat_t
	if unix.Lstat(path, &st) != nil {
		return fileID{}
	}
	return fileID{st.Ino, st.Size, st.Mtim.Nano()}
}

// ask returns the process that answers questions for objects.
func (h *host) ask(ctx context.Context) (*hostgit.Objects, error) {
	if h.objects == nil {
		o, err := h.Objects(ctx)
		if err != nil {
			return nil, err
		}
		h.objects = o
	}
	return h.objects, nil
}

// near is how many commits are looked at in search of an ancestor before git is asked.
const near = 64

// ancestor reports whether a commit is an ancestor of another one.
func (h *host) ancestor(ctx context.Context, old, of string) bool {
	key := [2]string{old, of}
	if is, have := h.known[key]; have {
		return is
	}
	is := old == of || h.nearAncestor(ctx, old, of)
	if !is {
		_, status, err := h.Run(ctx, hostgit.Command{Args: []string{"merge-base", "--is-ancestor", old, of}, Status: 1})
		is = err == nil && status == 0 // an error is that of an object that is not a commit
	}
	h.known[key] = is
	return is
}

func (h *host) nearAncestor(ctx context.Context, old, of string) bool {
	objects, err := h.ask(ctx)
	if err != nil {
		return false
	}
	todo := []string{of}
	for n := 0; n < near && n < len(todo); n++ {
		c, err := objects.Get(todo[n], 1<<20)
		if err != nil || c.Type != "commit" {
			continue
		}
		for line := range bytes.Lines(c.Data) {
			if len(line) == 1 {
				break
			}
			if parent, is := strings.CutPrefix(strings.TrimSuffix(string(line), "\n"), "parent "); is {
				if parent == old {
					return true
				}
				todo = append(todo, parent)
			}
		}
	}
	return false
}

// commands are lines for git update-ref --stdin, on both sides.
func commands(moves []move) string {
	var b strings.Builder
	for _, m := range moves {
		old := cmp.Or(m.Old, strings.Repeat("0", len(m.New)))
		if m.New == "" {
			b.WriteString("delete " + m.Ref + " " + old + "\n")
		} else {
			b.WriteString("update " + m.Ref + " " + m.New + " " + old + "\n")
		}
	}
	return b.String()
}

// updateRef moves references in one transaction.
func (h *host) updateRef(ctx context.Context, moves []move) error {
	if len(moves) == 0 {
		return nil
	}
	return h.feedRefs(ctx, strings.NewReader(commands(moves)))
}

// feedRefs passes its input to git update-ref. More options can go before.
func (h *host) feedRefs(ctx context.Context, in io.Reader, options ...string) error {
	_, _, err := h.Run(ctx,
		hostgit.Command{Args: append([]string{"update-ref", "--stdin", "-m", h.reflog()}, options...), In: in})
	return err
}

// reflog is what the host's reflogs say of a move.
func (h *host) reflog() string { return "wolffia: " + h.pair.Name }

// setHead moves HEAD. The caller has index.lock, and has checked what HEAD is.
func (h *host) setHead(ctx context.Context, to, old string) error {
	if !strings.HasPrefix(to, "refs/") {
		args := []string{"update-ref", "--no-deref", "-m", h.reflog(), "HEAD", to}
		if !strings.HasPrefix(old, "refs/") {
			args = append(args, old)
		}
		_, err := h.git(ctx, nil, args...)
		return err
	}
	if strings.HasPrefix(old, "refs/") {
		err := h.feedRefs(ctx, strings.NewReader("symref-update HEAD "+to+" ref "+old+"\n"), "--no-deref")
		if err == nil || !strings.Contains(err.Error(), "unknown command: symref-update") { // before git 2.46
			return err
		}
	}
	_, err := h.git(ctx, nil, "symbolic-ref", "-m", h.reflog(), "HEAD", to)
	return err
}
