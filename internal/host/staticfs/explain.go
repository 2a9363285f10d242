package staticfs

import (
	"strings"

	"wolffia/perm"
)

// Explain describes on one line how the filter static shows the object at a path, relative to the
// codebase; dir says that it is a directory. It is about files and directories, not about symbolic
// links. private says that git directories are the sandbox's own where the rules let it write
// them.
func Explain(p *perm.Policy, path string, dir, private bool) string {
	if above, _, is := strings.Cut("/"+path+"/", "/"+gitName+"/"); is && private && (&Git{Rules: p}).owns(strings.TrimPrefix(above, "/")) {
		return "in the sandbox's own copy, if the host has one at the start; else as on the host, writable"
	}
	state := p.Root()
	if path == "" || path == "." {
		return text(dirKind(p.Fresh(state)), true)
	}
	parent := dirKind(p.Fresh(state))
	names := strings.Split(path, "/")
	for i, name := range names {
		last := i == len(names)-1
		level := p.Child(state, name, !last || dir)
		if last && !dir {
			return text(in(parent, level, fileKind(level, file)), false)
		}
		if level == perm.None {
			if as := in(parent, level, hidden); last || as == keep {
				return text(as, dir)
			}
			return "it is in a directory that is empty and without permissions"
		}
		state = p.Enter(state, name)
		parent = dirKind(p.Fresh(state))
	}
	return text(parent, true)
}

// in returns keep for names that are omitted from a directory that is shown as parent.
func in(parent kind, level perm.Level, as kind) kind {
	if parent == only && level == perm.None {
		return keep
	}
	return as
}

// text describes a kind; keep means that the name is omitted.
func text(as kind, dir bool) string {
	switch {
	case as == keep:
		return "left out"
	case as == hidden && dir:
		return "an empty directory without permissions, at each start"
	case as == hidden:
		return "an empty file without permissions, at each start"
	case as == only:
		return "a read-only directory with the names that there are at each start"
	case as == shut:
		return "read-only, at each start"
	}
	return "as on the host, writable; a name that comes later is so too"
}
