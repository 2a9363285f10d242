// Package defaults fills in what the configuration of a sandbox leaves to this host: users, filter, git, volumes and
// variables.
package defaults

import (
	"cmp"
	"errors"

	"wolffia/internal/host/cause"
	"wolffia/internal/host/statedir"
	"wolffia/internal/sys/fusermount"
	"wolffia/runtime"
	"wolffia/runtime/launch"
)

// FilterOf returns what filters the codebase of a sandbox; empty without a codebase.
func FilterOf(c *statedir.Config) runtime.Filter {
	if c.CodebasePath == "" {
		return ""
	}
	return cmp.Or(c.Filter, runtime.FilterFuse)
}

// Filter fills in what filters the codebase, and refuses what this host or the
// backend cannot do. A codebase goes without a filter only if there is nothing to filter.
func Filter(c *statedir.Config, backend *launch.Backend) error {
	err := checkFilter(c, backend)
	if errors.Is(err, runtime.ErrUnavailable) {
		err = cause.Explain(cause.Fuse, err)
	}
	return err
}

// checkFilter is Filter without the cause of an error.
func checkFilter(c *statedir.Config, backend *launch.Backend) error {
	if c.CodebasePath == "" {
		return nil
	}
	if backend.Place == launch.Elsewhere && !c.Native() { // a copy is sent, and no tree mounted
		c.Filter = runtime.FilterFuse
		return nil
	}
	if !c.Native() {
		err := fusermount.CheckDevice()
		switch {
		case err == nil:
			c.Filter = runtime.FilterFuse
			return nil
		case c.CopyOnWrite:
			return runtime.Errorf(runtime.ErrUnavailable, "cow cannot work without FUSE: %w", err)
		case c.Filter != "":
			return runtime.Errorf(runtime.ErrUnavailable, "filter %s cannot work here: %w", c.Filter, err)
		case c.Resources.Disk > 0 || !c.GrantsAll():
			return runtime.Errorf(runtime.ErrUnavailable, "the rules for codebase %s cannot be enforced without FUSE: %w. Without FUSE, --filter static masks what is to be hidden or protected when the sandbox starts, not what is made or replaced later; --preset full-access, without --disk, needs no filter", c.CodebasePath, err)
		}
		c.Filter = runtime.FilterNone
	}
	switch {
	case c.RootTree:
		return runtime.Errorf(runtime.ErrUnsupported, "filter %s: codebase %s belongs to root, and the sandbox's user, uid %d, could not change it: give it to an unprivileged user (chown -R), or run wolffia as one", c.Filter, c.CodebasePath, c.UID)
	case c.Filter == runtime.FilterStatic && !backend.Can.Has(launch.ShimMounts):
		return runtime.Errorf(runtime.ErrUnsupported, "filter %s: an engine mounts by path, later, so that what is masked could be exchanged meanwhile: use --runtime bwrap or gvisor", c.Filter)
	}
	return nil
}
