package archtest

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"wolffia/internal/test/doctable"
)

// variables are the environment variables of tests and their scripts that a person may set.
var variables = []struct{ names, effect string }{
	{"WOLFFIA_TEST_BIN WOLFFIA_TEST_CRASH_BIN WOLFFIA_TEST_ATTACK_BIN", "directories with the programs that tests start; without, they are built"},
	{"WOLFFIA_REQUIRE", "features whose absence fails a test, such as `fuse,runsc`, or `all` (as in CI): `internal/test/testenv`"},
	{"WOLFFIA_TEST_FULL", "`1`: all cases, as `make soak`"},
	{"WOLFFIA_TEST_BWRAP", "the bubblewrap to test with, for `scripts/test`; `scripts/bwraps` names those of Debian's releases"},
	{"WOLFFIA_BARE_SUITE", "for `scripts/bare`: a release, such as `trixie`. The tests given as arguments run in its root"},
	{"WOLFFIA_GIT_MONITOR", "`1`, for the product: git inside asks wolffia what has changed, whatever git it is"},
	{"WOLFFIA_TEST_SEED", "the seed of a run of `internal/test/gitmodel` to repeat"},
	{"WOLFFIA_TEST_USER", "the unprivileged user; default `wolffia-test`"},
	{"TEST_TIMEOUT", "of each test program; default 60m"},
	{"SETUP", "`none`: install and change nothing"},
	{"WOLFFIA_SIGN_KEY WOLFFIA_PUBLIC_KEY WOLFFIA_RELEASE_URL", "of `make dist`: the files of the keys, and where its files will be (`scripts/dist`)"},
	{"WOLFFIA_URL", "of `install.sh`: another address of the release"},
	{"FUZZTIME ROUNDS", "of `make soak` and `make fuzz`: time for each fuzz target, number of crash rounds"},
	{"WOLFFIA_CRASH_ROUNDS WOLFFIA_CRASH_SEED WOLFFIA_CRASH_ONLY", "crash tests: rounds (`all`), the seed of a run to repeat, only rounds whose name contains it"},
	{"WOLFFIA_ROUNDS WOLFFIA_SEED", "`TestTwins`, `TestModel`: how many rounds, or exactly one"},
	{"WOLFFIA_RACE", "how long `TestSwapsNeverEscape` runs; default 1s"},
	{"WOLFFIA_TEST_DOCKER", "the socket of the engine to use, instead of one that the tests start"},
	{"WOLFFIA_TEST_KUBE", "an image that the nodes of the cluster of KUBECONFIG have, as `scripts/kube run` sets it"},
	{"KUBE_LOGS", "for `scripts/kube run`: a directory for the logs of the cluster"},
	{"WOLFFIA_LOAD_SECONDS", "how long `TestLoad` uses each interface; default 60"},
	{"WOLFFIA_BENCH_FLUSH", "`make bench` prints each row at once"},
	{"CI", "a missing feature fails. Up to eight failed tests run again: one that then passes is `UNSTABLE`, a defect"},
}

// ownVariables are set by tests and scripts for their own processes, or are the product's.
const ownVariables = "WOLFFIA_ADDRESS WOLFFIA_API_KEY WOLFFIA_ATTACK_MARKER WOLFFIA_BARE_RECIPE WOLFFIA_BARE_TESTS " +
	"WOLFFIA_CRASHTEST_STEPS WOLFFIA_TEST_OPENS WOLFFIA_DEB WOLFFIA_FUSEFS_FOREIGN WOLFFIA_FUSEFS_WORKER WOLFFIA_HISTORY WOLFFIA_KUBERNETES " +
	"WOLFFIA_MOCK WOLFFIA_MOUNTTEST_CHILD WOLFFIA_MOUNTTEST_MOUNTED WOLFFIA_PJDFSTEST WOLFFIA_SERVER " +
	"WOLFFIA_STATE_DIR WOLFFIA_TEST_ALONE WOLFFIA_TEST_CRASH_BINARY WOLFFIA_TEST_CRASH_DIR WOLFFIA_TEST_CRASH_KIND " +
	"WOLFFIA_TEST_CRASH_SEED WOLFFIA_TEST_CRASH_STATE WOLFFIA_TEST_DIAL WOLFFIA_TEST_GOCACHE " +
	"WOLFFIA_TEST_GUARD WOLFFIA_TEST_GUEST WOLFFIA_TEST_HISTORY_WRITER WOLFFIA_TEST_INSIDE WOLFFIA_TEST_NAMESPACED WOLFFIA_TEST_ON_HOST WOLFFIA_TEST_OUTSIDE " +
	"WOLFFIA_TEST_PASS WOLFFIA_TEST_PLACE WOLFFIA_TEST_PUBLIC WOLFFIA_TEST_RECIPES WOLFFIA_TEST_REMAINS " +
	"WOLFFIA_TEST_RLIMITS WOLFFIA_TEST_ROOT WOLFFIA_TEST_SECRET WOLFFIA_TEST_SESSIONS WOLFFIA_TEST_SIGNALS WOLFFIA_TEST_STAGE " +
	"WOLFFIA_TEST_STAGED WOLFFIA_TEST_WITHOUT WOLFFIA_TREE"

// TestVariablesAreListed: CONTRIBUTING.md has each environment variable that tests and
// their scripts know, but for their own.
func TestVariablesAreListed(t *testing.T) {
	document, table := ownVariables, "| variable | effect |\n| --- | --- |\n"
	for _, v := range variables {
		document += " " + v.names
		table += "| " + doctable.Code(strings.Fields(v.names), ", ") + " | " + v.effect + " |\n"
	}
	doctable.Check(t, filepath.Join(root, "CONTRIBUTING.md"), "variables", table)
	isVariable := regexp.MustCompile(`\b(WOLFFIA(_[A-Z]+)+|TEST_TIMEOUT|FUZZTIME|ROUNDS|SETUP)\b`)
	seen := map[string]bool{}
	err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		path, err := filepath.Rel(root, file)
		if err != nil {
			return err
		}
		switch {
		case d.IsDir() && file != root && (strings.HasPrefix(d.Name(), ".") || d.Name() == "bin" || d.Name() == "testdata"):
			return fs.SkipDir
		case d.IsDir(), path == "internal/test/archtest/variable_test.go":
			return nil
		case strings.HasSuffix(path, "_test.go"), strings.HasPrefix(path, "scripts/"), path == "Makefile",
			(strings.HasPrefix(path, "internal/test/") || strings.HasPrefix(path, "bench/")) && strings.HasSuffix(path, ".go"):
		default:
			return nil
		}
		text, err := os.ReadFile(file)
		for _, name := range isVariable.FindAllString(string(text), -1) {
			seen[name] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range slices.Sorted(maps.Keys(seen)) {
		if !mentions(document, name) {
			t.Errorf("neither variables nor ownVariables has %s", name)
		}
	}
	if len(seen) < 30 {
		t.Errorf("only %d variables were found", len(seen))
	}
}
