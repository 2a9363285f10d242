package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// slowest is how many tests are named.
const slowest = 10

// A result is a test that has ended.
type result struct {
	pass, name string // the name begins with the package
	seconds    float64
}

// A summary is of all passes.
type summary struct {
	passes  []string
	results []result
	ran     map[string]bool   // names of tests, and whether one has run
	reasons map[string]string // why a test was skipped
	cached  map[string]bool   // by pass and package: their times are of another run
	strict  bool              // the host has all that tests need
}

func newSummary(strict bool) *summary {
	return &summary{strict: strict, ran: map[string]bool{}, reasons: map[string]string{}, cached: map[string]bool{}}
}

// add adds what a pass has written.
func (s *summary) add(file string) error {
	pass := strings.TrimSuffix(filepath.Base(file), ".json")
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	return s.read(pass, f)
}

func (s *summary) read(pass string, from io.Reader) error {
	s.passes = append(s.passes, pass)
	said := map[string]string{}
	return events(from, func(e *event) {
		name := strings.TrimPrefix(e.Package, "wolffia/") + "." + e.Test
		switch e.Action {
		case "output":
			if e.Test == "" && strings.Contains(e.Output, "(cached)") {
				s.cached[pass+" "+e.Package] = true
			}
			if line := strings.TrimSpace(e.Output); line != "" && !strings.HasPrefix(line, "===") && !strings.HasPrefix(line, "---") {
				said[name] += line + " "
			}
			return
		case "pass", "fail":
			if e.Test != "" {
				s.ran[name] = true
				s.results = append(s.results, result{pass + " " + e.Package, name, e.Elapsed})
			}
		case "skip":
			if e.Test != "" {
				s.ran[name] = s.ran[name] || false
				s.reasons[name] = said[name]
			}
		}
		delete(said, name)
	})
}

// print prints the summary. It returns an error if a test that was left to another
// pass was run by none.
func (s *summary) print(w io.Writer) error {
	parents := map[string]bool{}
	for name := range s.ran {
		for i, c := range name {
			if c == '/' {
				parents[name[:i]] = true
			}
		}
	}
	tests := slices.DeleteFunc(slices.Clone(s.results), func(r result) bool { return parents[r.name] || s.cached[r.pass] })
	slices.SortStableFunc(tests, func(a, b result) int { return cmp.Compare(b.seconds, a.seconds) })
	fmt.Fprintln(w, "the slowest tests:")
	for _, r := range tests[:min(slowest, len(tests))] {
		pass, _, _ := strings.Cut(r.pass, " ")
		fmt.Fprintf(w, "%7.1fs  %s: %s\n", r.seconds, pass, r.name)
	}
	soak := 0
	var missed, skipped []string
	for _, name := range slices.Sorted(maps.Keys(s.reasons)) {
		why := s.reasons[name]
		switch {
		case s.ran[name]:
		case strings.Contains(why, "SOAK: "):
			soak++
		default:
			skipped = append(skipped, fmt.Sprintf("%s: %.300s", name, why))
			if strings.Contains(why, "NEEDS root: ") || strings.Contains(why, "NEEDS unprivileged: ") || s.strict && strings.Contains(why, "NEEDS ") {
				missed = append(missed, name)
			}
		}
	}
	if soak > 0 {
		fmt.Fprintf(w, "left to make soak: %d tests\n", soak)
	}
	if len(skipped) > 0 {
		fmt.Fprintf(w, "SKIPPED, in all passes: %d tests\n", len(skipped))
		for _, line := range skipped {
			fmt.Fprintln(w, "  "+line)
		}
	}
	if len(missed) > 0 && s.both() {
		return errors.New("no pass runs these, since they are not declared by testenv.Root or testenv.Both: " + strings.Join(missed, ", "))
	}
	return nil
}

// both reports whether there was a pass as root and one as another user.
func (s *summary) both() bool {
	root := slices.IndexFunc(s.passes, func(p string) bool { return strings.HasPrefix(p, "root") })
	user := slices.IndexFunc(s.passes, func(p string) bool { return strings.HasPrefix(p, "user") })
	return root >= 0 && user >= 0
}
