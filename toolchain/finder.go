package toolchain

import (
	"io/fs"
	"path"
	"slices"
	"strings"

	"wolffia/internal/pathname"
	"wolffia/runtime"
)

// system are the places of the host that every sandbox without an image has.
var system = []string{"/usr", "/bin", "/sbin", "/lib", "/lib64", "/nix/store", "/gnu/store"}

// ordinary are the directories of programs that belong to no toolchain.
var ordinary = []string{
	"/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin", "/usr/games", "/usr/local/games",
}

// foreign are places that are never shown: the kernel's, those of running services, and
// those that have no programs for inside.
var foreign = []string{"/proc", "/dev", "/sys", "/run", "/etc", "/boot", "/snap", "/var/lib/snapd", "/lost+found"}

// maxNames is how many names of a directory of programs are looked at; one with more is not shown.
const maxNames = 4096

// maxLinks is how many symbolic links to elsewhere are followed in one scan.
const maxLinks = 64

// A finder is one scan.
type finder struct {
	*fsView
	host     *Host
	home     string // Home, cleaned; empty: none
	realHome string
	roots    []string // of layouts; empty: none
	found    Found
	parts    []part // of toolchains, in the order of PATH
	links    int    // that were followed
	refused  map[string]string
}

// A part is what an entry of PATH adds to the toolchain of a name.
type part struct {
	name, dir string
	mounts    []runtime.Mount
	env       map[string]string
	visited   map[string]bool // directories that links have led to
	// what exists in its mounts' places and is not shown, also by real names
	never []string
}

func newFinder(h *Host) *finder {
	f := &finder{fsView: newView(h.FS), host: h, refused: map[string]string{}}
	if path.IsAbs(h.Home) && path.Clean(h.Home) != "/" {
		f.home = path.Clean(h.Home)
		f.realHome = f.home
		if real, err := f.eval(f.home); err == nil {
			f.realHome = real
		}
	}
	for i := range layouts {
		f.roots = append(f.roots, f.root(&layouts[i]))
	}
	return f
}

func (f *finder) leave(dir, reason string) { f.found.Left = append(f.found.Left, Left{dir, reason}) }

// show adds an entry of PATH inside.
func (f *finder) show(dir, name string) {
	if s := (step{dir, name}); !slices.ContainsFunc(f.found.order, func(o step) bool { return o.dir == dir }) {
		f.found.order = append(f.found.order, s)
	}
}

// entry decides on one absolute entry of PATH.
func (f *finder) entry(given string) {
	dir := path.Clean(given)
	if slices.ContainsFunc(f.host.Inside, func(in string) bool { return pathname.Within(dir, in) }) {
		f.show(dir, "")
		return
	}
	real, err := f.eval(dir)
	if err != nil {
		f.leave(given, "does not exist, or is out of reach")
		return
	}
	if !f.isDir(real) {
		f.leave(given, "is not a directory")
		return
	}
	if slices.Contains(ordinary, dir) {
		f.show(dir, "")
		if dir == "/usr/local/bin" {
			p := part{name: "linked"}
			f.follow(&p, dir)
			if len(p.mounts) > 0 {
				f.parts = append(f.parts, p)
			}
		}
		return
	}
	// By the name that PATH has, if it is below the home directory; else by the real name,
	// so that a link of a version manager's (~/.sdkman/candidates/java/current) stands for
	// what it leads to now.
	p := part{dir: f.named(real)}
	var reason string
	if l, root, at := f.located(dir); l != nil && f.exists(root) {
		p.dir, reason = dir, f.byPlace(&p, l, root, at)
	} else if reason = f.refuse(real); reason == "" {
		reason = f.byContent(&p)
	}
	if reason != "" {
		f.leave(given, reason)
		return
	}
	f.show(p.dir, p.name)
	f.parts = append(f.parts, p)
}

// beside adds the layouts that come along with every PATH.
func (f *finder) beside() {
	for i := range layouts {
		l, root := &layouts[i], f.roots[i]
		if len(l.Dirs) > 0 || root == "" || !f.exists(root) {
			continue
		}
		p := part{name: l.Name}
		if f.layout(&p, l, root, ""); len(p.mounts) > 0 {
			f.parts = append(f.parts, p)
		}
	}
}

// refuse returns why the directory or file real, a path without symbolic links, cannot be
// shown; empty if it can. Every mount passes it.
func (f *finder) refuse(real string) string {
	reason, known := f.refused[real]
	if !known {
		reason = f.refusal(real)
		f.refused[real] = reason
	}
	return reason
}

// refusal is refuse for a path that was not asked for before.
func (f *finder) refusal(real string) string {
	in := func(places []string) bool {
		return slices.ContainsFunc(places, func(p string) bool { return pathname.Within(real, p) })
	}
	switch {
	case real == "/" || f.home != "" && (pathname.Within(f.home, real) || pathname.Within(f.realHome, real)):
		return "is the home directory, or contains it"
	case in(foreign):
		return "is in a place that has no programs for a sandbox"
	case len(real) >= 6 && strings.HasPrefix(real, "/mnt/") && (len(real) == 6 || real[6] == '/'):
		return "is on a drive of Windows"
	case in(system):
		return ""
	case slices.ContainsFunc(f.host.Apart, func(a string) bool { return pathname.Within(a, real) || pathname.Within(real, a) }):
		return "is in the codebase or in wolffia's state directory, or contains one of them"
	case f.host.Readable != nil && !f.host.Readable(real):
		return "cannot be read by the sandbox's user"
	}
	return ""
}

// named returns the name of a path without symbolic links that programs know it by: below
// the home directory as HOME names that.
func (f *finder) named(real string) string {
	if f.home != "" && pathname.Within(real, f.realHome) {
		return f.home + real[len(f.realHome):]
	}
	return real
}

