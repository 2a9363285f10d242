package attack

import (
	"fmt"
	"slices"
	"strings"
)

const preface = `# The attack matrix

What a hostile program may try in a sandbox, and what becomes of it. This page is
generated from the table by which %s tests it on each backend, as an
unprivileged user and as root (` + "`TestAttackMatrix`" + ` of ` + "`runtime/bwrap`, `runtime/gvisor`, `runtime/docker`" + `); a test
fails if a verdict is another one, whether better or worse, and another if this page is not the
table's. ` + "`go test ./internal/test/attack -update`" + ` writes it.

There are %d attacks. Each sandbox has a codebase of which some names are hidden
(` + "`none`" + `), some show only attributes (` + "`view`" + `), some can be read, and others written; no network but where it says so; and a
read-only ` + "`--mount`" + `. Files, links, sockets and processes of the host are there to be found.
"Review" is this project's own review, with the number of its finding; CDK and deepce are public programs that look for
ways out of containers. The page says nothing of bugs of the kernel, nor of what you run outside
after a sandbox has written it: [SECURITY.md](../SECURITY.md). What commits of a
sandbox can do to git on the host is tried by ` + "`internal/git/gitsync`" + ` and ` + "`internal/test/gitdiff`" + `.

| verdict | |
| --- | --- |
`

// meanings are the verdicts in the order of the legend.
var meanings = []struct {
	Verdict
	means string
}{
	{Refused, "an error, and nothing has happened; a file of the kernel's may also be absent or empty, which depends on how the kernel was built"},
	{Hidden, "the name, process or peer is not there"},
	{Empty, "it is there, without content or power"},
	{Own, "it acts on a thing of the sandbox's own only"},
	{Bounded, "it takes no more than its limit; sandbox and host go on"},
	{Ended, "the process or the sandbox ends; the host goes on"},
	{Allowed, "it works; the note says why that is accepted"},
	{NA, "the backend has nothing of the kind"},
}

// Document returns the page.
func Document() string {
	var b strings.Builder
	fmt.Fprintf(&b, preface, "`make test`", len(Rows()))
	for _, m := range meanings {
		fmt.Fprintf(&b, "| %s | %s |\n", m.Verdict, m.means)
	}
	for _, g := range Groups() {
		fmt.Fprintf(&b, "\n## %s\n\n| | the attacker tries to | %s | known from |\n| --- | --- |%s --- |\n", g.Title, strings.Join(Backends, " | "), strings.Repeat(" --- |", len(Backends)))
		var notes []string
		for _, r := range g.Rows {
			mark := ""
			if r.note != "" {
				i := slices.Index(notes, r.note)
				if i < 0 {
					i = len(notes)
					notes = append(notes, r.note)
				}
				mark = fmt.Sprintf(" [%d]", i+1)
			}
			fmt.Fprintf(&b, "| %s | %s |", r.ID, r.Tries)
			for _, backend := range Backends {
				cell := r.cell(backend)
				if cell != string(r.all) || len(r.but) == 0 {
					cell += mark
				}
				fmt.Fprintf(&b, " %s |", cell)
			}
			fmt.Fprintf(&b, " %s |\n", r.Source)
		}
		for i, n := range notes {
			fmt.Fprintf(&b, "\n[%d] %s\n", i+1, n)
		}
	}
	return b.String()
}

// cell is what a backend's column says: one verdict, or those of both callers.
func (w Want) cell(backend string) string {
	user, root := w.On(backend, "user"), w.On(backend, "root")
	if user == root {
		return string(user)
	}
	return fmt.Sprintf("%s; root: %s", user, root)
}
