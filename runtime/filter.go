package runtime

import (
	"fmt"

	"wolffia/perm"
)

// A Filter says what enforces the rules for a codebase.
type Filter string

// The filters.
const (
	// FilterFuse: a process serves the codebase over FUSE, and asks the rules about each
	// access. New rules bind a running sandbox.
	FilterFuse Filter = "fuse"
	// FilterStatic: the codebase is mounted natively, and what the rules hide or protect
	// of it at each start is masked. Names that come into being later are not filtered
	// by their patterns. It needs no FUSE, and no runtime with an engine supports it.
	FilterStatic Filter = "static"
	// FilterNone: the codebase is mounted natively. The rules must grant everything.
	FilterNone Filter = "none"
)

// Serves reports whether a process serves the sandbox's codebase over FUSE.
func (c *SandboxConfig) Serves() bool {
	return c.CodebasePath != "" && !c.Native()
}

// Native reports whether the codebase is mounted natively.
func (c *SandboxConfig) Native() bool { return c.Filter == FilterStatic || c.Filter == FilterNone }

// GrantsAll reports whether the rules give all of the codebase to the sandbox, so that
// nothing has to be filtered.
func (c *SandboxConfig) GrantsAll() bool {
	p, err := perm.Compile(c.Permissions)
	return err == nil && p.GrantsAll()
}

// checkFilter checks the filter against what it cannot do.
func checkFilter(c *SandboxConfig, bad problem) {
	switch c.Filter {
	case "", FilterFuse:
		if c.CopyOnWrite && c.CodebasePath == "" {
			bad("cow: it is for a codebase, and the sandbox has none")
		}
		return
	case FilterStatic, FilterNone:
	default:
		bad("filter %q: it can be %s, %s or %s, or left out (auto)", c.Filter, FilterFuse, FilterStatic, FilterNone)
		return
	}
	switch {
	case c.CopyOnWrite:
		bad("filter %s: the changes of the sandbox would go to the host's directory: leave cow out, or use filter %s", c.Filter, FilterFuse)
	case c.CodebasePath == "":
		bad("filter %s: it is for a codebase, and the sandbox has none", c.Filter)
	case c.Resources.Disk > 0:
		bad("filter %s: it cannot enforce a limit of disk: leave that out, or use filter %s", c.Filter, FilterFuse)
	case c.Filter == FilterNone && !c.GrantsAll():
		bad("filter %s: the rules hide or protect a part of the codebase%s, and nothing would enforce them: use rules that grant everything (--preset full-access, and --no-config if a configuration file is in the codebase), or filter %s or %s", c.Filter, c.strongest(), FilterFuse, FilterStatic)
	}
}

// strongest names the rule that does not grant everything and outranks others; empty if there is
// none.
func (c *SandboxConfig) strongest() string {
	var first *perm.Rule
	for i := range c.Permissions {
		if r := &c.Permissions[i]; r.Level < perm.Write && (first == nil || r.Priority > first.Priority) {
			first = r
		}
	}
	if first == nil {
		return ""
	}
	return fmt.Sprintf(" (%q of %s)", first.Pattern+"="+first.Level.String(), first.Source)
}
