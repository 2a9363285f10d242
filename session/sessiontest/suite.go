package sessiontest

import (
	"regexp"
	"slices"
	"testing"

	"wolffia/internal/test/testenv"
	"wolffia/runtime"
)

// A Feature is a part of the contract that an implementation may lack.
type Feature string

// The features.
const (
	// Sessions: the runtime is a [runtime.SessionManager]. Without it the suite tests nothing.
	Sessions Feature = "Sessions"
	// Recovery: another process sees the same sessions and works with them.
	Recovery Feature = "Recovery"
	// TerminalStops: a program in the background that reads from its terminal
	// is stopped (SIGTTIN, termios(3)). Without it, it waits for input.
	TerminalStops Feature = "TerminalStops"
	// TerminalEnd: a program without a terminal that reads from the session's gets an end
	// of file. Without it, it is ended.
	TerminalEnd Feature = "TerminalEnd"
	// StackLimit: ulimit -s binds the shell that says it. Without it, what it
	// starts only.
	StackLimit Feature = "StackLimit"
	// Daemons: a program that leaves the shell's session, and its streams, at
	// once is known as a job and ends with the session. Without it, one that
	// takes long for that may be missed, and ends with the sandbox.
	Daemons Feature = "Daemons"
	// ShellSignals: the system shows which signals a shell catches. Without it, a shell that has
	// made itself ignore every signal continues with the text after a time-out.
	ShellSignals Feature = "ShellSignals"
	// LongCwd: a shell can work in a directory whose path is longer than PATH_MAX.
	LongCwd Feature = "LongCwd"
)

// probes tell whether a runtime that is said to lack a feature has it. Those
// that are nil are seen from Config, or by a test.
var probes = map[Feature]func(rt runtime.RuntimeWithExecutor) bool{
	Sessions: func(rt runtime.RuntimeWithExecutor) bool { _, is := rt.(runtime.SessionManager); return is },
	Recovery: nil, TerminalStops: nil, TerminalEnd: nil, StackLimit: nil, Daemons: nil,
	ShellSignals: nil, LongCwd: nil,
}

// A Config says what to test.
type Config struct {
	// New returns a runtime over a fresh, empty state. Closing what it makes is
	// its own job, by t.Cleanup.
	New func(t testing.TB) runtime.RuntimeWithExecutor
	// Reopen returns a second runtime over the state of rt, as another process
	// would have it; nil if the backend has none, see Recovery. Both have a
	// Close that ends what the end of their process would.
	Reopen func(t testing.TB, rt runtime.RuntimeWithSession) runtime.RuntimeWithSession
	// Lacks are the features that the runtime does not have.
	Lacks []Feature
	// Sample has a third of the members run and only a few of the attacks tried, unless the
	// run is full (see [testenv.Full]): for a runtime beside one that runs all, with the same
	// PID 1 and shells.
	Sample bool
}

func (c *Config) has(f Feature) bool { return !slices.Contains(c.Lacks, f) }

// runtime is a new one, which has sessions.
func (c *Config) runtime(t testing.TB) runtime.RuntimeWithSession {
	t.Helper()
	rt := c.New(t)
	with, is := rt.(runtime.RuntimeWithSession)
	if !is {
		t.Fatalf("%T has no sessions, and does not say so", rt)
	}
	return with
}

// A test is one member of the suite.
type test struct {
	name  string
	needs []Feature // without one of these it says nothing
	run   func(e *env)
}

// members returns all but the table of attacks.
func members() []test {
	return slices.Concat(
		failureTests, stateTests, queueTests, interruptTests, endTests, streamTests, concurrencyTests,
		nameTests, neighbourTests, unattendedTests, lookupTests, destroyTests, callerTests, jobTests, operationTests, attachTests,
	)
}

// alone are those members of the groups in together that look at more of their sandbox than
// sessions of their own.
var alone = []string{"FailureBackgroundBleeds", "FailureDaemonsDieWithShell", "FailureStartFilesPrint", "StreamBackpressure", "QueueCancel"}

// together reports whether members share a sandbox, as the attacks do.
func together(name string) bool {
	group := regexp.MustCompile("^(Failure|Stream|Queue|Unattended|Interrupt)[A-Z]")
	return group.MatchString(name) && !slices.Contains(alone, name)
}

// Run tests the sessions of a runtime.
func Run(t *testing.T, c Config) {
	if (c.Reopen != nil) != c.has(Recovery) {
		t.Errorf("Reopen and Lacks disagree about %s", Recovery)
	}
	for _, f := range c.Lacks {
		probe, known := probes[f]
		if !known {
			t.Errorf("there is no feature %q", f)
		} else if probe != nil && probe(c.New(t)) {
			t.Errorf("%s is declared as lacking, and is there", f)
		}
	}
	if !c.has(Sessions) {
		return
	}
	shared := newEnv(t, &c)
	for i, tt := range members() {
		if !testenv.Picked(i, testenv.Every(c.Sample)) {
			continue
		}
		if slices.ContainsFunc(tt.needs, func(f Feature) bool { return !c.has(f) }) {
			continue // declared, and checked above
		}
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if together(tt.name) {
				tt.run(shared.fork(t))
			} else {
				tt.run(newEnv(t, &c))
			}
		})
	}
	t.Run("Attack", func(t *testing.T) {
		t.Parallel()
		runAttacks(t, &c)
	})
}
