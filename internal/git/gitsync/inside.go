package gitsync

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"wolffia/internal/git/hostgit"
)

// maxTables bounds the output of git inside about references and staged files, in bytes.
const maxTables = 64 << 20

// maxTablesTime bounds the time that git inside takes for them.
const maxTablesTime = 20 * time.Second

// preface makes git inside quiet, and keeps it to the repository of the working tree: not one
// above, where the sandbox has removed or damaged it. Hooks and monitors there are the sandbox's
// own, but would take time.
const preface = `set -u
export GIT_OPTIONAL_LOCKS=0 GIT_NO_REPLACE_OBJECTS=1 LC_ALL=C GIT_CEILING_DIRECTORIES="$(pwd -P)/.."
g() { git -c core.hooksPath=/dev/null -c core.fsmonitor=false -c log.showSignature=false -c core.quotePath=false "$@"; }
`

// tablesScript prints HEAD, references, stashes and the staged tree. $1 is the empty tree; $2 is
// true if the repository has stashes, and $3 if it has an index.
const tablesScript = `command -v git >/dev/null || exit 19
h=$(g symbolic-ref -q HEAD) || h=$(g rev-parse -q --verify HEAD) || exit 20
printf '%s\n' "$h"
g for-each-ref '` + refFormat + `' || exit 21
echo .
[ "$2" = false ] || g log -g '--format=%H %gs' refs/stash --
echo .
staged() { g ` + stagedArgs + ` "$1" --; }
[ "$3" = false ] || staged HEAD 2>/dev/null || staged "$1" || exit 22
`

// An inside is what the sandbox has.
type inside struct {
	table
	stashes []stash
	staged  string // identifies the staged tree
	late    bool   // that it could not be found out in time
}

// errTooMuch is the error of a program inside that prints more than a sync reads.
var errTooMuch = errors.New("more than a sync reads")

// errNoGit is the error of a sandbox without git, as one on an image can be.
var errNoGit = errors.New("the sandbox has no git")

// A bounded keeps that many bytes, and fails after that.
type bounded struct {
	kept bytes.Buffer // not embedded: its ReadFrom has no bound
	left int
}

func (b *bounded) Write(p []byte) (int, error) {
	if b.left -= len(p); b.left < 0 {
		return 0, errTooMuch
	}
	return b.kept.Write(p)
}

// shell runs a script inside, and returns its output.
func (p *Pair) shell(ctx context.Context, in io.Reader, script string, args ...string) (out []byte, status int, err error) {
	b := &bounded{left: maxTables}
	status, err = p.Inside.Run(ctx, append([]string{"sh", "-c", preface + script, "sh"}, args...), in, b)
	if b.left < 0 {
		return nil, status, fmt.Errorf("what git inside prints is %w (%d bytes)", errTooMuch, maxTables)
	}
	return b.kept.Bytes(), status, err
}

// inside asks git inside for its tables.
func (p *Pair) inside(ctx context.Context, private tree, emptyTree string) (inside, error) {
	index := p.Worktree != "" && private.has("index")
	got, staged, err := p.tables(ctx, emptyTree, private.has("logs/refs/stash"), index)
	if err == nil && !got.late {
		got.staged, err = stagedSet(staged)
	}
	return got, err
}

// tables is inside without the staged tree, which it returns as git prints it.
func (p *Pair) tables(
	ctx context.Context, emptyTree string, stashes, index bool,
) (got inside, staged []byte, err error) {
	limit := cmp.Or(p.time, maxTablesTime)
	short, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	out, status, err := p.shell(short, nil, tablesScript, emptyTree, fmt.Sprint(stashes), fmt.Sprint(index))
	if short.Err() != nil && ctx.Err() == nil {
		// A tree inside may stand for more names than git can compare. The rest is known.
		if got, _, err := parseInside(out, len(emptyTree)); err == nil {
			got.staged, got.late = unmerged, true
			return got, nil, nil
		}
		return got, nil, fmt.Errorf("git inside takes more than %v in %s: wolffia shell %s, and git status there, says more",
			limit, p.Dir, p.Name)
	}
	if err != nil {
		return got, nil, err
	}
	if status == 19 {
		return got, nil, errNoGit
	}
	if status != 0 {
		return got, nil, fmt.Errorf("git inside fails in %s (status %d): wolffia shell %s, and git status there, says more",
			p.Dir, status, p.Name)
	}
	return parseInside(out, len(emptyTree))
}

