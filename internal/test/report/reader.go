package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// An event is a line of go test -json (go doc test2json; go help buildjson).
type event struct {
	Action  string
	Package string
	Test    string
	Elapsed float64 // seconds
	Output  string
}

// A reader prints what failed in one pass, and a line for each package.
type reader struct {
	pass string
	w    io.Writer
	// said is what has been printed, by package and test, by those that have not
	// ended. What a package says outside of its tests is under the test "".
	said map[string]map[string]*strings.Builder
}

func newReader(pass string, w io.Writer) *reader {
	return &reader{pass, w, map[string]map[string]*strings.Builder{}}
}

func (r *reader) read(from io.Reader) error { return events(from, r.event) }

func (r *reader) event(e *event) {
	switch e.Action {
	case "build-output":
		fmt.Fprint(r.w, e.Output)
	case "output":
		if r.said[e.Package] == nil {
			r.said[e.Package] = map[string]*strings.Builder{}
		}
		b := r.said[e.Package][e.Test]
		if b == nil {
			b = &strings.Builder{}
			r.said[e.Package][e.Test] = b
		}
		b.WriteString(e.Output)
	case "pass", "skip", "fail":
		if e.Test == "" {
			r.over(e)
			return
		}
		if e.Action == "fail" {
			fmt.Fprint(r.w, r.said[e.Package][e.Test])
		}
		delete(r.said[e.Package], e.Test)
	}
}

// over prints a package that has ended: its line, and if it has failed what was said
// outside of tests, or in those that have not ended.
func (r *reader) over(e *event) {
	said := r.said[e.Package]
	delete(r.said, e.Package)
	if e.Action == "fail" {
		for _, test := range slices.Sorted(maps.Keys(said)) {
			fmt.Fprint(r.w, said[test])
		}
		fmt.Fprintf(r.w, "FAIL %s: %s\n", r.pass, e.Package)
		return
	}
	if e.Action == "skip" { // it has no tests
		return
	}
	cached := ""
	if own := said[""]; own != nil && strings.Contains(own.String(), "(cached)") {
		cached = " (cached)"
	}
	fmt.Fprintf(r.w, "ok   %s: %s %.1fs%s\n", r.pass, e.Package, e.Elapsed, cached)
}
