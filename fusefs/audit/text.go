package audit

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"wolffia/perm"
)

// Text returns r on one line for people, with times in loc. command is what precedes the flag
// that would allow it, to make a command line for a shell. It is printable whatever the sandbox
// has chosen: a path or name with other than plain characters is quoted like a Go string.
func (r *Record) Text(loc *time.Location, command string) string {
	at := r.Time.In(loc).Format(time.DateTime)
	if r.Dropped > 0 {
		return fmt.Sprintf("%s  %d more denials have no line of their own", at, r.Dropped)
	}
	path := plain(cmp.Or(r.Path, "."))
	if r.Cut {
		path += "..."
	}
	explanation := ""
	if r.Host != nil {
		path, explanation = plain(r.Host.String()), Printable(r.Host.Reason)
	} else {
		explanation = r.explanation()
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s  %-8s  %-24s  %s", at, plain(r.Op), path, explanation)
	if r.Remedy != "" {
		source := ""
		if r.Rule != nil {
			source = r.Rule.Source
		}
		fmt.Fprintf(&b, "; %s: %s", perm.ToAllow(source), Printable(command+r.Remedy))
	}
	var notes []string
	if r.Command != "" {
		notes = append(notes, plain(r.Command))
	}
	if r.PID != 0 {
		notes = append(notes, "pid "+strconv.FormatUint(uint64(r.PID), 10))
	}
	switch {
	case !r.Since.IsZero():
		notes = append(notes, fmt.Sprintf("%d times more", r.Count))
	case r.Count > 1:
		notes = append(notes, fmt.Sprintf("%d times", r.Count))
	}
	if notes != nil {
		fmt.Fprintf(&b, " (%s)", strings.Join(notes, ", "))
	}
	return b.String()
}

// explanation returns the errno, and the rule that decided.
func (r *Record) explanation() string {
	errno := Printable(r.Errno)
	if r.Asked != "" {
		if errno != "" {
			errno += ", "
		}
		errno += "asked: " + Printable(r.Asked)
		if r.By != "" {
			errno += " by " + Printable(r.By)
		}
	}
	if r.Reason != "" {
		errno += ": " + Printable(r.Reason)
	}
	switch {
	case r.Need > r.Level:
	case r.Reason != "":
		return errno
	default:
		return errno + ": this kind of object is refused"
	}
	by := "no rule matches"
	switch {
	case r.Problem != "":
		by = Printable(r.Problem)
	case r.Rule != nil:
		by = "by " + strconv.Quote(r.Rule.String())
		if r.Rule.Source != "" {
			by += " of " + Printable(r.Rule.Source)
		}
	}
	return fmt.Sprintf("%s: needs %v, has %v, %s", errno, r.Need, r.Level, by)
}

// plain returns s if it has plain characters only, else s quoted.
func plain(s string) string {
	if s == "" || !utf8.ValidString(s) {
		return strconv.Quote(s)
	}
	for _, c := range s {
		if !strconv.IsPrint(c) || strings.ContainsRune(` "\`, c) {
			return strconv.Quote(s)
		}
	}
	return s
}

// Printable escapes the unprintable characters of s.
func Printable(s string) string {
	q := strconv.Quote(s)
	return strings.NewReplacer(`\"`, `"`, `\\`, `\`).Replace(q[1 : len(q)-1])
}
