package gitsync

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"wolffia/internal/git/gitindex"
	"wolffia/internal/git/hostgit"
	"wolffia/internal/shellword"
	"wolffia/internal/sys/statefile"
)

// maxArgument bounds the bytes that a script inside gets as an argument (Linux permits 128 KiB).
const maxArgument = 64 << 10

// statuses of refreshScript.
const (
	statusLocked = 30 // the index inside is locked
	statusStaged = 31 // the staged changes inside are in the way
	statusOther  = 38 // HEAD, the index or a stash inside has changed since
)

// refreshScript moves references, HEAD and the index inside. $1 is the mode for the index: "keep",
// "put" replaces it by the standard input, "merge" moves it from the commit or tree $2 to $3. $4
// is the input of git update-ref before HEAD moves, $5 is the new HEAD, $6 the input after that.
// $7 is the version of the index that was read, and $8 HEAD. The lock is made as git makes it.
const refreshScript = `set -C
version() { set -- $(tail -c 20 "$1" | od -An -v -tx1); echo "$*"; }
refs() { [ -z "$1" ] || printf '%s' "$1" | g update-ref -m host --stdin; }
i=
if [ "$1" != keep ]; then
	i=$(g rev-parse --git-path index) || exit 32
	cat >"$i.lock" || exit 30
	trap 'rm -f "$i.lock" "$i.wolffia"' EXIT
	trap 'exit 39' HUP INT TERM # else a shell ends without the former
	[ "$(version "$i")" = "$7" ] || exit 38
fi 2>/dev/null
[ "$(g symbolic-ref -q HEAD || g rev-parse -q --verify HEAD)" = "$8" ] || exit 38
if [ "$1" = merge ]; then
	rm -f "$i.wolffia"
	[ ! -e "$i" ] || cp -p "$i" "$i.wolffia" || exit 33
	GIT_INDEX_FILE=$i.wolffia g read-tree -i -m "$2" "$3" 2>/dev/null || exit 31
	[ ! -e "$i" ] || touch -r "$i" "$i.wolffia"
fi
refs "$4" || exit 34
case $5 in
'') ;;
refs/*) g symbolic-ref -m host HEAD "$5" || exit 35 ;;
*) g update-ref --no-deref -m host HEAD "$5" || exit 35 ;;
esac
refs "$6" || exit 36
case $1 in
put) mv -f "$i.lock" "$i" || exit 37 ;;
merge) mv -f "$i.wolffia" "$i" || exit 37 ;;
esac
`

// A change is what a refresh does inside.
type change struct {
	moves []move // of references
	late  []move // after HEAD has left them
	head  string // "": it stays
	index string // keep, put or merge
	was   string // commits of HEAD
	will  string
	shown map[string]string // references below refs/remotes/host
}

// refresh brings to the sandbox what the host has.
func (s *run) refresh(ctx context.Context) error {
	s.done = s.said
	if err := s.setUpstreams(ctx); err != nil {
		return err
	}
	if s.unsteady || s.changing() {
		if err := s.agree(change{index: "keep"}); err != nil {
			return err
		}
		return fmt.Errorf("git is running inside in %s: %w", s.Dir, errAgain)
	}
	any, err := s.follow(ctx)
	if err != nil {
		return err
	}
	c := s.change(any)
	s.rec.Theirs = s.rec.Theirs || any || len(c.moves) > 0 || c.head != "" || c.index != "keep"
	err = s.apply(ctx, c)
	if errors.Is(err, errStaged) {
		// The branch of HEAD stays, with the staged changes; the rest moves.
		s.stays = append(s.stays, "inside files are staged that the host has changed: HEAD and its branch stay there")
		c = s.withoutHead(c)
		err = s.apply(ctx, c)
	}
	if err != nil {
		return err
	}
	if err := s.refreshStashes(ctx); err != nil {
		return err
	}
	if err := s.recordIndex(); err != nil {
		return err
	}
	return s.agree(c)
}

