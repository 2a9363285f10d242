package local_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"wolffia/internal/host/boot"
	"wolffia/internal/host/statedir"
	"wolffia/internal/test/wait"
	"wolffia/local"
	"wolffia/runtime"
)

// ahead starts a pool of pooled sandboxes with shells, which ends with the test.
func ahead(t *testing.T, rt *local.Runtime, size int) {
	t.Helper()
	poolOf(t, rt, &runtime.SandboxConfig{}, local.PoolOptions{Size: size, Shell: true})
}

// shells returns the numbers, on the host, of the processes called bash in a sandbox.
func shells(t *testing.T, state, id string) (pids []int) {
	t.Helper()
	dir, err := statedir.Open(state)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range statedir.Descendants(dir.Record(id).Processes().Shim().PID) {
		name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", p.PID))
		if err == nil && string(name) == "bash\n" {
			pids = append(pids, p.PID)
		}
	}
	return pids
}

// in runs a text in a session.
func in(t *testing.T, rt *local.Runtime, id runtime.SessionID, text string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), wait.Limit)
	defer cancel()
	res, err := rt.SessionExec(ctx, id, &runtime.SessionExecRequest{Command: []string{text}})
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return string(res.Stdout) + string(res.Stderr)
}

// opened makes a session.
func opened(t *testing.T, rt *local.Runtime, id string, c *runtime.SessionConfig) *runtime.Session {
	t.Helper()
	s, err := rt.CreateSession(t.Context(), id, c)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// The first session of a sandbox that was a pooled sandbox gets the shell that was started ahead, and cannot tell.
func TestShellAhead(t *testing.T) {
	rt, state, codebase := newRuntime(t)
	write(t, codebase, "a", "content\n")
	cold := launched(t, rt, given(codebase))
	ahead(t, rt, 1)
	all, err := rt.PooledSandboxes()
	if err != nil || len(all) != 1 {
		t.Fatal(all, err)
	}
	before := shells(t, state, all[0].ID)
	if len(before) != 1 {
		t.Fatalf("a pooled sandbox with a shell has %v", before)
	}
	warm := launched(t, rt, given(codebase))
	if warm.ID != all[0].ID {
		t.Fatalf("%s is not the pooled sandbox %s", warm.ID, all[0].ID)
	}
	const look = `echo "$((SECONDS / 5)) $PPID $SHLVL $- ${OLDPWD-none} $PWD $? $LINENO"; cat a
declare -p; declare -F; shopt; set -o; alias; trap; jobs; history; hash; enable -a; ulimit -a; ulimit -Ha; umask; bind -p 2>&1 | wc -l
tr '\0' '\n' < /proc/$$/environ; tr '\0' ' ' < /proc/$$/cmdline; cat /proc/$$/limits /proc/$$/comm /proc/$$/cgroup; readlink /proc/$$/cwd /proc/$$/root
grep -E '^(Cap|Sig|Shd|Seccomp|NoNewPrivs|Uid|Gid|Umask|Groups)' /proc/$$/status; readlink /proc/$$/fd/*; stty -a < /dev/tty; ls /proc | grep -c '^[0-9]'; ls -A ~ /tmp /run/.w 2>&1`
	// What differs between any two shells: numbers, random words, times, and what a shell remembers of these.
	differs := regexp.MustCompile(`(?m)^declare .* (RANDOM|SRANDOM|SECONDS|EPOCHREALTIME|EPOCHSECONDS|BASHPID|HOSTNAME|PPID|_)=.*$|\b[A-Z0-9]{13}\b|\[\d+\]|\d+ pipe|\d{12,}|WOLFFIA\w*=\w+`)
	var seen []string
	for _, s := range []*runtime.Sandbox{cold, warm} {
		session := opened(t, rt, s.ID, &runtime.SessionConfig{Name: "s"})
		out := in(t, rt, session.ID, look)
		out = strings.ReplaceAll(strings.ReplaceAll(out, fmt.Sprintf("/proc/%d/", session.PID), "/proc/PID/"), s.ID, "ID")
		seen = append(seen, differs.ReplaceAllString(out, ""))
	}
	if diff := cmp.Diff(strings.Split(seen[0], "\n"), strings.Split(seen[1], "\n")); diff != "" {
		t.Errorf("in the shell, -cold +ahead: %s", diff)
	}
	if after := shells(t, state, warm.ID); !slices.Equal(after, before) {
		t.Errorf("the session's shell is %v, not %v that was started ahead", after, before)
	}
	// It was one session's. The next has its own, as has the same one after its end.
	second := opened(t, rt, warm.ID, nil)
	if after := shells(t, state, warm.ID); len(after) != 2 {
		t.Errorf("two sessions have the shells %v", after)
	}
	in(t, rt, second.ID, "exit")
	if out := in(t, rt, second.ID, "echo $((SECONDS / 5)); pwd"); out != "0\n/workspace\n" {
		t.Errorf("in a new shell: %q", out)
	}
}

// A shell that was started ahead is not used for a session that would start with something else.
func TestShellAheadDoesNotFit(t *testing.T) {
	rt, state, codebase := newRuntime(t)
	if err := os.Mkdir(filepath.Join(codebase, "below"), 0o755); err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		sb      func(*runtime.SandboxConfig)
		session runtime.SessionConfig
		text    string
		want    string
	}{
		"environment of the sandbox": {func(c *runtime.SandboxConfig) { c.Env = map[string]string{"E": "e"} }, runtime.SessionConfig{}, "echo $E", "e\n"},
		"environment":                {nil, runtime.SessionConfig{Env: map[string]string{"E": "e"}}, "echo $E", "e\n"},
		"directory":                  {nil, runtime.SessionConfig{Cwd: "below"}, "pwd; echo ${OLDPWD-none}", "/workspace/below\nnone\n"},
		"size":                       {nil, runtime.SessionConfig{Rows: 10, Cols: 20}, "stty size < /dev/tty", "10 20\n"},
		"shell":                      {nil, runtime.SessionConfig{Shell: "sh"}, "echo ${BASH_VERSION-none}", "none\n"},
		"name":                       {func(c *runtime.SandboxConfig) { c.Name = "named" }, runtime.SessionConfig{}, "echo $HOSTNAME", "named\n"},
	}
	ahead(t, rt, len(tests))
	for what, test := range tests {
		c := given(codebase)
		if test.sb != nil {
			test.sb(c)
		}
		s := launched(t, rt, c)
		before := shells(t, state, s.ID)
		if len(before) != 1 {
			t.Fatalf("%s: it was not started ahead: %v", what, before)
		}
		session := opened(t, rt, s.ID, &test.session)
		if out := in(t, rt, session.ID, test.text); out != test.want && (what != "shell" || !strings.Contains(session.Shell, "bash")) {
			t.Errorf("%s: %q, want %q", what, out, test.want)
		}
		if after := shells(t, state, s.ID); slices.Contains(after, before[0]) && what != "shell" && len(after) < 2 {
			t.Errorf("%s: the shell that was started ahead is used", what)
		}
	}
}

