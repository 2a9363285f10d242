// Package testbin finds the programs that tests start. It takes those that the test run
// has built (WOLFFIA_TEST_BIN, WOLFFIA_TEST_CRASH_BIN, WOLFFIA_TEST_ATTACK_BIN), else it
// builds them, once for each test program.
package testbin

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// A set is programs that are built together.
type set struct {
	variable string // names the directory where they are already
	tags     string
	packages []string

	once sync.Once
	dir  string // what was built
	fail string
}

var (
	product = set{variable: "WOLFFIA_TEST_BIN", tags: "small", packages: []string{"wolffia/cmd/wolffia", "wolffia/cmd/wolffia-box", "wolffia/cmd/wolffia-net", "wolffia/cmd/wolffia-tree", "wolffia/cmd/wolffia-guest", "wolffia/cmd/wolffia-oci", "wolffia/cmd/wolffia-kube"}}
	attack  = set{variable: "WOLFFIA_TEST_ATTACK_BIN", packages: []string{"wolffia/internal/test/attack/inside"}}
	crash   = set{variable: "WOLFFIA_TEST_CRASH_BIN", tags: "crashtest", packages: []string{"wolffia/cmd/wolffia", "wolffia/cmd/wolffia-box", "wolffia/cmd/wolffia-net", "wolffia/cmd/wolffia-tree", "wolffia/cmd/wolffia-guest", "wolffia/cmd/wolffia-oci", "wolffia/cmd/wolffia-kube", "wolffia/internal/test/crashtest/service"}}
)

// Dir returns a directory with wolffia and the programs that it starts that everybody can
// reach. The caller's TestMain removes what was built with Remove.
func Dir(t testing.TB) string {
	t.Helper()
	return product.get(t)
}

// Crash is Dir of programs that tell their steps (see package step), with the
// crash test's service beside them.
func Crash(t testing.TB) string {
	t.Helper()
	return crash.get(t)
}

// Attack is Dir of the program that attacks its sandbox (see package attack).
func Attack(t testing.TB) string {
	t.Helper()
	return attack.get(t)
}

// Stamped writes to the directory dir the programs that know the version of wolffia, as those of
// another one.
func Stamped(t testing.TB, dir, version string) {
	t.Helper()
	s, flags := set{}, "-ldflags=-s -w -X main.version="+version
	s.goBuild(flags, "-tags", "small", "-o", dir+"/", "wolffia/cmd/wolffia", "wolffia/cmd/wolffia-box")
	s.goBuild(flags, "-o", filepath.Join(dir, "wolffia-serve"), "wolffia/cmd/wolffia")
	if s.fail != "" {
		t.Fatal(s.fail)
	}
}

func (s *set) get(t testing.TB) string {
	t.Helper()
	if d := os.Getenv(s.variable); d != "" {
		return d
	}
	s.once.Do(s.build)
	if s.fail != "" {
		t.Fatal(s.fail)
	}
	return s.dir
}

func (s *set) build() {
	d, err := os.MkdirTemp("", "wolffia-bin")
	if err == nil {
		err = os.Chmod(d, 0o755)
	}
	if err != nil {
		s.fail = err.Error()
		return
	}
	s.dir = d
	s.goBuild(append([]string{"-tags", s.tags, "-o", d + "/"}, s.packages...)...)
	if s == &product {
		s.goBuild("-o", filepath.Join(d, "wolffia-serve"), s.packages[0])
	}
	// Tests have a umask of their own, and root's sandboxes run as another user.
	files, err := filepath.Glob(filepath.Join(d, "*"))
	for _, file := range files {
		err = errors.Join(err, os.Chmod(file, 0o755))
	}
	if err != nil {
		s.fail += err.Error()
	}
}

func (s *set) goBuild(args ...string) {
	cmd := exec.Command("go", append([]string{"build"}, args...)...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		s.fail += "build the programs: " + err.Error() + "\n" + string(out)
	}
}

// Remove deletes what was built.
func Remove() {
	for _, s := range []*set{&product, &crash, &attack} {
		if s.dir == "" {
			continue
		}
		_ = os.RemoveAll(s.dir)
	}
}
