// Package sessiontest is the conformance suite of shell sessions. It checks what
// [runtime.SessionManager] promises, as
// tests that every implementation passes, and has benchmarks of what matters.
//
//	func TestSessions(t *testing.T) {
//		sessiontest.Run(t, sessiontest.Config{
//			New:   func(t testing.TB) runtime.RuntimeWithExecutor { ... },
//			Lacks: []sessiontest.Feature{sessiontest.LongCwd},
//		})
//	}
//
// It has three parts: the contract; Failure, the ways in which other systems
// have been seen to break a session, each by name; and Attack, a table of what
// can be done to a shell from inside, after each of which the session must
// answer exactly.
//
// The suite skips nothing: an implementation declares what it lacks, and both
// lacking what is not declared and having what is declared lacking fail.
//
// It needs bash, coreutils and /usr/bin/python3 inside. The tests are parallel.
package sessiontest
