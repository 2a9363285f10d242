package gitsync

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"wolffia/internal/git/hostgit"
	"wolffia/runtime"
)

// maxCounted is up to where Ahead counts.
const maxCounted = "1000"

// A Branch is a branch of the host's that has commits of the sandbox's.
type Branch struct {
	Name string // without refs/heads/
	At   string // the commit
}

// Export makes the sandbox's branches, and a detached HEAD, branches wolffia/NAME/BRANCH of the
// host, if the host does not have their commits. With branch it makes the commit of HEAD that
// branch, which must not exist or be behind. Objects cross as in a Sync; nothing crosses to the
// sandbox. Export uses Private and State only as an empty directory, so a Begin is not needed.
// With dry it only returns the branches that it would make. The error is of class
// runtime.ErrInvalid, and the other branches are made, for branches that the host's git refuses or
// that cannot have their name. It is of class runtime.ErrConflict if branch is in the way. Other
// errors are as of Sync, and no branch is made.
func (p *Pair) Export(ctx context.Context, branch string, dry bool) (made []Branch, err error) {
	h, release, err := p.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	defer h.close()
	in, out, err := p.bothTables(ctx, h)
	if err != nil {
		return nil, err
	}
	var refused error
	if branch == "" {
		if made, err = h.ahead(ctx, in); err != nil {
			return nil, err
		}
		made, refused = p.named(h, made, out)
	} else if made, err = h.asBranch(ctx, in, out, branch); err != nil {
		return nil, err
	}
	if len(made) == 0 || dry {
		return made, refused
	}
	tips := make(map[string]bool)
	for _, b := range made {
		tips[b.At] = true
	}
	held, bad, err := h.take(ctx, slices.Sorted(maps.Keys(tips)), out)
	if err == nil {
		err = h.onlyCommits(ctx, tips, bad)
	}
	var moves []move
	var names []string
	made = slices.DeleteFunc(made, func(b Branch) bool {
		ref := heads + b.Name
		if reason := bad[b.At]; reason != "" {
			refused = errors.Join(refused, staysInside(b.Name, reason))
			return true
		}
		moves, names = append(moves, move{Ref: ref, Old: out.Refs[ref], New: b.At}), append(names, ref)
		return false
	})
	if old := out.Refs[heads+branch]; err == nil && old != "" && len(made) > 0 && !h.ancestor(ctx, old, made[0].At) {
		err = runtime.Errorf(runtime.ErrConflict,
			"branch %s exists, and is not behind what the sandbox is at: name another with --git=BRANCH", branch)
	}
	if err == nil {
		err = h.updateRef(ctx, slices.Concat(moves, held))
	}
	if err != nil {
		return nil, errors.Join(err, h.updateRef(context.WithoutCancel(ctx), held))
	}
	return made, errors.Join(refused, h.SyncRefs(names))
}

// Ahead returns how many commits the sandbox's branches and HEAD have that the host does not have,
// up to 1000; with Host "", for a repository that was made inside, how many that no remote there
// has. As for Export, a Begin is not needed.
func (p *Pair) Ahead(ctx context.Context) (int, error) {
	if p.Host == "" {
		return p.count(ctx, nil, "--all", "--not", "--remotes")
	}
	h, err := p.openHost(ctx)
	if err != nil {
		return 0, err
	}
	defer h.close()
	in, out, err := p.bothTables(ctx, h)
	if err != nil {
		return 0, err
	}
	all, err := h.ahead(ctx, in)
	if err != nil || len(all) == 0 {
		return 0, err
	}
	var revisions strings.Builder
	for _, b := range all {
		revisions.WriteString(b.At + "\n")
	}
	for _, at := range out.Refs {
		revisions.WriteString("^" + at + "\n")
	}
	return p.count(ctx, strings.NewReader(revisions.String()), "--ignore-missing", "--stdin")
}

