// Package cause is the table of causes why a host cannot run sandboxes. Each has a code that does
// not change, a sentence and a fix. Wolffia doctor and the error of a failed start use it.
//
// [Read] reads what the table needs of a host. [Of] decides, without I/O.
package cause

import (
	"errors"
	"slices"
	"strings"
)

// A Cause is why a host cannot run sandboxes, or does so with a risk.
type Cause struct {
	Code    string // stable: lower-case words with hyphens between
	Problem string // one sentence without a full stop
	// Fix has commands of a shell, one on each line. A line that begins with # is for a person:
	// it cannot be run here.
	Fix string
}

// Facts are what the table decides from.
type Facts struct {
	*Host
	Symptom Symptom // empty: that of Said
	Said    string  // the exact text of the error; empty: nothing has failed
	Bwrap   Bwrap
	Dir     string // what State and Codebase are about: an absolute path; may be empty
}

// Bwrap is the bubblewrap of the host. The zero value stands for one that was not examined.
type Bwrap struct {
	Path    string
	Version []int // such as 0, 8, 0
	Setuid  bool
}

// TooOld reports whether a bubblewrap lacks what wolffia needs: --disable-userns, of 0.8.0.
func TooOld(version []int) bool { return slices.Compare(version, []int{0, 8, 0}) < 0 }

// vulnerable reports whether it has CVE-2026-41163 where it is setuid: by the overlays that came
// with 0.11.0. Distributions repair it under the same version.
func (b *Bwrap) vulnerable() bool {
	return slices.Compare(b.Version, []int{0, 11, 0}) >= 0 && slices.Compare(b.Version, []int{0, 11, 2}) < 0
}

// A row is one cause of the table.
type row struct {
	code    string
	when    func(*Facts) bool
	problem func(*Facts) string
	fix     func(*Facts) string // nil: none is known
}

// Of returns the first cause of the table that fits; ok is false if none does.
func Of(f *Facts) (c Cause, ok bool) {
	d := *f
	if d.Symptom == "" {
		d.Symptom = symptomOf(d.Said)
	}
	for _, r := range table() {
		if r.when(&d) {
			c = Cause{Code: r.code, Problem: r.problem(&d)}
			if r.fix != nil {
				c.Fix = r.fix(&d)
			}
			return c, true
		}
	}
	return Cause{}, false
}

// Codes returns the codes of all causes, in the order of the table.
func Codes() (codes []string) {
	for _, r := range table() {
		codes = append(codes, r.code)
	}
	return codes
}

// Runnable reports whether the fix has a command that can be run on this host.
func Runnable(fix string) bool {
	for line := range strings.Lines(fix) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			return true
		}
	}
	return false
}

// An Error is a failure with its cause.
type Error struct {
	Cause
	Err error
}

// advice ends errors that have no cause.
const advice = "; wolffia doctor says what helps"

// Error implements error. The fix follows on lines of its own.
func (e *Error) Error() string {
	text := strings.TrimSuffix(e.Err.Error(), advice) + "\n" + e.Code + ": " + e.Problem
	switch {
	case Runnable(e.Fix):
		text += "\nfix: " + e.Fix
	case e.Fix != "":
		text += "\nfix: " + strings.TrimPrefix(strings.ReplaceAll(e.Fix, "\n# ", "\n"), "# ")
	}
	return text
}

// Unwrap returns the failure, which has the class.
func (e *Error) Unwrap() error { return e.Err }

// Explain returns err, of something that this host cannot do, as an [Error]; err itself if its cause
// is not known. s may be empty: then the text of err tells it.
func Explain(s Symptom, err error) error {
	if err == nil || errors.As(err, new(*Error)) {
		return err
	}
	c, ok := Of(&Facts{Host: This(), Symptom: s, Said: err.Error()})
	if !ok {
		return err
	}
	return &Error{c, err}
}
