package hostgit

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"wolffia/internal/test/testenv"
	"wolffia/runtime"
)

func TestOff(t *testing.T) {
	list := "filter.lfs.smudge\ngit-lfs smudge -- %f\x00filter.lfs.required\ntrue\x00" +
		"filter.own.smudge\n./smudge\x00filter.own.clean\ncat\x00filter.own.process\nx\x00filter.own.required\ntrue\x00" +
		"filter.git-lfs.smudge\ngit-lfsx\x00" +
		"hook.a.b.event\npost-checkout\x00hook.a.b.command\n./x\x00hook.jobs\n2\x00"
	want := []string{
		"-c", "filter.own.smudge=", "-c", "filter.own.clean=", "-c", "filter.own.process=", "-c", "filter.own.required=false",
		"-c", "filter.git-lfs.smudge=", "-c", "hook.a.b.enabled=false", "-c", "hook.a.b.enabled=false",
	}
	if got := off(list); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestEnviron(t *testing.T) {
	t.Setenv("PATH", "/bin")
	got := environ([]string{"PATH=/bin", "GIT_DIR=/x", "GIT_CONFIG_COUNT=1", "GIT_CONFIG_GLOBAL=/g", "LC_ALL=de", "GIT_EXTERNAL_DIFF=x"})
	if want := []string{"PATH=/bin", "GIT_CONFIG_GLOBAL=/g", "LC_ALL=C"}; !slices.Equal(got[:3], want) {
		t.Errorf("got %q, want it to begin with %q", got, want)
	}
}

// Nothing that a repository has is executed by a checkout.
func TestRun(t *testing.T) {
	testenv.Tools(t, "git")
	dir, ran := t.TempDir(), filepath.Join(t.TempDir(), "ran")
	git := func(args ...string) {
		t.Helper()
		cmd := exec.Command("git", append([]string{"-C", dir, "-c", "user.name=a", "-c", "user.email=a@b"}, args...)...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %q: %v: %s", args, err, out)
		}
	}
	git("init", "-q")
	for name, text := range map[string]string{"f": "1\n", ".gitattributes": "f filter=own\n", ".git/hooks/post-checkout": "#!/bin/sh\necho hook >>" + ran + "\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o777); err != nil {
			t.Fatal(err)
		}
	}
	git("add", ".")
	git("commit", "-qm", "one")
	git("config", "filter.own.smudge", "sh -c 'echo smudge >>"+ran+"; cat'")
	git("config", "core.fsmonitor", "echo monitor >>"+ran+"; false")
	tree := filepath.Join(t.TempDir(), "tree")
	git("worktree", "add", "-q", "--detach", tree+"0") // they work
	if said, _ := os.ReadFile(ran); !strings.Contains(string(said), "hook") || !strings.Contains(string(said), "smudge") {
		t.Fatalf("git alone has executed %q: the test sees nothing", said)
	}
	if err := os.Remove(ran); err != nil {
		t.Fatal(err)
	}
	r, err := Open(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"worktree", "add", "-q", "--detach", tree}, {"-C", tree, "status"}, {"worktree", "remove", "--force", tree}} {
		if _, err := r.Run(t.Context(), args...); err != nil {
			t.Error(err)
		}
	}
	if said, err := os.ReadFile(ran); err == nil {
		t.Errorf("executed: %s", said)
	}
	if _, err := Open(t.Context(), t.TempDir()); !errors.Is(err, runtime.ErrInvalid) {
		t.Errorf("no repository: %v", err)
	}
	if _, err := r.Run(t.Context(), "rev-parse", "nothing"); err == nil || !strings.Contains(err.Error(), "git rev-parse in "+dir+": fatal: ") {
		t.Errorf("a failure: %v", err)
	}
}
