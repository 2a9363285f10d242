package integrations

import (
	"os/exec"
	"path/filepath"
	"testing"

	"wolffia/internal/test/servetest"
	"wolffia/internal/test/testbin"
	"wolffia/internal/test/testenv"
)

// A trial of Harbor's on a built Dockerfile, and the methods of its environments.
func TestHarbor(t *testing.T) {
	testenv.Soak(t, rest)
	testenv.SubIDs(t)
	testenv.Busybox(t)
	env := newPythonOf(t, python312(t), "harbor")
	w := servetest.NewProcess(t, key+"\n", "--root")
	env.pytest(t, "WOLFFIA_ADDRESS=http://"+w.Address, "WOLFFIA_API_KEY="+key, "WOLFFIA_STATE_DIR="+w.State,
		"HARBOR_WOLFFIA="+filepath.Join(testbin.Dir(t), "wolffia"))
	env.run(t, nil, "-m", "mypy", "--strict", "wolffia_harbor")
}

// python312 returns a Python of at least 3.12, which Harbor needs. A host without one skips the test, also in CI.
func python312(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"python3", "python3.12", "python3.13", "python3.14"} {
		if exec.CommandContext(t.Context(), name, "-c", "import sys; sys.exit(sys.version_info < (3, 12))").Run() == nil {
			return name
		}
	}
	t.Skip("SKIPPED: Harbor needs Python 3.12, which is not in PATH")
	return ""
}
