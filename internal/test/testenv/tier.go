package testenv

import (
	"os"
	"testing"
)

const (
	// fullVariable is set to 1 by make soak, whose tests leave nothing out to be fast.
	fullVariable = "WOLFFIA_TEST_FULL"
	// passVariable is set to root in the second pass of make test, whose tests ran as another
	// user in the first.
	passVariable = "WOLFFIA_TEST_PASS"
)

// Full reports whether tests leave nothing out to be fast: WOLFFIA_TEST_FULL=1.
func Full() bool { return os.Getenv(fullVariable) == "1" }

// Some returns how many of n like cases to try: n in a full run, else an eighth,
// but at least two.
func Some(n int) int {
	if Full() {
		return n
	}
	return min(n, max(2, n/8))
}

// Picked reports whether to try case i of a table: each one in a full run, else one of every.
func Picked(i, every int) bool { return Full() || i%every == 0 }

// Every returns of how many cases a conformance suite tries one: of three for a sample, and again of three as root, after
// a pass as another user; for [Picked].
func Every(sample bool) int {
	every := 1
	if sample {
		every = 3
	}
	if Second() {
		every *= 3
	}
	return every
}

// Soak skips t unless the run is full. The reason says why it is not for each run.
func Soak(t testing.TB, reason string) {
	t.Helper()
	if !Full() {
		t.Skipf("SOAK: %s: %s=1 runs it", reason, fullVariable)
	}
}

// Both declares that t shows something else as root than as another user: make test runs it
// in both passes. scripts/test finds the call by its name: it belongs into the test function
// itself, as does [Root]. Tests without either run as an unprivileged user only, except in make
// soak.
func Both(testing.TB) {}

// Second reports whether t runs as root and has already run in full as another user: what
// does not depend on the user needs no repetition.
func Second() bool { return os.Getenv(passVariable) == "root" && os.Geteuid() == 0 && !Full() }
