package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"wolffia/internal/host/probe"
	"wolffia/internal/test/shimtest"
	"wolffia/internal/test/testbin"
	"wolffia/internal/test/testenv"
)

// demo runs a copy of scripts/demo in a checkout of its own, and returns what it
// prints and its exit code.
func demo(t *testing.T, env ...string) (said string, code int) {
	t.Helper()
	checkout := shimtest.PublicDir(t)
	text, err := os.ReadFile("../../scripts/demo")
	if err != nil {
		t.Fatal(err)
	}
	script := filepath.Join(checkout, "scripts", "demo")
	if err := os.Mkdir(filepath.Dir(script), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(script, text, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(testbin.Dir(t), filepath.Join(checkout, "bin")); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), script)
	temp := shimtest.PublicDir(t)
	cmd.Env = append(os.Environ(), append(env, "TMPDIR="+temp)...)
	cmd.WaitDelay = time.Minute
	out, err := cmd.CombinedOutput()
	if _, is := err.(*exec.ExitError); err != nil && !is {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
		t.Errorf("what is left: %v, %v", left, err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

// The demonstration of make run works, and leaves nothing.
func TestDemo(t *testing.T) {
	testenv.Need(t, probe.UserNamespaces, probe.Bubblewrap, probe.Fuse)
	said, code := demo(t, "WOLFFIA_STATE_DIR="+filepath.Join(shimtest.PublicDir(t), "state"))
	if code != 0 || !strings.Contains(said, "exit code 7 (the command's own)") || strings.Contains(said, "do-not-show-this") {
		t.Errorf(`demo: got code %d, said %s; want code == 0 and said contains "exit code 7 (the command's own)" and said does not contain do-not-show-this`,
			code, said)
	}
}

// A failure of wolffia itself is not taken for one of the command: the
// demonstration ends with it and with what helps.
func TestDemoOfAFailure(t *testing.T) {
	said, code := demo(t, "WOLFFIA_STATE_DIR=/dev/null/state")
	if code != 125 || strings.Contains(said, "the command's own") {
		t.Errorf(`demo "WOLFFIA_STATE_DIR=/dev/null/state": got code %d, said %s; want code == 125 and said does not contain "the command's own"`,
			code, said)
	}
	_, end, _ := strings.Cut(said, "wolffia itself failed (exit code 125)")
	if !strings.Contains(end, "wolffia doctor") || !strings.Contains(end, "userns ") {
		t.Errorf("it does not say what helps: %s", said)
	}
}
