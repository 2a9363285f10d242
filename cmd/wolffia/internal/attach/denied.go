package attach

import (
	"fmt"
	"slices"
	"strings"

	"wolffia/cmd/wolffia/internal/history"
	"wolffia/cmd/wolffia/internal/host"
	"wolffia/internal/shellword"
	"wolffia/perm"
	"wolffia/runtime"
)

// maxNamed is how many denials, and how many refusals, are named at the end of a command.
const maxNamed = 3

// EveryDenial returns a line for each denial and refusal of an entry of the history.
func EveryDenial(e *history.Entry) (lines []string) {
	for _, n := range slices.Concat(denials(e.Denied), refusals(e.Refused)) {
		lines = append(lines, n.line(""))
	}
	if more := e.DeniedMore + e.RefusedMore; more > 0 {
		lines = append(lines, fmt.Sprintf("%d more, which the history does not name", more))
	}
	return lines
}

// NoteDenied reports on standard error what was denied while a command ran. create says that
// this command line describes the sandbox.
func NoteDenied(h *host.Host, exit *runtime.Result, id string, create bool) {
	h.Notes(allDenied(h, exit, id, create)...)
}

// allDenied returns the lines that name what was denied and refused.
func allDenied(h *host.Host, exit *runtime.Result, id string, create bool) []string {
	rules, names, all := h.AddTo(id), h.AllowTo(id), h.Self()+" audit "+shellword.Quote(id)
	if create {
		rules, names, all = "", "", "--audit FILE writes all"
	}
	return slices.Concat(deniedNotes(exit, rules, all), refusedNotes(exit, names, all))
}

// Refused returns a line for each refusal of the network to name. again is what shows the others.
func Refused(r *runtime.Result, again string) []string { return refusedNotes(r, "", again) }

// deniedNotes returns a line for each denial to name, without newline. flags is what the flags
// that allow it follow, and all says where the other denials are.
func deniedNotes(r *runtime.Result, flags, all string) []string {
	return named(denials(r.Denied), r.ExitCode != 0, r.DeniedMore, flags, all)
}

// denials returns a note for each denial.
func denials(list []runtime.Denial) (notes []note) {
	for _, d := range list {
		text := fmt.Sprintf("denied by the rules: %s %s", d.Op, d.Path)
		rule, _, _ := strings.Cut(d.Rule, " (") // its conditions are in audit and policy explain
		switch {
		case rule != "" && d.Source != "":
			text += fmt.Sprintf(" (rule %q of %s)", rule, d.Source)
		case rule != "":
			text += fmt.Sprintf(" (rule %q)", rule)
		}
		if d.Reason != "" {
			text += ": " + d.Reason
		}
		notes = append(notes, note{text, perm.ToAllow(d.Source), d.Allow})
	}
	return notes
}

// refusedNotes is deniedNotes for what the network has refused.
func refusedNotes(r *runtime.Result, flags, all string) []string {
	return named(refusals(r.Refused), r.ExitCode != 0, r.RefusedMore, flags, all)
}

// refusals returns a note for each refusal of the network.
func refusals(list []runtime.Refusal) (notes []note) {
	for _, d := range list {
		notes = append(notes, note{fmt.Sprintf("refused by the network: %s %s: %s", d.Op, d.Host(), d.Reason), perm.ToAllow(""), d.Allow})
	}
	return notes
}

// A note is a denial, and the flag that would allow it with what precedes that; an empty allow means
// no flag.
type note struct{ text, toAllow, allow string }

// line returns the note as a line; flags is what the flag follows.
func (n *note) line(flags string) string {
	if n.allow == "" {
		return n.text
	}
	return n.text + "; " + n.toAllow + ": " + flags + n.allow
}

// named returns the lines of at most maxNamed notes, of which no two have the same flag. Those of
// a command that failed begin with the last, which most likely made it fail. The last line says
// where the others are; more is how many others there are beside notes.
func named(notes []note, failed bool, more int, flags, all string) (lines []string) {
	if failed {
		notes = slices.Clone(notes)
		slices.Reverse(notes)
	}
	told := map[string]bool{}
	for _, n := range notes {
		if len(lines) == maxNamed || n.allow != "" && told[n.allow] || told[n.text] {
			more++
			continue
		}
		told[n.allow], told[n.text] = true, true
		lines = append(lines, n.line(flags))
	}
	if more > 0 && len(lines) > 0 {
		lines[len(lines)-1] += fmt.Sprintf("; %d more: %s", more, all)
	}
	return lines
}
