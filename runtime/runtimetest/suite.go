package runtimetest

import (
	"slices"
	"testing"

	"wolffia/internal/test/testenv"
	"wolffia/runtime"
)

// SecretVariable is set in the environment of the test while the suite runs,
// to a value that no sandbox may see.
const SecretVariable = "WOLFFIA_TEST_SECRET"

const secretValue = "the-caller's-own-secret"

// A Config says what to test.
type Config struct {
	// New returns a runtime over a fresh, empty state. It is called once for
	// each test; closing what it makes is its own job, by t.Cleanup.
	New func(t testing.TB) runtime.RuntimeWithExecutor
	// Reopen returns a second runtime over the state of rt, as another process
	// would have it; nil if the backend has none, see Recovery.
	Reopen func(t testing.TB, rt runtime.RuntimeWithExecutor) runtime.RuntimeWithExecutor
	// Crash kills the host's side of a running sandbox, so that it is dead;
	// nil if it has none, see Death.
	Crash func(t testing.TB, rt runtime.RuntimeWithExecutor, sandboxID string)
	// Lacks are the features that the runtime does not have.
	Lacks []Feature
	// Sample leaves out two of three members that show what backends of this host share,
	// unless the run is full (see [testenv.Full]): for a backend beside one that runs all.
	Sample bool

	// What [env.common] returns.
	shared struct {
		rt runtime.RuntimeWithExecutor
		id string
	}
}

func (c *Config) has(f Feature) bool { return !slices.Contains(c.Lacks, f) }

// A test is one member of the suite.
type test struct {
	name  string
	needs []Feature // without one of these it says nothing
	run   func(e *env)
}

// A group is members that say the same of a backend.
type group struct {
	members []test
	own     bool // each backend has its own way to do what they show
	differs bool // the outcome may depend on whether root runs them
	starter bool // and on who makes the sandbox's mounts and gives it its identity
}

// groups returns all members.
func groups() []group {
	return []group{
		{members: codebaseTests, own: true, differs: true, starter: true},
		{members: copiedTests, own: true, differs: true, starter: true},
		{members: hostTests, own: true, differs: true, starter: true},
		{members: identityTests, own: true, differs: true, starter: true},
		{members: resourceTests, own: true, differs: true, starter: true},
		{members: filterTests, own: true, differs: true},
		{members: filterTableTests, own: true, differs: true},
		{members: isolationTests, own: true, differs: true, starter: true},
		{members: kernelTests, own: true, differs: true},
		{members: coreDumpTests, own: true, differs: true},
		{members: portTests, own: true, differs: true},
		{members: nameTests, own: true, differs: true},
		{members: createTests, differs: true},
		{members: lifecycleTests, differs: true},
		{members: deadTests, own: true},
		{members: recoveryTests, own: true},
		{members: terminalTests, own: true},
		{members: pauseTests, own: true, differs: true, starter: true},
		{members: slices.Concat(
			lookupTests, concurrencyTests, execTests, limitTests, streamTests, processTests,
			fileTests, ruleTests, deniedTests, lifetimeTests,
		)},
	}
}

// selected returns the members to run. As root, after a pass as another user, those that may
// differ; of a sample, and as root, one of every three that neither the backend nor its starter
// decides.
func selected(sample bool) (tests []test) {
	second := testenv.Second()
	every := testenv.Every(sample)
	for _, g := range groups() {
		whole := g.own
		if second {
			whole = g.starter
		}
		for i, tt := range g.members {
			if (!second || g.differs) && (whole || testenv.Picked(i, every)) {
				tests = append(tests, tt)
			}
		}
	}
	return tests
}

// Run tests the runtime. The caller must not have called t.Parallel.
func Run(t *testing.T, c Config) {
	t.Setenv(SecretVariable, secretValue)
	if (c.Reopen != nil) != c.has(Recovery) {
		t.Errorf("Reopen and Lacks disagree about %s", Recovery)
	}
	if (c.Crash != nil) != c.has(Death) {
		t.Errorf("Crash and Lacks disagree about %s", Death)
	}
	for _, f := range c.Lacks {
		probe, known := probes[f]
		if !known {
			t.Errorf("there is no feature %q", f)
			continue
		}
		t.Run("Lacks"+string(f), func(t *testing.T) {
			t.Parallel()
			if probe != nil && probe(newEnv(t, &c)) {
				t.Errorf("%s is declared as lacking, and is there", f)
			}
		})
	}
	e := newEnv(t, &c)
	c.shared.rt, c.shared.id = e.rt, e.start(nil).ID
	for _, tt := range selected(c.Sample) {
		if slices.ContainsFunc(tt.needs, func(f Feature) bool { return !c.has(f) }) {
			continue // declared, and checked above
		}
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tt.run(newEnv(t, &c))
		})
	}
}
