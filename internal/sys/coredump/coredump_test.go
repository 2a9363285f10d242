package coredump_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"wolffia/internal/sys/coredump"
	"wolffia/internal/test/testenv"
)

// What a process starts has the limit, and cannot raise it. The test runs itself,
// since the limit is for good.
func TestOff(t *testing.T) {
	testenv.Both(t)
	var now unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_CORE, &now); err != nil {
		t.Fatal(err)
	}
	if now.Max == 0 && os.Getuid() != 0 {
		t.Skip("the hard limit of core dumps is 0 here: only root can raise it")
	}
	c := exec.CommandContext(t.Context(), os.Args[0], "-test.run=TestLimit$", "-test.v")
	c.Env = append(os.Environ(), "COREDUMP_LIMIT=1")
	out, err := c.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "limits 1 1") {
		t.Errorf("%s, %v; want a soft and a hard limit of 1", out, err)
	}
}

// TestLimit prints the limits of a child of a process that has called Off.
func TestLimit(t *testing.T) {
	if os.Getenv("COREDUMP_LIMIT") == "" {
		t.Skip("TestOff runs it")
	}
	if err := coredump.Off(); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), "sh", "-c", "echo limits $(prlimit --core --noheadings --raw --output SOFT,HARD)").CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v", out, err)
	}
	t.Logf("%s", out)
}