// change decides the changes inside. The index follows the host's patterns.
func (s *run) change(followed bool) change {
	c := change{head: s.plan.headIn, index: "keep", was: s.in.at(), shown: maps.Clone(s.plan.shown)}
	branch := s.in.branch()
	space, rebased := newSpace(s.all, false), s.private.rebased()
	for _, m := range s.plan.in {
		switch {
		case m.New != "" && slices.Contains(rebased, m.Ref): // git's own move in the end would fail
			c.shown[hosts+short(m.Ref)] = m.New
		case strings.HasPrefix(m.Ref, heads+"wolffia/"+s.Name+"/"), m.Old != s.all[m.Ref]: // or its objects were refused
		case m.Old == "" && kind(m.Ref) == heads && space.placed(m.Ref) != "":
			c.shown[hosts+short(m.Ref)] = m.New // the host's name has no place inside
		default:
			c.moves = append(c.moves, m)
		}
	}
	here := slices.ContainsFunc(c.moves, func(m move) bool { return m.Ref == branch })
	if (c.head != "" || here) && s.insideBusy != "" {
		s.stays = append(s.stays, fmt.Sprintf("%s is in progress in the sandbox: HEAD and its branch stay there",
			s.insideBusy))
		c = s.withoutHead(c)
		here = false
	}
	after := s.insideAfter(c)
	c.will = after.at()
	moves := c.head != "" || here
	// A branch that HEAD is on is deleted when HEAD has left it.
	for n, m := range c.moves {
		if m.Ref == branch && m.New == "" {
			c.moves = slices.Delete(c.moves, n, n+1)
			if c.head != "" {
				c.late = []move{m}
			} else {
				moves = false
			}
			break
		}
	}
	own := s.in.staged != s.rec.Staged && s.in.staged != s.hostSet
	same := after.Head == s.head && c.will == s.will && s.hostBusy == "" && s.insideBusy == "" && s.hostSet != unmerged
	switch {
	case s.Worktree == "":
	case same && !own && s.index != nil && (moves && c.was != c.will || s.hostSet != s.in.staged || followed):
		c.index = "put"
	case moves && c.was != c.will:
		c.index = "merge"
	}
	return c
}

// withoutHead leaves out what moves HEAD's commit. The sandbox sees where the host is.
func (s *run) withoutHead(c change) change {
	branch := s.in.branch()
	c.moves = slices.DeleteFunc(slices.Clone(c.moves), func(m move) bool {
		if m.Ref == branch && m.New != "" {
			c.shown[hosts+short(branch)] = m.New
		}
		return m.Ref == branch
	})
	c.head, c.late, c.index = "", nil, "keep"
	return c
}

// insideAfter returns what the sandbox has after a change.
func (s *run) insideAfter(c change) table {
	return table{Refs: table{Refs: s.all}.after(slices.Concat(c.moves, c.late)), Head: cmp.Or(c.head, s.in.Head)}
}

// errStaged is the error of a change that was not made because the staged changes inside are in
// the way.
var errStaged = errors.New("inside files are staged that the host has changed")

// apply does a change.
func (s *run) apply(ctx context.Context, c change) error {
	moves := slices.Clone(c.moves)
	for r, at := range c.shown {
		if s.all[r] != at {
			moves = append(moves, move{r, at, s.all[r]})
		}
	}
	for r, at := range s.all {
		name, is := strings.CutPrefix(r, hosts)
		if _, again := c.shown[r]; is && !again && s.plan.agreed[heads+name] != "" {
			moves = append(moves, move{Ref: r, Old: at})
		}
	}
	if len(moves)+len(c.late) == 0 && c.head == "" && c.index == "keep" {
		return nil
	}
	if len(commands(moves)) > maxArgument { // then those that HEAD is not on go first
		own := slices.IndexFunc(moves, func(m move) bool { return m.Ref == s.in.branch() })
		var last []move
		if own >= 0 {
			last = []move{moves[own]}
			moves = slices.Delete(moves, own, own+1)
		}
		if err := s.do(ctx, strings.NewReader(commands(moves)), "g update-ref -m host --stdin"); err != nil {
			return err
		}
		moves = last
	}
	var in io.Reader
	if c.index == "put" {
		index, err := s.wholeIndex(ctx)
		if err != nil {
			return err
		}
		defer index.Close()
		if in, err = monitored(index); err != nil {
			return err
		}
	}
	none := s.host.emptyTree()
	return s.do(ctx, in, refreshScript, c.index, cmp.Or(c.was, none), cmp.Or(c.will, none), commands(moves),
		c.head, commands(c.late), s.version, s.headRead)
}

