package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/term"

	"wolffia/local"
	"wolffia/runtime"
)

// The values of run --apply.
const (
	applyAsk       = "ask"
	applyOnSuccess = "on-success"
	applyAlways    = "always"
	applyNever     = "never"
)

// reviewFlags say what becomes of the changes at the end of run --cow.
type reviewFlags struct{ apply string }

func (f *reviewFlags) check(copied bool) error {
	if !slices.Contains([]string{applyAsk, applyOnSuccess, applyAlways, applyNever}, f.apply) {
		return runtime.Errorf(runtime.ErrInvalid, "--apply %q: it must be ask, on-success, always or never", f.apply)
	}
	if f.apply != applyAsk && !copied {
		return runtime.Errorf(runtime.ErrInvalid, "--apply %s: without --cow a command changes the codebase itself: add --cow", f.apply)
	}
	return nil
}

// asks reports whether the user can be asked.
func (a *app) asks() bool {
	return term.IsTerminal(int(a.in.Fd())) && term.IsTerminal(int(a.err.Fd()))
}

// review decides what becomes of the changes of a sandbox of run whose command has ended, as
// failed or not, and reports whether the sandbox is to be kept, since it has changes that were
// neither applied nor discarded, or snapshots. tell prints that, and is for later: wolffia may end in it, and then
// the sandbox must have been kept.
func (a *app) review(ctx context.Context, rt *local.Runtime, id string, f *reviewFlags, failed bool) (keep bool, tell func() error, err error) {
	keep, told, err := a.reviewChanges(ctx, rt, id, f, failed)
	if keep || !hasSnapshots(context.WithoutCancel(ctx), rt, id) {
		return keep, told, err
	}
	return true, func() error {
		err := told()
		fmt.Fprintf(a.err, "wolffia: sandbox %[1]s stays, since it has snapshots: wolffia snapshot ls %[1]s; rm -f %[1]s\n", id)
		return err
	}, err
}

// reviewChanges is review for changes and commits alone.
func (a *app) reviewChanges(ctx context.Context, rt *local.Runtime, id string, f *reviewFlags, failed bool) (keep bool, tell func() error, err error) {
	asking := ctx
	ctx = context.WithoutCancel(ctx)
	silent := func() error { return nil }
	s, err := rt.Get(ctx, id)
	if errors.Is(err, runtime.ErrNotFound) {
		return false, silent, nil // its lifetime is over
	}
	if err != nil {
		return true, silent, err
	}
	all, err := a.changesOf(ctx, rt, s.ID)
	if err != nil {
		return true, silent, err
	}
	shown, git := withoutGit(all)
	if len(shown) == 0 && !git {
		return false, silent, nil
	}
	var head strings.Builder
	if len(shown) > 0 {
		fmt.Fprintf(&head, "wolffia: %s\n", countText(shown))
	}
	commits := false // inside, or there may be
	if git {
		top, below, err := commitsOf(ctx, rt, s, all)
		commits = err != nil || top+below > 0 // nothing is lost by keeping the sandbox
		if !commits && len(shown) == 0 {
			return false, silent, nil // git has refreshed its index
		}
		if err != nil {
			a.warn("%s", printable(err.Error()))
			fmt.Fprintf(&head, "wolffia: there may be commits inside that the host does not have; to take them: wolffia apply --git %s, or wolffia cp for a repository that was made inside\n", s.ID)
		}
		if below > 0 {
			fmt.Fprintf(&head, "wolffia: commits of repositories made inside that no remote has: %d; to take them, copy those repositories with wolffia cp\n", below)
		}
		if top > 0 {
			fmt.Fprintf(&head, "wolffia: commits inside that the host does not have: %d; to take them: wolffia apply --git %s\n", top, s.ID)
		}
	}
	choice := f.apply
	if choice == applyOnSuccess {
		choice = applyAlways
		if failed {
			choice = applyNever
		}
	}
	if choice == applyAsk && len(shown) > 0 && a.asks() {
		_, _ = a.err.WriteString(head.String())
		return a.askReview(asking, rt, s, shown, commits)
	}
	if choice == applyAlways && len(shown) > 0 {
		res, failure := rt.Apply(ctx, s.ID, runtime.ApplyOptions{})
		keep = failure != nil || commits
		if res != nil {
			left, _ := withoutGit(res.Left)
			keep = keep || len(left) > 0
		}
		return keep, func() error {
			_, _ = a.err.WriteString(head.String())
			err := a.applied(s, res, false, failure)
			if keep {
				a.kept(s)
			}
			return err
		}, nil
	}
	return true, func() error {
		_, _ = a.err.WriteString(head.String())
		a.summarize(shown)
		a.kept(s)
		return nil
	}, nil
}

// changesOf returns the changes of a sandbox, without numbers of lines if some content cannot be read: what becomes of
// the changes does not depend on them.
func (a *app) changesOf(ctx context.Context, rt *local.Runtime, id string) ([]runtime.Change, error) {
	all, err := rt.Changes(ctx, id, runtime.ChangesOptions{Lines: true})
	if err == nil {
		return all, nil
	}
	uncounted, again := rt.Changes(ctx, id, runtime.ChangesOptions{})
	if again != nil {
		return nil, err
	}
	a.warn("lines are not counted: %s", printable(err.Error()))
	return uncounted, nil
}

