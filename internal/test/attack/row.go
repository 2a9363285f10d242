package attack

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// A Verdict says what became of an attack.
type Verdict string

// The verdicts.
const (
	Refused Verdict = "refused" // an error, and nothing has happened
	Hidden  Verdict = "hidden"  // the name, process or peer is not there
	Own     Verdict = "own"     // it works, on an object that only the sandbox has
	Empty   Verdict = "empty"   // it is there, without content or power
	Bounded Verdict = "bounded" // it takes no more than its limit; sandbox and host go on
	Ended   Verdict = "ended"   // it ends the sandbox, or the process; the host goes on
	Allowed Verdict = "allowed" // it works, and is documented
	NA      Verdict = "n/a"     // the backend or the caller does not have it
)

// Backends and Callers are the columns of the matrix.
var (
	Backends = []string{"bwrap", "bwrap" + WithRoot, "bwrap" + WithRoot + OverHost, "gvisor", "gvisor" + WithRoot, "docker"}
	Callers  = []string{"user", "root"}
)

// WithRoot ends the name of a backend whose sandboxes have root inside, on an image.
const WithRoot = "+root"

// OverHost ends the name of one whose sandboxes with root inside have the host's own system.
const OverHost = "+host"

// A Place says in which sandbox a row runs.
type Place int

// The places.
const (
	Shared   Place = iota // one sandbox for all such rows
	Terminal              // the same, on a terminal
	Alone                 // a sandbox of the row's own: it may end it
	HostNet               // one with the host's network
	Outside               // wherever attacktest does it
)

// A Row is one attack.
type Row struct {
	ID     string // GROUP.NAME
	Tries  string // what the attacker tries, in one plain sentence
	Source string // where it is known from: a CVE, an issue, a section of this project's reviews
	In     Place
	// Do is the attack, in a process of its own. It returns an observation for
	// [Judge]. Nil for Outside.
	Do func(*World) string
	Want
}

// Want is the verdict for each cell.
type Want struct {
	all  Verdict
	but  map[string]Verdict // by backend, caller, or BACKEND/CALLER
	note string             // why cells differ, or what a verdict means here
}

// On returns the verdict for a cell.
func (w Want) On(backend, caller string) Verdict {
	// root inside makes no difference, nor what it lies over, unless a cell says so
	over := strings.TrimSuffix(backend, OverHost)
	for _, name := range []string{backend, over, strings.TrimSuffix(over, WithRoot)} {
		for _, cell := range []string{name + "/" + caller, name} {
			if v, ok := w.but[cell]; ok {
				return v
			}
		}
	}
	return cmp.Or(w.but[caller], w.all)
}

func all(v Verdict) Want { return Want{all: v} }

// on returns w with another verdict for a backend, a caller, or BACKEND/CALLER, and the reason.
func (w Want) on(cell string, v Verdict, note string) Want {
	but := map[string]Verdict{cell: v}
	maps.Copy(but, w.but)
	w.but = but
	if note != "" && strings.Contains(w.note, note) {
		note = w.note
	} else if w.note != "" && note != "" {
		note = w.note + " " + note
	}
	if note != "" {
		w.note = note
	}
	return w
}

// because returns w with a footnote.
func (w Want) because(note string) Want {
	w.note = note
	return w
}

// A Group is rows about one thing.
type Group struct {
	Name  string // the first part of its rows' ids
	Title string
	Rows  []Row
}

// Groups is the table.
func Groups() []Group {
	return withRoot([]Group{
		{"hidden", "Names that the rules hide", hiddenRows()},
		{"readonly", "Names that the rules make read-only, and those of which only attributes show", readOnlyRows()},
		{"tree", "Ways out of the tree", treeRows()},
		{"call", "System calls", callRows()},
		{"family", "Socket families", familyRows()},
		{"proc", "/proc and /sys", procRows()},
		{"dev", "Devices", deviceRows()},
		{"host", "Files of the host", hostRows()},
		{"self", "What a process has from the start", selfRows()},
		{"net", "Sockets and networks", networkRows()},
		{"pid1", "PID 1, which starts and ends all others", pid1Rows()},
		{"limit", "Taking more than there is", limitRows()},
		{"private", "Other sandboxes and other processes", privateRows()},
		{"tty", "The terminal", terminalRows()},
	})
}

// Rows returns the rows of all groups.
func Rows() []Row {
	var all []Row
	for _, g := range Groups() {
		all = append(all, g.Rows...)
	}
	return all
}

// Find returns the row with an id.
func Find(id string) (Row, bool) {
	rows := Rows()
	i := slices.IndexFunc(rows, func(r Row) bool { return r.ID == id })
	if i < 0 {
		return Row{}, false
	}
	return rows[i], true
}

// Judge is the verdict on an observation, whose first word decides: the
// name of an error, what a row says itself, or "works". What it does not know is
// no verdict, so that no row expects it.
func Judge(observation string) Verdict {
	word := observation
	if i := strings.IndexAny(word, " :"); i > 0 {
		word = word[:i]
	}
	switch word {
	case "works":
		return Allowed
	case "EPERM", "EACCES", "EROFS", "ENOSYS", "EXDEV", "ELOOP", "EOPNOTSUPP", "ENOTSUP", "ENOTTY", "EBUSY",
		"EAFNOSUPPORT", "EPROTONOSUPPORT", "ESOCKTNOSUPPORT", "ECONNREFUSED", "ENETUNREACH", "EHOSTUNREACH", "stripped":
		return Refused
	case "ENOENT", "ESRCH", "ENXIO", "ENODEV", "ENOTDIR":
		return Hidden
	case "EAGAIN", "ENOSPC", "EDQUOT", "EMFILE", "ENFILE", "ENOMEM", "ENAMETOOLONG":
		return Bounded
	}
	switch v := Verdict(word); v {
	case Refused, Hidden, Own, Empty, Bounded, Ended, NA:
		return v
	}
	return Verdict("unknown: " + observation)
}
