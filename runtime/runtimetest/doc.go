// Package runtimetest is the conformance suite of package runtime. It checks what is
// promised there, as tests that every implementation passes, and has benchmarks of what
// matters.
//
//	func TestRuntime(t *testing.T) {
//		runtimetest.Run(t, runtimetest.Config{
//			New:   func(t testing.TB) runtime.RuntimeWithExecutor { ... },
//			Lacks: []runtimetest.Feature{runtimetest.Terminal},
//		})
//	}
//
// The suite skips nothing: an implementation declares what it lacks, and both
// lacking what is not declared and having what is declared lacking fail.
//
// It runs programs inside: sh, coreutils, and, for what a shell cannot ask the
// kernel, /usr/bin/python3. It runs as root and as an unprivileged user, with
// the same expectations.
//
// Hazards: the tests of one Run are parallel, and the variable [SecretVariable]
// is set in the environment meanwhile.
package runtimetest
