package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// An apply that is interrupted stops: it says what it has applied, which is what the host has, then and later, and the next one
// goes on. So it is for a sandbox that runs and for one that does not.
func TestInterruptedApply(t *testing.T) {
	const files = "6000"
	for _, state := range []string{"running", "stopped"} {
		t.Run(state, func(t *testing.T) {
			b := newBox(t)
			b.says("rm", "-f", "box")
			b.says("create", "--cow", "--codebase", b.codebase, "--name", "box")
			b.says("exec", "box", "--", "sh", "-c", "for i in $(seq "+files+"); do echo $i >f$i; done")
			if state == "stopped" {
				b.says("stop", "box")
			}
			host := func() (names []string) {
				b.Helper()
				all, err := os.ReadDir(b.codebase)
				b.OK(err)
				for _, e := range all {
					names = append(names, e.Name())
				}
				return names
			}
			cmd := b.command("apply", "box")
			var stdout, stderr bytes.Buffer
			cmd.Stdout, cmd.Stderr = &stdout, &stderr
			b.OK(cmd.Start())
			hang, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			for { // until it has begun, with what comes first
				if _, err := os.Lstat(filepath.Join(b.codebase, "f1")); err == nil {
					break
				}
				if hang.Err() != nil {
					b.Fatal("nothing is applied")
				}
			}
			b.OK(cmd.Process.Signal(unix.SIGINT))
			_ = cmd.Wait()
			var said []string
			for line := range strings.Lines(stdout.String()) {
				said = append(said, strings.TrimSuffix(strings.TrimPrefix(line, "A\t"), "\n"))
			}
			slices.Sort(said)
			if got := host(); !slices.Equal(got, said) {
				b.Errorf("the host has %d files, and %d were said to be applied", len(got), len(said))
			}
			first, _, _ := strings.Cut(stderr.String(), "\n")
			code := cmd.ProcessState.ExitCode()
			if code == 0 && len(said) == 6000 {
				t.Log("all was applied before the signal came")
				return
			}
			if code != 130 || !strings.HasPrefix(first, "wolffia: applied: ") || !strings.HasSuffix(stderr.String(), "wolffia: interrupted\n") {
				b.Errorf("exit code %d, want 130; it says %q ... %q", code, first, stderr.String()[max(0, stderr.Len()-200):])
			}
			b.says("diff", "--stat", "box") // not before the work has ended
			if got := host(); !slices.Equal(got, said) {
				b.Errorf("later the host has %d files, and %d were said to be applied", len(got), len(said))
			}
			b.says("apply", "--quiet", "box")
			if got := len(host()); got != 6000 {
				b.Errorf("in the end the host has %d files, want %s", got, files)
			}
		})
	}
}
