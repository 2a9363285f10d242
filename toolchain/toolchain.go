// Package toolchain finds what of a caller's PATH a sandbox can be shown without credentials.
//
// Find looks at the entries of PATH only: it reads some directories of programs, and never walks a
// tree. What an entry needs beside its programs comes from two tables: layouts of tools that are
// known by their place ([layouts]), and shapes that are known by what a directory contains
// ([shapes]). Everything is an allow-list of names, so that a file that no table names, such as a
// token beside the programs, is not shown. CARGO_HOME and GOPATH are not set inside: what they
// name must be writable there.
package toolchain

import (
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"wolffia/internal/pathname"
	"wolffia/runtime"
)

// A Host is what Find looks at. Paths are absolute.
type Host struct {
	FS     fs.FS               // the host's root directory: HostFS()
	Path   string              // the caller's PATH
	Home   string              // the caller's home directory; empty: none
	Getenv func(string) string // the caller's environment
	// Apart are directories, without symbolic links, that no mount may contain, and that no
	// mount may be in: the codebase, which only its filter may show, and wolffia's state.
	Apart []string
	// Inside are directories that the sandbox has at the same path.
	Inside []string
	// Readable reports whether the sandbox's user may read a file, or list and enter a
	// directory; nil: all of them.
	Readable func(path string) bool
}

// A Toolchain is what of PATH belongs together.
type Toolchain struct {
	Name   string
	Dirs   []string          // its entries of PATH, as they are inside
	Mounts []runtime.Mount   // read-only, each at the path of its source
	Env    map[string]string // variables that its programs need
}

// A Left is an entry of PATH that is left out.
type Left struct {
	Dir    string // as PATH has it
	Reason string
}

// A Found is the result of [Find].
type Found struct {
	Toolchains []Toolchain // in the order of PATH
	Left       []Left      // in the order of PATH

	order []step
}

// A step is an entry of PATH inside.
type step struct{ dir, name string } // name is empty for a directory of the system

// Default are the directories that PATH has at least.
var Default = []string{"/usr/local/bin", "/usr/bin", "/bin"}

// Names returns the names of the toolchains.
func (f *Found) Names() []string {
	var names []string
	for i := range f.Toolchains {
		names = append(names, f.Toolchains[i].Name)
	}
	return names
}

// Only returns f with the toolchains of these names only. It returns the first name that f
// does not have.
func (f *Found) Only(names []string) (only *Found, unknown string) {
	has := f.Names()
	for _, name := range names {
		if !slices.Contains(has, name) {
			return nil, name
		}
	}
	only = &Found{Left: f.Left}
	for i := range f.Toolchains {
		if slices.Contains(names, f.Toolchains[i].Name) {
			only.Toolchains = append(only.Toolchains, f.Toolchains[i])
		}
	}
	for _, s := range f.order {
		if s.name == "" || slices.Contains(names, s.name) {
			only.order = append(only.order, s)
		}
	}
	return only, ""
}

// Path returns PATH inside: what exists there of the caller's, in the caller's order, then
// what is missing of [Default].
func (f *Found) Path() string {
	var dirs []string
	for _, s := range f.order {
		dirs = append(dirs, s.dir)
	}
	for _, dir := range Default {
		if !slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
		}
	}
	return strings.Join(dirs, ":")
}

// Env returns the variables of all toolchains. The first toolchain that has one wins.
func (f *Found) Env() map[string]string {
	env := map[string]string{}
	for i := len(f.Toolchains) - 1; i >= 0; i-- {
		maps.Copy(env, f.Toolchains[i].Env)
	}
	return env
}

// Mounts returns the mounts of all toolchains, sorted, without those that another one
// contains.
func (f *Found) Mounts() []runtime.Mount {
	var all []runtime.Mount
	for i := range f.Toolchains {
		all = append(all, f.Toolchains[i].Mounts...)
	}
	return outermost(all)
}

// outermost sorts mounts by target, and drops those below another one.
func outermost(mounts []runtime.Mount) []runtime.Mount {
	slices.SortFunc(mounts, func(a, b runtime.Mount) int { return strings.Compare(a.Target, b.Target) })
	var out []runtime.Mount
	for _, m := range mounts {
		if !slices.ContainsFunc(out, func(o runtime.Mount) bool { return pathname.Within(m.Target, o.Target) }) {
			out = append(out, m)
		}
	}
	return out
}

// Find finds the toolchains in PATH.
func Find(h *Host) *Found {
	f := newFinder(h)
	seen := map[string]bool{}
	for dir := range strings.SplitSeq(h.Path, ":") {
		if seen[dir] {
			continue
		}
		seen[dir] = true
		if !path.IsAbs(dir) {
			f.leave(dir, "is relative to the current directory")
			continue
		}
		f.entry(dir)
	}
	f.beside()
	f.found.Toolchains = f.merge()
	return &f.found
}