// do runs a script inside that changes something, and must succeed.
func (s *run) do(ctx context.Context, in io.Reader, script string, args ...string) error {
	_, status, err := s.shell(ctx, in, script, args...)
	switch {
	case err != nil:
		return err
	case status == statusStaged:
		return errStaged
	case status == statusLocked:
		return fmt.Errorf("git is running inside in %s: %w", s.Dir, ErrBusy)
	case status == statusOther:
		return errAgain
	case status != 0:
		return fmt.Errorf("git inside fails to follow the host in %s (status %d); the next sync tries again", s.Dir, status)
	}
	s.moved = true
	return nil
}

// monitored returns an index for a git that has the sandbox's file system monitor.
func monitored(index io.Reader) (io.Reader, error) {
	data, err := io.ReadAll(io.LimitReader(index, maxIndex))
	if err != nil {
		return nil, err
	}
	x, err := gitindex.Parse(data)
	if err != nil {
		return nil, err
	}
	return bytes.NewReader(x.With(nil)), nil
}

// wholeIndex returns the host's index. One that is split is written whole to a file of its own.
func (s *run) wholeIndex(ctx context.Context) (io.ReadCloser, error) {
	if shared, _ := filepath.Glob(s.host.file("sharedindex.*")); len(shared) == 0 {
		_, err := s.index.Seek(0, io.SeekStart)
		return io.NopCloser(s.index), err
	}
	whole := s.path("index.whole")
	if err := remove(whole); err != nil {
		return nil, err
	}
	if _, err := copyIndex(s.index, whole, nil); err != nil {
		return nil, err
	}
	if _, err := s.host.git(ctx, []string{s.host.indexFile(whole)}, "update-index", "--no-split-index"); err != nil {
		return nil, err
	}
	return os.Open(whole)
}

// refreshStashes brings the host's entries to the sandbox, and takes out those that the host has
// dropped.
func (s *run) refreshStashes(ctx context.Context) error {
	if s.Common != "" {
		return nil
	}
	have, err := s.host.common.stashes()
	if err != nil {
		return err
	}
	var script strings.Builder
	list := slices.Clone(s.in.stashes)
	for _, e := range slices.Backward(have) {
		if !inList(list, e.At) && !slices.Contains(s.rec.Stash, e.At) {
			list, s.rec.Theirs = append([]stash{e}, list...), true
			fmt.Fprintf(&script, "g stash store -q -m %s %s || exit 40\n", shellword.Quote(hostgit.Printable(e.Said)), e.At)
		}
	}
	for _, at := range s.rec.Stash {
		if n := slices.IndexFunc(list, func(e stash) bool { return e.At == at }); n >= 0 && !inList(have, at) {
			list = slices.Delete(list, n, n+1)
			fmt.Fprintf(&script, "[ \"$(g rev-parse 'stash@{%d}')\" = %s ] || exit 38\ng stash drop -q 'stash@{%[1]d}' || exit 41\n", n, at)
		}
	}
	if script.Len() > 0 {
		if err := s.do(ctx, nil, script.String()); err != nil {
			return err
		}
	}
	s.rec.Stash = nil
	for _, e := range list {
		if inList(have, e.At) {
			s.rec.Stash = append(s.rec.Stash, e.At)
		}
	}
	return nil
}

// recordIndex records which index both sides have, if this sync has no work and no report left.
func (s *run) recordIndex() error {
	if len(s.stays) > 0 || s.pending != "" || len(s.rec.Exported) > 0 {
		return nil
	}
	if s.index == nil {
		s.rec.Index = ""
		return nil
	}
	if _, err := s.index.Seek(0, io.SeekStart); err != nil {
		return err
	}
	b, err := io.ReadAll(io.LimitReader(s.index, maxIndex))
	s.rec.Index = indexOf(b)
	return err
}

// agree records what both sides have after c, if the sandbox has not changed it since it was read.
func (s *run) agree(c change) error {
	now, after := s.insideAfter(c), s.out.after(s.plan.out)
	base := s.rec.Base.Refs
	for _, refs := range []map[string]string{now.Refs, after, maps.Clone(base)} {
		for r := range refs {
			if kind(r) == "" || now.Refs[r] != after[r] {
				continue
			}
			if base[r] = after[r]; base[r] == "" {
				delete(base, r)
			}
		}
	}
	if now.Head == s.head {
		s.rec.Base.Head = s.head
	}
	if c.index == "put" || s.in.staged == s.hostSet && c.index == "keep" {
		s.rec.Staged = s.hostSet
	}
	return statefile.Write(s.path(stateFile), &s.rec)
}