// A shell that no session has taken does not hold up the end of its sandbox, which waits for what it has started.
func TestShellAheadEndsWithItsSandbox(t *testing.T) {
	rt, _, codebase := newRuntime(t)
	const tries = 4 // one of them is quick on a busy machine too
	ahead(t, rt, tries)
	for range tries {
		warm := launched(t, rt, given(codebase))
		begin := time.Now()
		if err := rt.Stop(t.Context(), warm.ID); err != nil {
			t.Fatal(err)
		}
		if time.Since(begin) < boot.StopGrace {
			return
		}
	}
	t.Errorf("each of %d sandboxes took all the time that processes have to end", tries)
}

// A process that is started before any session does not see the shell that was started ahead, and a session has a new one.
func TestShellAheadEndsForAProcess(t *testing.T) {
	rt, state, codebase := newRuntime(t)
	cold := launched(t, rt, given(codebase))
	ahead(t, rt, 1)
	warm := launched(t, rt, given(codebase))
	before := shells(t, state, warm.ID)
	if len(before) != 1 {
		t.Fatalf("it was not started ahead: %v", before)
	}
	const look = "for p in /proc/[0-9]*; do tr '\\0' ' ' < $p/cmdline; done"
	a, _ := sh(t, rt, cold.ID, look)
	b, _ := sh(t, rt, warm.ID, look)
	if a, b = strings.ReplaceAll(a, cold.ID, "ID"), strings.ReplaceAll(b, warm.ID, "ID"); a != b {
		t.Errorf("in another sandbox there is %q, here %q", a, b)
	}
	if left := shells(t, state, warm.ID); len(left) != 0 {
		t.Errorf("the shell that was started ahead lives: %v", left)
	}
	if out := in(t, rt, opened(t, rt, warm.ID, nil).ID, "echo $SECONDS"); out != "0\n" {
		t.Errorf(`in "echo $SECONDS": got %q, want %q`, out, "0\n")
	}
}
