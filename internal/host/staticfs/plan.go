package staticfs

import (
	"cmp"
	"errors"
	"io/fs"
	"strings"
	"syscall"
	"time"

	"wolffia/perm"
	"wolffia/runtime"
)

// The bounds of a plan.
const (
	maxMounts = 10_000
	maxNames  = 100_000 // in directories of kind only
	maxSeen   = 2_000_000
	maxDepth  = 200  // a deeper directory is hidden
	maxPath   = 3000 // bytes; backends mount by paths, which PATH_MAX bounds
	maxTime   = 30 * time.Second
	maxListed = 10 // names in Stats
)

// An entry is a name in a directory, as listed.
type entry struct {
	name string
	is   object
}

// A directory is one that a plan is made for.
type directory interface {
	// entries returns the entries of the directory, in any order.
	entries() ([]entry, error)
	// enter opens the directory called name. The caller closes it.
	enter(name string) (directory, error)
	// target returns the text of a symbolic link.
	target(name string) (string, error)
	close()
}

// A node is an entry that a plan mentions.
type node struct {
	name  string
	as    kind
	is    object
	text  string // of a link; of kind own the path of its directory
	nodes []*node
}

// Stats are figures of a Plan. The zero value is that of a codebase without a mask.
type Stats struct {
	Mounts   int `json:"mounts"`   // mounts that Plan.Mount makes
	Hidden   int `json:"hidden"`   // files and directories that have been replaced by empty ones
	ReadOnly int `json:"readOnly"` // files and directories that are read-only as a whole, or have only the names that there were
	Links    int `json:"links"`    // symbolic links that the rules hide or protect, and a mount cannot
	Closed   int `json:"closed"`   // directories that could not be read, or are too deep: they are hidden
	Git      int `json:"git"`      // git directories of the host, which are read-only as a whole
	Own      int `json:"own"`      // git directories, and files that lead to one, that are the sandbox's own
	// GitReason is the path of the first .git that could not be made the sandbox's own, and why:
	// it is one of Git then, or hidden.
	GitReason string `json:"gitReason,omitempty"`
	// Names are the paths of the first of Links and Closed, relative to the codebase.
	Names []string `json:"names,omitempty"`
}

// A Plan lists the mounts over the codebase. It is made from one listing of the codebase.
type Plan struct {
	root  *node
	Stats Stats
}

// planner makes a Plan.
type planner struct {
	policy *perm.Policy
	git    *Git // nil: no git directory is the sandbox's own
	stats  Stats
	seen   int
	names  int
	until  time.Time
}

func plan(p *perm.Policy, root directory, git *Git) (*Plan, error) {
	w := &planner{policy: p, git: git, until: time.Now().Add(maxTime)}
	at := where{state: p.Root()}
	n := &node{is: folder, as: dirKind(p.Fresh(at.state))}
	if n.as != open {
		w.stats.Mounts++
	}
	if err := w.planDir(root, n, &at); err != nil {
		return nil, err
	}
	return &Plan{root: n, Stats: w.stats}, nil
}

// A where is the place of a directory.
type where struct {
	state perm.State
	path  string
	depth int
}

func (at *where) join(name string) string {
	if at.path == "" {
		return name
	}
	return at.path + "/" + name
}

// dir returns the path of the directory at: "." is the root.
func (at *where) dir() string { return cmp.Or(at.path, ".") }

// planDir plans the content of the directory dir, which is shown as n says.
func (w *planner) planDir(dir directory, n *node, at *where) error {
	if level, same := w.policy.Constant(at.state); same && level != perm.View && (w.git == nil || level < perm.Write) {
		return nil // n.as is enough
	}
	all, err := dir.entries()
	if err != nil {
		return err
	}
	if w.seen += len(all); w.seen > maxSeen || time.Now().After(w.until) {
		return runtime.Errorf(runtime.ErrUnsupported, "the codebase has too many files to look at all at a start (%d in %v at most): show a part of it, or use --filter fuse", maxSeen, maxTime)
	}
	for _, e := range all {
		made, err := w.entry(dir, n, at, e)
		if err != nil {
			return err
		}
		if made == nil {
			continue
		}
		n.nodes = append(n.nodes, made)
		if n.as == only {
			w.names++
		}
		if w.stats.Mounts > maxMounts || w.names > maxNames {
			return runtime.Errorf(runtime.ErrUnsupported, "the rules need more than %d mounts or %d names in this codebase: use rules about whole directories (docs/=read), or --filter fuse", maxMounts, maxNames)
		}
	}
	return nil
}

