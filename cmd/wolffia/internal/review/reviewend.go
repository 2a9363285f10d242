package review

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"wolffia/cmd/wolffia/internal/console"
	"wolffia/cmd/wolffia/internal/history"
	"wolffia/runtime"
)

// The values of run --apply.
const (
	ApplyAsk       = "ask"
	ApplyOnSuccess = "on-success"
	ApplyAlways    = "always"
	ApplyNever     = "never"
)

// Flags say what becomes of the changes at the end of run --cow.
type Flags struct{ Apply string }

// Check returns what is wrong with the flags. copied says that the sandbox has a copied codebase.
func (f *Flags) Check(copied bool) error {
	if !slices.Contains([]string{ApplyAsk, ApplyOnSuccess, ApplyAlways, ApplyNever}, f.Apply) {
		return runtime.Errorf(runtime.ErrInvalid, "--apply %q: it must be ask, on-success, always or never", f.Apply)
	}
	if f.Apply != ApplyAsk && !copied {
		return runtime.Errorf(runtime.ErrInvalid, "--apply %s: without --cow a command changes the codebase itself: add --cow", f.Apply)
	}
	return nil
}

// Review decides what becomes of the changes of a sandbox of run whose command has ended, as
// failed or not, and reports whether the sandbox is to be kept, since it has changes that were
// neither applied nor discarded, or snapshots. tell prints that, and is for later: wolffia may end
// in it, and then the sandbox must have been kept.
func (rv *Reviewer) Review(ctx context.Context, id string, f *Flags, failed bool) (keep bool, tell func() error, err error) {
	keep, told, err := rv.reviewChanges(ctx, id, f, failed)
	if keep || !rv.hasSnapshots(context.WithoutCancel(ctx), id) {
		return keep, told, err
	}
	return true, func() error {
		err := told()
		rv.Sayf("sandbox %[1]s stays, since it has snapshots: wolffia snapshot ls %[1]s, wolffia rm -f %[1]s", id)
		return err
	}, err
}

// reviewChanges is review for changes and commits alone.
func (rv *Reviewer) reviewChanges(ctx context.Context, id string, f *Flags, failed bool) (keep bool, tell func() error, err error) {
	asking := ctx
	ctx = context.WithoutCancel(ctx)
	silent := func() error { return nil }
	s, err := rv.rt.Get(ctx, id)
	if errors.Is(err, runtime.ErrNotFound) {
		return false, silent, nil // its lifetime is over
	}
	if err != nil {
		return true, silent, err
	}
	all, err := rv.changesOf(ctx, s.ID)
	if err != nil {
		return true, silent, err
	}
	shown, git := WithoutGit(all)
	if len(shown) == 0 && !git {
		return false, silent, nil
	}
	var head []string
	if len(shown) > 0 {
		head = append(head, countText(shown))
	}
	commits := false // inside, or there may be
	if git {
		top, below, err := rv.commitsOf(ctx, s, all)
		commits = err != nil || top+below > 0 // nothing is lost by keeping the sandbox
		if !commits && len(shown) == 0 {
			return false, silent, nil // git has refreshed its index
		}
		if err != nil {
			rv.Warn("%s", console.Printable(err.Error()))
			head = append(head, fmt.Sprintf("there may be commits inside that the host does not have; "+
				"to take them: wolffia apply --git %s, or wolffia cp for a repository that was made inside", s.ID))
		}
		if below > 0 {
			head = append(head, fmt.Sprintf("commits of repositories made inside that no remote has: %d; "+
				"to take them, copy those repositories with wolffia cp", below))
		}
		if top > 0 {
			head = append(head, fmt.Sprintf("commits inside that the host does not have: %d; to take them: wolffia apply --git %s", top, s.ID))
		}
	}
	choice := f.Apply
	if choice == ApplyOnSuccess {
		choice = ApplyAlways
		if failed {
			choice = ApplyNever
		}
	}
	if choice == ApplyAsk && len(shown) > 0 && rv.Asks() {
		rv.Say(head...)
		return rv.askReview(asking, s, shown, commits)
	}
	if choice == ApplyAlways && len(shown) > 0 {
		res, failure := rv.apply(ctx, s, runtime.ApplyOptions{})
		keep = failure != nil || commits
		if res != nil {
			left, _ := WithoutGit(res.Left)
			keep = keep || len(left) > 0
		}
		return keep, func() error {
			rv.Say(head...)
			err := rv.applied(s, res, false, failure)
			if keep {
				rv.kept(s)
			}
			return err
		}, nil
	}
	return true, func() error {
		rv.Say(head...)
		rv.summarize(shown)
		rv.kept(s)
		return nil
	}, nil
}

