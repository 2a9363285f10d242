// Package testbin finds the programs that tests start: those that the test run
// has built (WOLFFIA_TEST_BIN), else it builds them, once for each test program.
package testbin

import (
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

var (
	once sync.Once
	dir  string
	fail string
)

// Dir returns a directory with wolffia, wolffia-guest and wolffia-docker that everybody can
// reach. The caller's TestMain removes what was built with Remove.
func Dir(t testing.TB) string {
	t.Helper()
	if d := os.Getenv("WOLFFIA_TEST_BIN"); d != "" {
		return d
	}
	once.Do(build)
	if fail != "" {
		t.Fatal(fail)
	}
	return dir
}

func build() {
	d, err := os.MkdirTemp("", "wolffia-bin")
	if err == nil {
		err = os.Chmod(d, 0o755)
	}
	if err != nil {
		fail = err.Error()
		return
	}
	dir = d
	cmd := exec.Command("go", "build", "-o", d+"/", "wolffia/cmd/wolffia", "wolffia/cmd/wolffia-guest", "wolffia/cmd/wolffia-image", "wolffia/cmd/wolffia-docker")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		fail = "build the programs: " + err.Error() + "\n" + string(out)
	}
}

// Remove deletes what Dir has built.
func Remove() {
	for _, name := range []string{"wolffia", "wolffia-guest", "wolffia-image", "wolffia-docker"} {
		if dir != "" {
			_ = os.Remove(filepath.Join(dir, name))
		}
	}
	if dir != "" {
		_ = os.Remove(dir)
	}
}