// hide adds to p.never what exists below root of those names of never that are in what is
// shown.
func (f *finder) hide(p *part, root string, shows, never []string) {
	for _, n := range never {
		if !slices.ContainsFunc(shows, func(s string) bool { return pathname.Within(n, s) }) {
			continue
		}
		dir, all := strings.CutSuffix(n, "/*")
		at := path.Join(root, dir)
		real, err := f.eval(at)
		if err != nil {
			continue
		}
		if all {
			if names, err := f.list(real); err == nil && len(names) == 0 {
				continue
			}
		}
		p.never = append(p.never, at, real)
	}
}

// contains reports whether something that is not shown is below dir.
func (p *part) contains(dir string) bool {
	return slices.ContainsFunc(p.never, func(n string) bool { return n != dir && pathname.Within(n, dir) })
}

// mount adds a mount of p, if it exists and may be shown, at its own path. It reports
// whether p is visible inside. Of a directory with something below that is not shown it
// mounts what is beside that.
func (f *finder) mount(to *part, p string) bool {
	real, err := f.eval(p)
	if err != nil || f.refuse(real) != "" {
		return false
	}
	if to.contains(p) {
		names, _ := f.list(p)
		for _, e := range names {
			f.mount(to, path.Join(p, e.Name()))
		}
		return false
	}
	if to.contains(real) || slices.ContainsFunc(to.never, func(n string) bool { return pathname.Within(p, n) || pathname.Within(real, n) }) {
		return false
	}
	if slices.ContainsFunc(system, func(s string) bool { return pathname.Within(real, s) }) && pathname.Within(p, "/usr") {
		return true
	}
	if typ := f.typ(real); !typ.IsDir() && !typ.IsRegular() {
		return false
	}
	to.mounts = append(to.mounts, runtime.Mount{Source: real, Target: p, Toolchain: true})
	if f.named(real) == p && real != p { // absolute links and records in it may have either name
		to.mounts = append(to.mounts, runtime.Mount{Source: real, Target: real, Toolchain: true})
	}
	return true
}

// follow mounts what the symbolic links in a directory of programs lead to.
func (f *finder) follow(to *part, dir string) {
	names, err := f.list(dir)
	if err != nil {
		return
	}
	for _, e := range names {
		if e.Type()&fs.ModeSymlink != 0 {
			f.followLink(to, path.Join(dir, e.Name()))
		}
	}
}

// followLink mounts what a program needs that a symbolic link leads to.
func (f *finder) followLink(to *part, link string) {
	real, err := f.eval(link)
	if err != nil || slices.ContainsFunc(system, func(s string) bool { return pathname.Within(real, s) }) || f.covered(to, f.named(real)) {
		return
	}
	dir, file := path.Dir(f.named(real)), f.named(real)
	if to.visited[dir] {
		return
	}
	if to.visited == nil {
		to.visited = map[string]bool{}
	}
	if f.links++; f.links > maxLinks || f.refuse(real) != "" {
		return
	}
	if l, root, at := f.located(dir); l != nil {
		to.visited[dir] = true
		if f.byPlace(to, l, root, at) == "" {
			return
		}
	} else if s, root := f.shaped(dir); s != nil {
		to.visited[dir] = true
		f.byShape(to, s, root)
		return
	}
	if !secret(path.Base(real)) && f.program(real) {
		f.mount(to, file)
	}
}

// covered reports whether a part shows p already.
func (f *finder) covered(to *part, p string) bool {
	return slices.ContainsFunc(to.mounts, func(m runtime.Mount) bool { return pathname.Within(p, m.Target) })
}

// byContent adds what an entry of PATH that is not at a known place needs, or returns why it
// is left out.
func (f *finder) byContent(p *part) (reason string) {
	if s, root := f.shaped(p.dir); s != nil {
		f.byShape(p, s, root)
		return ""
	}
	base, parent := path.Base(p.dir), path.Dir(p.dir)
	inSystem := slices.ContainsFunc(system, func(s string) bool { return pathname.Within(p.dir, s) })
	switch {
	case inSystem:
		p.name = strings.TrimLeft(base, ".")
		if base == "bin" || base == "sbin" {
			p.name = strings.TrimLeft(path.Base(parent), ".")
		}
		return ""
	case base != "bin" && base != "sbin":
		return "has no layout that wolffia knows, and another name than bin"
	case parent == f.home:
		return "is your own directory of scripts, which may contain passwords"
	}
	names, err := f.list(p.dir)
	if err != nil {
		return "cannot be listed"
	}
	for _, e := range names {
		if secret(e.Name()) {
			return "contains " + e.Name() + ", which may be a credential"
		}
	}
	p.name = strings.TrimLeft(path.Base(parent), ".")
	if p.name == "" || p.name == "/" {
		p.name = base
	}
	f.mount(p, p.dir)
	f.follow(p, p.dir)
	return ""
}

// merge joins parts of the same name, and moves those without PATH into what exists.
func (f *finder) merge() []Toolchain {
	var all []Toolchain
	for _, p := range f.parts {
		i := slices.IndexFunc(all, func(t Toolchain) bool { return t.Name == p.name })
		if i < 0 {
			i = len(all)
			all = append(all, Toolchain{Name: p.name, Env: map[string]string{}})
		}
		t := &all[i]
		if p.dir != "" && !slices.Contains(t.Dirs, p.dir) {
			t.Dirs = append(t.Dirs, p.dir)
		}
		t.Mounts = outermost(append(t.Mounts, p.mounts...))
		for k, v := range p.env {
			if _, set := t.Env[k]; !set {
				t.Env[k] = v
			}
		}
	}
	return all
}
