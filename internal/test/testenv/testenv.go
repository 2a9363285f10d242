// Package testenv lets a test say what it needs of the host. Without it the
// test is skipped, with the reason; where the environment variable
// WOLFFIA_REQUIRE says that the host must have it, as on CI, the test fails.
//
//	testenv.Need(t, probe.Bubblewrap, probe.Fuse)
//
// WOLFFIA_REQUIRE is a list of features with commas between: the names of
// package probe, "tools" for the programs that tests run, "root",
// "unprivileged", or "all". The last stands for all but the two before it: no
// process is both root and not.
package testenv

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"wolffia/internal/host/probe"
	"wolffia/internal/sys/userns"
)

// Require is the environment variable that names the features whose absence is
// a failure.
const Require = "WOLFFIA_REQUIRE"

// Need skips t, or fails it, if the host lacks one of the features. Each is
// probed once in a process.
func Need(t testing.TB, features ...probe.Feature) {
	t.Helper()
	for _, f := range features {
		if r := result(f); !r.OK {
			lack(t, string(f), required(string(f)) || required("all"), r.Problem, r.Fix)
		}
	}
}

// SubIDs is Need for subordinate ids: of root for those of its own sandboxes.
func SubIDs(t testing.TB) {
	t.Helper()
	Need(t, probe.SubIDs)
	if os.Geteuid() != 0 {
		return
	}
	if _, err := userns.Of(0, 0); err != nil {
		lack(t, string(probe.SubIDs), required(string(probe.SubIDs)) || required("all"), err.Error(), "scripts/setup test")
	}
}

// Cgroups is Need for control groups, but demands them of root only: what another
// user has depends on how it has logged in.
func Cgroups(t testing.TB) {
	t.Helper()
	if r := result(probe.Cgroups); !r.OK {
		must := os.Geteuid() == 0 && (required(string(probe.Cgroups)) || required("all"))
		lack(t, string(probe.Cgroups), must, r.Problem, r.Fix)
	}
}

// Has reports whether the host has a feature.
func Has(f probe.Feature) bool { return result(f).OK }

// Lacks skips t, or fails it, for want of a feature that it has found missing itself.
// WOLFFIA_REQUIRE demands it by "all".
func Lacks(t testing.TB, feature, problem string) {
	t.Helper()
	lack(t, feature, required("all"), problem, "")
}

// Tools skips t, or fails it, if the host lacks one of the programs. WOLFFIA_REQUIRE
// names them by "tools".
func Tools(t testing.TB, names ...string) {
	t.Helper()
	for _, name := range names {
		if _, err := exec.LookPath(name); err != nil {
			lack(t, "the program "+name, required("tools") || required("all"), err.Error(), "")
		}
	}
}

// Root skips t, or fails it, unless it runs as root.
func Root(t testing.TB) {
	t.Helper()
	if os.Geteuid() != 0 {
		lack(t, "root", required("root"), "the tests run as another user", "")
	}
}

// Unprivileged skips t, or fails it, if it runs as root.
func Unprivileged(t testing.TB) {
	t.Helper()
	if os.Geteuid() == 0 {
		lack(t, "unprivileged", required("unprivileged"), "the tests run as root", "")
	}
}

// lack ends a test for want of a feature.
func lack(t testing.TB, feature string, must bool, problem, fix string) {
	t.Helper()
	if fix != "" {
		fix = "\nfix:\n" + fix
	}
	if must {
		t.Fatalf("NEEDS %s, which %s demands: %s%s", feature, Require, problem, fix)
	}
	t.Skipf("NEEDS %s: %s%s", feature, problem, fix)
}

// required reports whether a name is in the list of the environment.
func required(name string) bool {
	for r := range strings.SplitSeq(os.Getenv(Require), ",") {
		if strings.TrimSpace(r) == name {
			return true
		}
	}
	return false
}

var (
	mu      sync.Mutex
	results = map[probe.Feature]probe.Result{} // guarded by mu
)

// result probes a feature, once.
func result(f probe.Feature) probe.Result {
	mu.Lock() // also while probing: no other test needs it sooner
	defer mu.Unlock()
	r, ok := results[f]
	if !ok {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		r = probe.Check(ctx, f)
		results[f] = r
	}
	return r
}

// Exactly returns the pattern of go test -run that a test or subtest alone matches.
func Exactly(t testing.TB) string {
	return "^" + strings.ReplaceAll(t.Name(), "/", "$/^") + "$"
}
