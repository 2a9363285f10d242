package sandboxflags

import (
	"context"
	"fmt"
	"strings"

	"wolffia/cmd/wolffia/internal/console"
	"wolffia/cmd/wolffia/internal/host"
	"wolffia/internal/host/staticfs"
	"wolffia/local"
	"wolffia/runtime"
)

// CreateAndStart creates and starts a sandbox, or leaves nothing. It warns of what
// the user may not expect.
func CreateAndStart(ctx context.Context, h *host.Host, rt *local.Runtime, config *runtime.SandboxConfig) (id string, err error) {
	h.Signals.Wait()
	end := h.During("start the sandbox")
	sb, err := runtime.Launch(ctx, rt, config)
	end()
	if err != nil {
		return "", err
	}
	if config.Resources.Limited() {
		warnLimits(h, rt.Limits(sb.ID()))
	}
	if config.Filter == runtime.FilterStatic {
		warnStatic(ctx, h, rt, sb.ID())
	}
	return sb.ID(), nil
}

// Launch creates and starts the sandbox that the flags describe, which then has the working tree.
func (f *Sandbox) Launch(ctx context.Context, h *host.Host, rt *local.Runtime, config *runtime.SandboxConfig) (id string, err error) {
	if id, err = CreateAndStart(ctx, h, rt, config); err == nil {
		f.Flags.Taken()
	}
	return id, err
}

// warnLimits tells what of --limits best-effort is less than was asked for.
func warnLimits(h *host.Host, l *runtime.LimitsState) {
	if l == nil {
		return
	}
	if l.Memory == runtime.ByRlimit {
		h.Warn("--memory binds each process for itself, its private memory only; the sandbox as a whole can use more")
	}
	var lacking []string
	for _, limit := range []struct {
		flag string
		by   runtime.Enforcement
	}{{"--memory", l.Memory}, {"--cpus", l.CPUs}, {"--pids", l.PIDs}} {
		if limit.by == runtime.ByNothing {
			lacking = append(lacking, limit.flag)
		}
	}
	if len(lacking) > 0 {
		h.Warn("nothing keeps %s on this host; wolffia doctor says what helps", strings.Join(lacking, ", "))
	}
}

// warnStatic says what the static filter of a sandbox that was started does not do.
func warnStatic(ctx context.Context, h *host.Host, rt *local.Runtime, id string) {
	figures := &staticfs.Stats{} // if the sandbox has ended already
	if info, err := rt.Inspect(ctx, id); err == nil && info.Tree != nil && info.Tree.TreeStats != nil && info.Tree.Static != nil {
		figures = info.Tree.Static
	}
	h.Warn("%s", console.Printable(StaticText(figures)))
}

// FilterAuto is the value of --filter that leaves the choice to the runtime.
const FilterAuto = "auto"

// StaticText puts what a static filter does, and does not, on one line.
func StaticText(s *staticfs.Stats) string {
	var b strings.Builder
	fmt.Fprintf(&b, "filter static: masked at this start: %d hidden, %d read-only", s.Hidden, s.ReadOnly)
	if s.Own > 0 {
		fmt.Fprintf(&b, "; the sandbox has its own copy of each .git that there was (%d)", s.Own)
	}
	if s.Git > 0 {
		fmt.Fprintf(&b, "; git directories that stay the host's, read-only, so that git commit does not work there: %d", s.Git)
	}
	if s.GitReason != "" {
		fmt.Fprintf(&b, "; a git directory cannot be copied: %s", s.GitReason)
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
