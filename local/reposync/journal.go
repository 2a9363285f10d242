package reposync

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"wolffia/internal/git/gitsync"
	"wolffia/internal/git/hostgit"
)

// A journal has what commands are told about git, and why something is pending.
type journal struct {
	problem string   // why pairs could not be found
	stuck   []string // lines about git directories that do not arrive
	// lines about what was done, the last of all synchronisations
	done    []string
	dropped int // lines that are no longer in done
	// lines about what stays on its side, of the last synchronisation
	stands   map[*gitsync.Pair][]string
	pending  map[*gitsync.Pair]string // why something stays inside
	repeated map[string]bool          // lines of stands that a command got already
}

// maxGitLines bounds the lines about git that a command gets.
const maxGitLines = 100

// failure returns the line for a synchronisation that has failed.
func failure(p *gitsync.Pair, err error) string {
	if errors.Is(err, gitsync.ErrBusy) {
		return err.Error()
	}
	return fmt.Sprintf("git in %s was not taken over: %v", p.Dir, err)
}

// say keeps a line about what was done.
func (j *journal) say(line string) {
	if slices.Contains(j.done, line) {
		return
	}
	if j.done = append(j.done, line); len(j.done) > maxGitLines {
		j.done = j.done[1:]
		j.dropped++
	}
}

// stick keeps a line about what does not arrive.
func (j *journal) stick(what string, err error) {
	j.stuck = append(j.stuck, hostgit.Printable(fmt.Sprintf("%s: %v", what, err)))
}

// linesFrom returns the lines about what was done since from, and about what stays unless a
// command had these already.
func (j *journal) linesFrom(from int, pairs []*gitsync.Pair) []string {
	lines := slices.Clone(j.done[min(max(0, from-j.dropped), len(j.done)):])
	repeated := map[string]bool{}
	add := func(line string) {
		if repeated[line] {
			return
		}
		if repeated[line] = true; !j.repeated[line] {
			lines = append(lines, line)
		}
	}
	if j.problem != "" {
		add(j.problem)
	}
	for _, line := range j.stuck {
		add(line)
	}
	for _, p := range pairs {
		for _, line := range j.stands[p] {
			add(line)
		}
	}
	j.repeated = repeated
	return lines
}

// why returns why something stays inside that would be lost with the sandbox.
func (j *journal) why(pairs []*gitsync.Pair) string {
	var all []string
	if j.problem != "" {
		all = append(all, j.problem)
	}
	all = append(all, j.stuck...)
	for _, p := range pairs {
		if why := j.pending[p]; why != "" {
			if len(pairs) > 1 {
				why = p.Dir + ": " + why
			}
			all = append(all, why)
		}
	}
	return strings.Join(all, "; ")
}
