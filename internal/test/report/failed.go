package main

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// mostFailed is the largest number of failed tests of a pass that get a second try. More failures than that have one cause. A pass
// has some 30 packages: on a slow machine that runs everything at once, four of their tests have failed by chance.
const mostFailed = 8

// failed prints, for each package of a pass that has failed, its name and the tests, with | between them. The error says why a second
// try of these would tell nothing: the failure is not of single tests, or of too many.
func failed(from io.Reader, w io.Writer) error {
	tests, packages := map[string][]string{}, map[string]bool{}
	running := map[string]bool{}
	built := true
	err := events(from, func(e *event) {
		name := e.Package + " " + e.Test
		switch {
		case e.Action == "build-fail":
			built = false
		case e.Action == "start" || e.Action == "output" || strings.Contains(e.Test, "/"):
		case e.Action == "run":
			running[name] = true
		case e.Action == "fail" && e.Test == "":
			packages[e.Package] = true
		case e.Action == "fail":
			tests[e.Package] = append(tests[e.Package], e.Test)
			fallthrough
		case e.Action == "pass" || e.Action == "skip":
			delete(running, name)
		}
	})
	count := 0
	for name := range packages {
		count += len(tests[name])
		if len(tests[name]) == 0 {
			err = errors.Join(err, fmt.Errorf("%s has failed outside of its tests", name))
		}
	}
	switch {
	case err != nil:
		return err
	case !built:
		return errors.New("it was not built")
	case len(running) > 0: // a panic, or a hang
		return fmt.Errorf("these have not ended: %v", slices.Sorted(maps.Keys(running)))
	case count == 0 || count > mostFailed:
		return fmt.Errorf("%d tests have failed", count)
	}
	for _, name := range slices.Sorted(maps.Keys(packages)) {
		fmt.Fprintln(w, name, strings.Join(tests[name], "|"))
	}
	return nil
}