// summarize prints the first of the changes.
func (a *app) summarize(all []runtime.Change) {
	const most = 20
	w := bufio.NewWriter(a.err)
	printNames(w, all[:min(most, len(all))])
	if len(all) > most {
		fmt.Fprintf(w, "... and %d more\n", len(all)-most)
	}
	_ = w.Flush()
}

// kept says how to come back to a sandbox with changes.
func (a *app) kept(s *runtime.Sandbox) {
	fmt.Fprintf(a.err, "wolffia: the changes are kept in sandbox %[1]s: wolffia diff %[1]s; apply %[1]s; discard %[1]s; rm -f %[1]s\n", s.ID)
}

// askReview asks what becomes of the changes. Its results are those of review.
func (a *app) askReview(ctx context.Context, rt *local.Runtime, s *runtime.Sandbox, all []runtime.Change, commits bool) (keep bool, tell func() error, err error) {
	silent := func() error { return nil }
	kept := func() error { a.kept(s); return nil }
	a.summarize(all)
	lines, asking := newLines(a), ctx
	ctx = context.WithoutCancel(ctx)
	for {
		fmt.Fprint(a.err, "Apply them? [a]pply all, [c]hoose, show the [d]iff, [k]eep for later, discard [x]: ")
		answer, err := lines.read(asking)
		if err != nil { // the end of the input, or a signal
			fmt.Fprintln(a.err)
			return true, kept, nil
		}
		switch answer {
		case "a", "apply", "c", "choose":
			var paths []string
			if answer[0] == 'c' {
				if paths, err = a.choose(asking, rt, s, all, lines); err != nil || len(paths) == 0 {
					continue
				}
			}
			res, err := rt.Apply(ctx, s.ID, runtime.ApplyOptions{Paths: paths})
			if err = a.applied(s, res, false, err); err != nil && res == nil {
				return true, kept, err
			}
			rest, err := a.changesOf(ctx, rt, s.ID)
			if err != nil {
				return true, kept, err
			}
			if all, _ = withoutGit(rest); len(all) == 0 {
				if commits {
					return true, kept, nil
				}
				return false, silent, nil
			}
			fmt.Fprintf(a.err, "wolffia: left: %s\n", countText(all))
		case "d", "diff":
			if err := a.diff(ctx, rt, s.ID, nil, &diffFlags{color: "auto"}); err != nil {
				a.warn("%s", printable(err.Error()))
			}
		case "k", "keep":
			return true, kept, nil
		case "x", "discard":
			if commits {
				fmt.Fprintln(a.err, "wolffia: the sandbox stays, since it has commits: wolffia apply --git, or wolffia rm")
			}
			if commits || hasSnapshots(ctx, rt, s.ID) { // the sandbox stays
				_, err = rt.Discard(ctx, s.ID, pathsOf(all))
			}
			return commits || err != nil, silent, err
		}
	}
}

func pathsOf(all []runtime.Change) (paths []string) {
	for i := range all {
		paths = append(paths, all[i].Path)
	}
	return paths
}

// choose asks for each change whether it is to be applied, and returns the paths of those.
func (a *app) choose(ctx context.Context, rt *local.Runtime, s *runtime.Sandbox, all []runtime.Change, lines *lines) (paths []string, err error) {
	for i := range all {
		c := &all[i]
		for asked := false; !asked; {
			why := ""
			if t := trouble(c); t != "" {
				why = " (" + printable(t) + ")"
			}
			fmt.Fprintf(a.err, "%s %s +%d -%d%s? [y]es, [n]o, [d]iff, [q]uit: ", letters[c.Kind], shownPath(c), c.Added, c.Deleted, why)
			answer, err := lines.read(ctx)
			if err != nil {
				return nil, err
			}
			switch answer {
			case "y", "yes":
				paths, asked = append(paths, c.Path), true
			case "n", "no":
				asked = true
			case "d", "diff":
				if err := a.diff(ctx, rt, s.ID, []string{c.Path}, &diffFlags{color: "auto", noPager: true}); err != nil {
					a.warn("%s", printable(err.Error()))
				}
			case "q", "quit":
				return paths, nil
			}
		}
	}
	return paths, nil
}

// lines are the answers of the user, which are read when they are asked for.
type lines struct {
	keys  *keyboard
	rest  []byte // typed after the last one
	ended error  // the end of the input
}

func newLines(a *app) *lines { return &lines{keys: a.keys()} }

// read returns the next answer, in lower case.
func (l *lines) read(ctx context.Context) (said string, err error) {
	if l.ended != nil {
		return "", l.ended
	}
	t := &typist{keys: l.keys, over: ctx.Done()}
	if said, l.rest, l.ended = t.readLine(l.rest); l.ended != nil {
		return "", l.ended
	}
	return strings.ToLower(strings.TrimSpace(said)), ctx.Err()
}
