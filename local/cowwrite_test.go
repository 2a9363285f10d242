package local_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"wolffia/internal/test/shimtest"
	"wolffia/internal/test/testenv"
	"wolffia/perm"
	"wolffia/runtime"
)

// savers is how many programs of each kind TestApplyWhileProgramsWrite has.
const savers = 3

// copiedSavers writes until the file stop exists: a number to each line of append files, which stay open, and one number often
// to files that are replaced by a rename, or written anew. Then all are done.
const copiedSavers = `for w in 0 1 2; do
	(exec 3>>append$w; i=0; until [ -e stop ]; do i=$((i+1)); echo $i >&3; done) &
	(i=0; until [ -e stop ]; do i=$((i+1)); printf '%d\n%d\n%d\n' $i $i $i > .new$w; mv .new$w rename$w; done) &
	(i=0; until [ -e stop ]; do i=$((i+1)); mkdir -p dir$w/sub; echo $i > dir$w/sub/f; rm -r dir$w; done) &
done; wait`

// Acceptance test 15 of copy-on-write, its first half: changes are applied while programs write to the files, again and again. The host
// has a content of each that the sandbox had, and in the end what the sandbox has.
func TestApplyWhileProgramsWrite(t *testing.T) {
	rt, _, codebase := newRuntime(t)
	for w := range savers {
		write(t, codebase, fmt.Sprint("append", w), "")
		write(t, codebase, fmt.Sprint("rename", w), "")
	}
	id := copiedSandbox(t, rt, codebase)
	p, err := rt.StartProcess(t.Context(), id, &runtime.Command{Command: []string{"sh", "-c", copiedSavers}})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	var last [savers]int
	for round := range testenv.Some(100) {
		var paths []string // all
		if round%3 == 1 {
			paths = []string{fmt.Sprint("append", round%savers), fmt.Sprint("rename", round%savers)}
		}
		result, err := rt.Apply(t.Context(), id, runtime.ApplyOptions{Paths: paths})
		if err != nil && (paths == nil || !errors.Is(err, runtime.ErrNotFound)) { // not written since
			t.Fatalf("apply %d: %v, %+v", round, err, result)
		}
		for w := range savers {
			content := shimtest.Content(t, codebase, fmt.Sprint("append", w))
			lines := strings.Split(content, "\n")
			for i, line := range lines[:len(lines)-1] {
				if line != strconv.Itoa(i+1) {
					t.Fatalf("line %d is %q", i+1, line)
				}
			}
			// File systems do not keep a reader from the middle of a write that goes beyond a page.
			rest := lines[len(lines)-1]
			cut := len(content)%os.Getpagesize() == 0 && strings.HasPrefix(strconv.Itoa(len(lines)), rest)
			if rest != "" && !cut || len(lines)-1 < last[w] {
				t.Fatalf("the host had %d lines, and has %q at the end of %d", last[w], rest, len(lines))
			}
			last[w] = len(lines) - 1
			got := shimtest.Content(t, codebase, fmt.Sprint("rename", w))
			if n, _, _ := strings.Cut(got, "\n"); got != "" && got != strings.Repeat(n+"\n", 3) {
				t.Fatalf("half a file: %q", got)
			}
		}
	}
	// On a busy machine the programs may not have written yet: they have three minutes.
	if out, code := sh(t, rt, id, "timeout 180 sh -c 'until [ $(wc -l < append0) -gt 1 ]; do sleep 0.01; done'; : > stop"); code != 0 {
		t.Fatal(out)
	}
	if _, err := p.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := rt.Apply(t.Context(), id, runtime.ApplyOptions{}); err != nil {
		t.Fatal(err)
	}
	const all = "find . -type f | LC_ALL=C sort | xargs cat"
	if out, code := sh(t, rt, id, all); code != 0 || out != onHost(t, codebase, all) {
		t.Errorf("the host has not what the sandbox has: %.300q", out)
	}
	if changes, err := rt.Changes(t.Context(), id, runtime.ChangesOptions{}); err != nil || len(changes) > 0 {
		t.Errorf("changes are left: %s %v", shimtest.Kinds(changes), err)
	}
	if got := shimtest.Content(t, codebase, "append0"); got == "" || got == "1\n" {
		t.Errorf("the programs wrote %q only", got)
	}
}

// A program that has a file open when it is applied goes on writing to it, and the next diff has that, also what a file
// gets that was renamed, or new, when it was applied.
func TestWritesAfterApply(t *testing.T) {
	rt, _, codebase := newRuntime(t)
	write(t, codebase, "old", "")
	write(t, codebase, "moves", "")
	id := copiedSandbox(t, rt, codebase, perm.Rule{Pattern: "hidden", Level: perm.None})
	p, err := rt.StartProcess(t.Context(), id, &runtime.Command{
		Command: []string{"sh", "-c", "mv moves moved; exec 3>>old 4>>new 5>>moved; while read x; do echo $x >&3; echo $x >&4; echo $x >&5; echo ok; done"}, OpenStdin: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	answers := bufio.NewScanner(p.Stdout())
	want := ""
	for i := range 8 {
		line := fmt.Sprintln("line", i)
		want += line
		if _, err := io.WriteString(p.Stdin(), line); err != nil || !answers.Scan() || answers.Text() != "ok" {
			t.Fatalf(`io.WriteString: got err %v, %q; want err == nil and answers.Scan() and answers.Text() == "ok"`, err, answers.Text())
		}
		var diff strings.Builder
		if err := rt.Diff(t.Context(), id, runtime.DiffOptions{}, &diff); err != nil || strings.Count(diff.String(), "+"+line) != 3 {
			t.Fatalf("the diff after line %d: %v\n%s", i, err, diff.String())
		}
		if i == 4 { // by itself, without a change of the sandbox's before the next one
			write(t, codebase, "other", "host\n")
		}
		if _, err := rt.Apply(t.Context(), id, runtime.ApplyOptions{}); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"old", "new", "moved"} {
			if got := shimtest.Content(t, codebase, name); got != want {
				t.Errorf("%s has %q, want %q", filepath.Join(codebase, name), got, want)
			}
		}
		if changes, err := rt.Changes(t.Context(), id, runtime.ChangesOptions{}); err != nil || len(changes) > 0 {
			t.Errorf("after apply: %s %v", shimtest.Kinds(changes), err)
		}
	}
}

// onHost returns what a script prints in a directory of the host's.
func onHost(t *testing.T, dir, script string) string {
	t.Helper()
	cmd := exec.Command("sh", "-c", script)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: got err %v, out %s; want err == nil", script, err, out)
	}
	return string(out)
}
