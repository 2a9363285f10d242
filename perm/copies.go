package perm

import (
	"slices"
	"strings"
)

// backups are the ends that editors and people add to the name of a copy; a number can follow each.
var backups = [...]string{".bak", ".backup", ".old", ".orig", ".save", " - copy", " copy", " (copy"}

const digits = "0123456789"

// maxOriginals is how many names a copy is traced back to. A name of 255 bytes could have more; no
// program makes such names.
const maxOriginals = 8

// originals returns the names of the files that one called name may be a copy of, and their
// number: a backup, an editor's file beside an open one, and copies of those in turn. Each name is
// shorter than the one that it was found from.
func originals(name string) (names [maxOriginals]string, n int) {
	for next := 0; ; next++ {
		open := opened(name)
		for _, original := range [...]string{backedUp(name), open[0], open[1]} {
			if n < maxOriginals && validName(original) && !slices.Contains(names[:n], original) {
				names[n] = original
				n++
			}
		}
		if next == n {
			return names, n
		}
		name = names[next]
	}
}

// backedUp returns the name that a backup called name was made of: NAME~, NAME.~1~, NAME.bak,
// NAME.save.1, "NAME copy 2", "NAME (copy)", "NAME - Copy (2)". It returns "" for another name.
func backedUp(name string) string {
	if base, ok := strings.CutSuffix(name, "~"); ok {
		if of, ok := strings.CutSuffix(strings.TrimRight(base, digits), ".~"); ok {
			return of
		}
		return base
	}
	base, closed := strings.CutSuffix(name, ")")
	if text := strings.TrimRight(base, digits); text != base {
		if before, ok := strings.CutSuffix(text, "("); ok && closed {
			text, closed = before, false // the parentheses have the number alone
		}
		base = strings.TrimRight(text, ". ")
	}
	for _, end := range backups {
		if of, ok := cutFold(base, end); ok && closed == strings.Contains(end, "(") {
			return of
		}
	}
	return ""
}

// opened returns the names that an editor may have open while it keeps a file called name:
// .NAME.swp and .NAME.un~ of vim, where the first dot may be NAME's own, #NAME# and .#NAME of
// emacs.
func opened(name string) (names [2]string) {
	if len(name) < 3 || name[0] != '.' && name[0] != '#' {
		return
	}
	inner := name[1:]
	if name[0] == '#' {
		if of, ok := strings.CutSuffix(inner, "#"); ok {
			names[0] = of
		}
		return
	}
	if inner[0] == '#' {
		names[0] = inner[1:]
		return
	}
	of, ok := cutFold(name, ".un~")
	if last := len(name) - 1; !ok && 'a' <= lowerByte(name[last]) && lowerByte(name[last]) <= 'p' {
		of, ok = cutFold(name[:last], ".sw")
	}
	if ok && of != "" {
		names = [2]string{of, of[1:]}
	}
	return
}

// cutFold is strings.CutSuffix for letters of either case.
func cutFold(s, end string) (string, bool) {
	n := len(s) - len(end)
	if n < 0 || !strings.EqualFold(s[n:], end) {
		return s, false
	}
	return s[:n], true
}