// count returns how many commits git rev-list inside finds.
func (p *Pair) count(ctx context.Context, in io.Reader, args ...string) (int, error) {
	text, status, err := p.shell(ctx, in, `g rev-list --count --max-count=`+maxCounted+` "$@"`, args...)
	if err != nil {
		return 0, err
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || n < 0 || status != 0 {
		return 0, fmt.Errorf("git inside counts commits in %s as %.100q (status %d)", p.Dir, text, status)
	}
	return n, nil
}

// bothTables returns the references of both sides.
func (p *Pair) bothTables(ctx context.Context, h *host) (in inside, out table, err error) {
	if in, _, err = p.tables(ctx, h.emptyTree(), false, false); err != nil {
		return in, out, err
	}
	out, err = h.table(ctx)
	return in, out, err
}

// ahead returns the branches inside, and a detached HEAD, whose commits the host does not have.
func (h *host) ahead(ctx context.Context, in inside) (all []Branch, err error) {
	objects, err := h.ask(ctx)
	if err != nil {
		return nil, err
	}
	seen := make(map[string]bool)
	add := func(name, at string) error {
		_, err := objects.Get(at, 0)
		if errors.Is(err, hostgit.ErrMissing) {
			seen[at], all, err = true, append(all, Branch{name, at}), nil
		}
		return err
	}
	for _, r := range slices.Sorted(maps.Keys(in.Refs)) {
		if kind(r) == heads && err == nil {
			err = add(short(r), in.Refs[r])
		}
	}
	if err == nil && in.branch() == "" && !seen[in.Head] {
		err = add("HEAD", in.Head)
	}
	if len(all) > maxMoves {
		err = runtime.Errorf(runtime.ErrInvalid,
			"more than %d branches inside have commits that the host does not have: take one with --git=BRANCH", maxMoves)
	}
	return all, err
}

// named gives branches inside the names that they have on the host. It skips branches that cannot
// have a name there, and the error has the reason.
func (p *Pair) named(h *host, all []Branch, out table) (made []Branch, refused error) {
	names, inTheWay := h.taken(out)
	for _, b := range all {
		name := b.Name
		if name != "HEAD" {
			name = PlainName(name)
		}
		name = "wolffia/" + p.Name + "/" + name
		if reason := inTheWay(name); reason != "" {
			refused = errors.Join(refused, staysInside(name, reason))
			continue
		}
		names.add(heads + name)
		made = append(made, Branch{name, b.At})
	}
	return made, refused
}

// asBranch returns what HEAD inside is at as a branch of that name, which is the user's: nameFault
// does not matter.
func (h *host) asBranch(ctx context.Context, in inside, out table, name string) ([]Branch, error) {
	at := in.at()
	if _, err := h.git(ctx, nil, "check-ref-format", heads+name); err != nil || strings.HasPrefix(name, "-") {
		return nil, runtime.Errorf(runtime.ErrInvalid,
			"%q cannot be the name of a branch: name another with --git=BRANCH", name)
	}
	if at == "" {
		return nil, runtime.Errorf(runtime.ErrInvalid, "the sandbox has no commit")
	}
	if _, inTheWay := h.taken(out); inTheWay(name) != "" {
		return nil, runtime.Errorf(runtime.ErrConflict, "branch %s: %s: name another with --git=BRANCH", name, inTheWay(name))
	}
	return []Branch{{name, at}}, nil
}

// taken returns the names of the host, and why a branch cannot be made, or moved; "" if it can.
func (h *host) taken(out table) (names *space, inTheWay func(branch string) string) {
	names, blocked := newSpace(out.Refs, h.Config("core.ignorecase") == "true"), h.blocked(out, "")
	blocked[out.branch()] = "it is checked out here"
	return names, func(branch string) string {
		ref := heads + branch
		if reason := blocked[ref]; reason != "" || out.Refs[ref] != "" {
			return reason
		}
		return names.clash(ref)
	}
}

// staysInside returns the reason why a branch is not made.
func staysInside(name, reason string) error {
	return runtime.Errorf(runtime.ErrInvalid, "branch %s: its commits stay inside: %s", hostgit.Printable(name), reason)
}
