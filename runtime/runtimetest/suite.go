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
}

func (c *Config) has(f Feature) bool { return !slices.Contains(c.Lacks, f) }

// A test is one member of the suite.
type test struct {
	name  string
	needs []Feature // without one of these it says nothing
	run   func(e *env)
}

// members returns all.
func members() []test {
	return slices.Concat(
		createTests, lookupTests, lifecycleTests, concurrencyTests, deadTests, recoveryTests,
		execTests, limitTests, streamTests, processTests, terminalTests,
		codebaseTests, fileTests, filterTests, filterTableTests, ruleTests, deniedTests,
		isolationTests, kernelTests, coreDumpTests, hostTests, identityTests, resourceTests, lifetimeTests, portTests, nameTests,
	)
}

// differing returns those whose outcome may depend on whether root runs them.
func differing() []test {
	return slices.Concat(
		createTests, lifecycleTests, codebaseTests, filterTests, filterTableTests,
		isolationTests, kernelTests, coreDumpTests, hostTests, identityTests, resourceTests, portTests, nameTests,
	)
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
	tests := members()
	if testenv.Second() {
		tests = differing()
	}
	for _, tt := range tests {
		if slices.ContainsFunc(tt.needs, func(f Feature) bool { return !c.has(f) }) {
			continue // declared, and checked above
		}
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tt.run(newEnv(t, &c))
		})
	}
}