// changesOf returns the changes of a sandbox, without numbers of lines if some content cannot be
// read: what becomes of the changes does not depend on them.
func (rv *Reviewer) changesOf(ctx context.Context, id string) ([]runtime.Change, error) {
	all, err := rv.rt.Changes(ctx, id, runtime.ChangesOptions{Lines: true})
	if err == nil {
		return all, nil
	}
	uncounted, again := rv.rt.Changes(ctx, id, runtime.ChangesOptions{})
	if again != nil {
		return nil, err
	}
	rv.Warn("lines are not counted: %s", console.Printable(err.Error()))
	return uncounted, nil
}

// summarize prints the first of the changes.
func (rv *Reviewer) summarize(all []runtime.Change) {
	const most = 20
	w := bufio.NewWriter(rv.Err)
	printNames(w, all[:min(most, len(all))])
	if len(all) > most {
		fmt.Fprintf(w, "... and %d more\n", len(all)-most)
	}
	_ = w.Flush()
}

// kept says how to come back to a sandbox with changes.
func (rv *Reviewer) kept(s *runtime.Sandbox) {
	rv.Sayf("the changes are kept in sandbox %[1]s: wolffia diff %[1]s, wolffia apply %[1]s or wolffia rm -f %[1]s", s.ID)
}

// askReview asks what becomes of the changes. Its results are those of review.
func (rv *Reviewer) askReview(ctx context.Context, s *runtime.Sandbox, all []runtime.Change, commits bool) (keep bool, tell func() error, err error) {
	silent := func() error { return nil }
	kept := func() error { rv.kept(s); return nil }
	rv.summarize(all)
	lines, asking := &lines{Console: rv.Console}, ctx
	ctx = context.WithoutCancel(ctx)
	for {
		fmt.Fprint(rv.Err, "Apply them? [a]pply all, [c]hoose, show the [d]iff, [k]eep for later, discard [x]: ")
		answer, err := lines.read(asking)
		if err != nil { // the end of the input, or a signal
			fmt.Fprintln(rv.Err)
			return true, kept, nil
		}
		switch answer {
		case "a", "apply", "c", "choose":
			var paths []string
			if answer[0] == 'c' {
				if paths, err = rv.choose(asking, s, all, lines); err != nil || len(paths) == 0 {
					continue
				}
			}
			res, err := rv.apply(ctx, s, runtime.ApplyOptions{Paths: paths})
			if err = rv.applied(s, res, false, err); err != nil && res == nil {
				return true, kept, err
			}
			rest, err := rv.changesOf(ctx, s.ID)
			if err != nil {
				return true, kept, err
			}
			if all, _ = WithoutGit(rest); len(all) == 0 {
				if commits {
					return true, kept, nil
				}
				return false, silent, nil
			}
			rv.Say("left: " + countText(all))
		case "d", "diff":
			if err := rv.diff(ctx, s.ID, nil, &diffFlags{}); err != nil {
				rv.Warn("%s", console.Printable(err.Error()))
			}
		case "k", "keep":
			return true, kept, nil
		case "x", "discard":
			if commits {
				rv.Say("the sandbox stays, since it has commits: wolffia apply --git, or wolffia rm")
			}
			if commits || rv.hasSnapshots(ctx, s.ID) { // the sandbox stays
				if _, err = rv.rt.Discard(ctx, s.ID, pathsOf(all)); err == nil {
					rv.record(history.KindDiscard, s, len(all), pathsOf(all))
				}
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
func (rv *Reviewer) choose(ctx context.Context, s *runtime.Sandbox, all []runtime.Change, lines *lines) (paths []string, err error) {
	for i := range all {
		c := &all[i]
		for asked := false; !asked; {
			why := ""
			if t := trouble(c); t != "" {
				why = " (" + console.Printable(t) + ")"
			}
			fmt.Fprintf(rv.Err, "%s %s +%d -%d%s? [y]es, [n]o, [d]iff, [q]uit: ", letters[c.Kind], shownPath(c), c.Added, c.Deleted, why)
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
				if err := rv.diff(ctx, s.ID, []string{c.Path}, &diffFlags{noPager: true}); err != nil {
					rv.Warn("%s", console.Printable(err.Error()))
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
	*console.Console
	rest  []byte // typed after the last one
	ended error  // the end of the input
}

// read returns the next answer, in lower case.
func (l *lines) read(ctx context.Context) (said string, err error) {
	if l.ended != nil {
		return "", l.ended
	}
	t := l.Typist(ctx.Done())
	if said, l.rest, l.ended = t.ReadLine(l.rest); l.ended != nil {
		return "", l.ended
	}
	return strings.ToLower(strings.TrimSpace(said)), ctx.Err()
}