// parseInside parses the output of tablesScript, without the staged tree. Object names must have
// that many characters.
func parseInside(out []byte, size int) (got inside, staged []byte, err error) {
	head, rest, _ := bytes.Cut(out, []byte("\n"))
	if got.Head, err = parseHead(head); err != nil {
		return got, nil, fmt.Errorf("inside, %w", err)
	}
	refs, rest, is := section(rest)
	if !is {
		return got, nil, errors.New("git inside has printed a part of its references")
	}
	if got.Refs, err = parseRefs(refs); err != nil {
		return got, nil, fmt.Errorf("inside, %w", err)
	}
	if len(got.Refs) > maxRefs {
		return got, nil, fmt.Errorf("inside are more than %d references", maxRefs)
	}
	for r, at := range got.Refs {
		if len(at) != size {
			return got, nil, fmt.Errorf("inside, %.100q is at an object of another format", r)
		}
	}
	if got.branch() == "" && len(got.Head) != size {
		return got, nil, errors.New("inside, HEAD is at an object of another format")
	}
	list, rest, is := section(rest)
	if !is {
		return got, nil, errors.New("git inside has printed a part of its stashes")
	}
	for line := range bytes.Lines(list) {
		at, said, _ := strings.Cut(strings.TrimSuffix(string(line), "\n"), " ")
		if len(at) == size && objectName.MatchString(at) {
			got.stashes = append(got.stashes, stash{at, hostgit.Printable(said[:min(len(said), 200)])})
		}
	}
	return got, rest, nil
}

// section returns the lines before one with a point alone.
func section(b []byte) (lines, rest []byte, is bool) {
	if bytes.HasPrefix(b, []byte(".\n")) {
		return nil, b[2:], true
	}
	lines, rest, is = bytes.Cut(b, []byte("\n.\n"))
	return append(lines[:len(lines):len(lines)], '\n'), rest, is
}

// writeTreeScript prints the staged tree. git write-tree locks its index, and a git of the user
// that starts at that moment fails: so the script gives git write-tree a copy, outside of the git
// directory.
const writeTreeScript = `t=$(mktemp) && trap 'rm -f "$t" "$t.lock"' EXIT && trap 'exit 39' HUP INT TERM || exit 60
cat "$(g rev-parse --git-path index)" >"$t" && GIT_INDEX_FILE=$t g write-tree
`

// writeTree returns the tree that is staged inside.
func (p *Pair) writeTree(ctx context.Context) (string, error) {
	out, status, err := p.shell(ctx, nil, writeTreeScript)
	name := strings.TrimSuffix(string(out), "\n")
	if err == nil && (status != 0 || !objectName.MatchString(name)) {
		err = fmt.Errorf("git write-tree inside: status %d", status)
	}
	return name, err
}

// pack writes a pack with what tips need, and known does not have.
func (p *Pair) pack(ctx context.Context, tips, known []string, w io.Writer) error {
	in := strings.NewReader(strings.Join(tips, "\n") + "\n--not\n" + strings.Join(known, "\n") + "\n")
	args := []string{
		"git", "--no-replace-objects", "-c", "core.hooksPath=/dev/null", "-c", "pack.writeReverseIndex=false",
		"pack-objects", "--revs", "--stdout", "--thin", "--delta-base-offset", "-q",
	}
	status, err := p.Inside.Run(ctx, args, in, w)
	if err == nil && status != 0 {
		err = fmt.Errorf("%w: git pack-objects inside fails (status %d): an object is missing or damaged",
			hostgit.ErrRefused, status)
	}
	return err
}
