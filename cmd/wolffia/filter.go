package main

import (
	"context"
	"fmt"
	"strings"

	"wolffia/internal/host/staticfs"
	"wolffia/local"
)

// filterAuto is the value of --filter that leaves the choice to the runtime.
const filterAuto = "auto"

// warnStatic says what the static filter of a sandbox that was started does not do.
func (a *app) warnStatic(ctx context.Context, rt *local.Runtime, id string) {
	figures := &staticfs.Stats{} // if the sandbox has ended already
	if info, err := rt.Inspect(ctx, id); err == nil && info.Tree != nil && info.Tree.TreeStats != nil && info.Tree.Static != nil {
		figures = info.Tree.Static
	}
	a.warn("%s", printable(staticText(figures)))
}

// staticText puts what a static filter does, and does not, on one line.
func staticText(s *staticfs.Stats) string {
	var b strings.Builder
	fmt.Fprintf(&b, "filter static: masked at this start: %d hidden, %d read-only", s.Hidden, s.ReadOnly)
	if s.Own > 0 {
		fmt.Fprintf(&b, "; the sandbox has its own copy of each .git that there was (%d)", s.Own)
	}
	if s.Git > 0 {
		fmt.Fprintf(&b, "; git directories that stay the host's, read-only, so that git commit does not work there: %d", s.Git)
	}
	if s.GitWhy != "" {
		fmt.Fprintf(&b, "; a git directory cannot be copied: %s", s.GitWhy)
	}
	b.WriteString("; a name that is made or replaced later, inside or on the host, is not covered: a secret that is saved again can be read, and the sandbox can make files that this host executes (.git, .envrc, .vscode/tasks.json) where there are none yet")
	if n := s.Links + s.Closed; n > 0 {
		fmt.Fprintf(&b, "; %d symbolic links cannot be masked, %d directories are hidden since they cannot be looked into: %s", s.Links, s.Closed, strings.Join(s.Names, ", "))
		if n > len(s.Names) {
			b.WriteString(", ...")
		}
	}
	return b.String()
}