// entry plans an entry of the directory dir; nil: no mount is needed.
func (w *planner) entry(dir directory, parent *node, at *where, e entry) (*node, error) {
	n := &node{name: e.name, is: e.is}
	level := w.policy.Child(at.state, e.name, e.is == folder)
	if level > perm.None && e.name == gitName && (e.is == folder || e.is == file) && w.git.owns(at.dir()) {
		if w.own(parent, n, at) {
			return n, nil
		}
		if level == perm.Write { // the rules do not protect it in place
			level = perm.None
		}
	}
	switch e.is {
	case folder:
		if level > perm.None {
			return w.folder(dir, parent, at, n, level)
		}
		n.as = hidden
	case link:
		return w.link(dir, parent, at, n, level)
	default:
		n.as = fileKind(level, e.is)
	}
	if !mounts(parent.as, n.as) || parent.as == only && level == perm.None {
		return nil, nil
	}
	w.count(parent, n)
	return n, nil
}

// folder plans a directory that is not hidden.
func (w *planner) folder(dir directory, parent *node, at *where, n *node, level perm.Level) (*node, error) {
	below := where{state: w.policy.Enter(at.state, n.name), path: at.join(n.name), depth: at.depth + 1}
	n.as = dirKind(w.policy.Fresh(below.state))
	sub, err := directory(nil), error(fs.ErrPermission)
	if below.depth <= maxDepth && len(below.path) <= maxPath {
		sub, err = dir.enter(n.name)
	}
	if err == nil {
		err = w.planDir(sub, n, &below)
		sub.close()
	}
	switch {
	case errors.Is(err, fs.ErrPermission):
		w.stats.Closed++
		w.name(below.path)
		n.as, n.nodes = hidden, nil
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil // it was removed meanwhile
	case err != nil:
		return nil, at.explain(n.name, err)
	}
	// A directory on the way to a mask is a mount too, which cannot be renamed: else the
	// mask would move away with it, and another directory could take its place.
	pin := n.as == open && (len(n.nodes) > 0 || level < perm.Write)
	if !mounts(parent.as, n.as) && !pin {
		if len(n.nodes) == 0 {
			return nil, nil
		}
		n.as = keep
		return n, nil
	}
	if strings.HasSuffix(n.name, ".git") && n.as == shut {
		w.stats.Git++
	}
	w.count(parent, n)
	return n, nil
}

// link plans a symbolic link. No mount can be made over one.
func (w *planner) link(dir directory, parent *node, at *where, n *node, level perm.Level) (_ *node, err error) {
	if parent.as != only {
		if level < levelOf(parent.as) {
			w.stats.Links++
			w.name(at.join(n.name))
		}
		return nil, nil
	}
	switch level {
	case perm.None:
		return nil, nil
	case perm.View:
		n.as, n.is = hidden, file
		return n, nil
	}
	n.text, err = dir.target(n.name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return n, at.explain(n.name, err)
}

// count counts the mounts of n.
func (w *planner) count(parent, n *node) {
	if parent.as != only || n.as == open || n.as == shut || n.as == own { // else only the name is made
		w.stats.Mounts++
	}
	switch n.as {
	case hidden:
		w.stats.Hidden++
	case shut, only:
		w.stats.ReadOnly++
	}
}

// name notes a path for Stats.Names.
func (w *planner) name(path string) {
	if len(w.stats.Names) < maxListed {
		w.stats.Names = append(w.stats.Names, path)
	}
}

// explain adds the path to an error of the operating system.
func (at *where) explain(name string, err error) error {
	if errors.As(err, new(syscall.Errno)) {
		return runtime.Errorf(runtime.ErrUnavailable, "look at %q in the codebase: %w", at.join(name), err)
	}
	return err
}
