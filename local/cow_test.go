package local_test

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"wolffia/internal/test/testenv"
	"wolffia/internal/test/wait"
	"wolffia/local"
	"wolffia/perm"
	"wolffia/runtime"
)

// copiedNames is how many of each kind of file the codebase of TestCopiedSurvivesKills has.
const copiedNames = 300

// copiedWriter makes a directory, and deletes, renames and changes what the host has. It prints the number of
// each such change once it is made. What was begun before a kill is begun again.
const copiedWriter = `i=$1; while [ $i -lt 300 ]; do
	rm -rf d$i && mkdir d$i && echo $i > d$i/new && echo $i > d$i/f && mv d$i/f d$i/moved &&
	echo $i > last.tmp && mv last.tmp last &&
	rm -f old/a$i && { [ -e old/k$i ] || mv old/m$i old/k$i; } && chmod 700 old/c$i && echo $i >> old/w$i && echo $i || exit 1
	i=$((i+1)); done; sleep 100`

// copiedChecker prints what is not as copiedWriter has left it.
const copiedChecker = `i=0; while [ $i -lt %d ]; do
	[ "$(cat d$i/new d$i/moved)" = "$i
$i" ] && [ ! -e d$i/f ] && [ ! -e old/a$i ] && [ ! -e old/m$i ] && [ "$(cat old/k$i)" = host ] &&
	[ "$(stat -c %%a old/c$i)" = 700 ] && [ "$(tail -n1 old/w$i)" = $i ] || echo lost $i
	i=$((i+1)); done
	[ $i = 0 ] || [ "$(cat last)" -ge $((i-1)) ] || echo lost the last number`

// Acceptance test 13 of copy-on-write: whichever process is killed, nothing is lost that a program inside knows to
// be done, and the host's directory stays as it is.
func TestCopiedSurvivesKills(t *testing.T) {
	rt, _, codebase := newRuntime(t)
	old := filepath.Join(codebase, "old")
	if err := os.Mkdir(old, 0o755); err != nil {
		t.Fatal(err)
	}
	for i := range copiedNames {
		for _, kind := range []string{"a", "m", "c", "w"} {
			write(t, old, kind+strconv.Itoa(i), "host\n")
		}
	}
	s, err := rt.Create(t.Context(), &runtime.SandboxConfig{CodebasePath: codebase, CopyOnWrite: true, Permissions: everything(perm.Write)})
	if err != nil {
		t.Fatal(err)
	}
	next := 0
	for round := range testenv.Some(24) {
		startCopied(t, rt, s.ID, next)
		next = writeCopied(t, rt, s.ID, next, 3+round%5)
		killParts(t, s.ID, [][]string{{"wolffia tree"}, {"wolffia shim"}, {"wolffia shim", "wolffia tree"}}[round%3])
	}
	startCopied(t, rt, s.ID, next)
	if names, err := os.ReadDir(codebase); err != nil || len(names) != 1 {
		t.Errorf("the host's directory has %v, %v", names, err)
	}
	if names, err := os.ReadDir(old); err != nil || len(names) != 4*copiedNames {
		t.Errorf("the host has %d files, %v", len(names), err)
	}
}

// killParts kills processes of a sandbox. With one of them another may end by itself.
func killParts(t *testing.T, id string, parts []string) {
	t.Helper()
	killed := 0
	for _, line := range processes(t, id) {
		number, cmdline, _ := strings.Cut(line, " ")
		isPart := func(part string) bool { return strings.HasPrefix(cmdline, part) }
		if pid, err := strconv.Atoi(number); err == nil && slices.ContainsFunc(parts, isPart) && syscall.Kill(pid, syscall.SIGKILL) == nil {
			killed++
		}
	}
	if killed == 0 {
		t.Fatalf("none of %v runs", parts)
	}
}

// startCopied starts the sandbox and checks the first changes of copiedWriter.
func startCopied(t *testing.T, rt *local.Runtime, id string, changes int) {
	t.Helper()
	// The shim ends the sandbox once it has noticed the tree server's end.
	err := wait.For(t, "start "+id, func() error { return rt.Start(t.Context(), id) }, func(err error) bool { return !errors.Is(err, runtime.ErrConflict) })
	if err != nil {
		t.Fatalf("after %d changes: %v", changes, err)
	}
	if out, code := sh(t, rt, id, fmt.Sprintf(copiedChecker, changes)); out != "" || code != 0 {
		t.Fatalf("after %d changes: %s (%d)", changes, out, code)
	}
}

// writeCopied makes n changes or a few more, beginning with the number next, and returns that of the next one.
func writeCopied(t *testing.T, rt *local.Runtime, id string, next, n int) int {
	t.Helper()
	p, err := rt.StartProcess(t.Context(), id, &runtime.Command{Command: []string{"sh", "-c", copiedWriter, "writer", strconv.Itoa(next)}})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	lines := bufio.NewScanner(p.Stdout())
	for range n {
		if !lines.Scan() || lines.Text() != strconv.Itoa(next) {
			t.Fatalf("the writer says %q, not %d: %v", lines.Text(), next, lines.Err())
		}
		next++
	}
	return next
}
