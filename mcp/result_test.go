package mcp

import (
	"io"
	"strings"
	"testing"
	"time"

	"wolffia/internal/test/resulttest"
	"wolffia/runtime"
)

func TestResultIsWhole(t *testing.T) {
	c := &call{Server: New(&Options{
		Allow: func(string) string { return "wolffia policy add " }, AllowHost: func(string) string { return "wolffia network allow " },
	}), box: &attempt{id: "aaaaaaaaaaaa"}}
	resulttest.Check(t, func(_ io.Writer, r *runtime.Result) (any, error) {
		stdout, stderr := newCapture(), newCapture()
		_, _ = stdout.Write(r.Stdout)
		_, _ = stderr.Write(r.Stderr)
		_, out := c.bashResult(t.Context(), r, stdout, stderr, DefaultOutput, time.Second)
		return out, nil
	}, map[string]string{
		"Signal":            "exit_code is 128 and the signal",
		"StdoutDropped":     "the server itself keeps the output, and counts it",
		"StderrDropped":     "the server itself keeps the output, and counts it",
		"Session.ShellCode": "of a command that timed out: exit_code is 124",
	})
}

// A command that has failed has a note if the kernel has refused it what no sandbox gives.
func TestKernelHint(t *testing.T) {
	c := &call{Server: New(new(Options)), box: new(attempt)}
	for code, want := range map[int]bool{0: false, 1: true} {
		stderr := newCapture()
		_, _ = io.WriteString(stderr, "unshare: unshare failed: Operation not permitted\n")
		r, out := c.bashResult(t.Context(), &runtime.Result{ExitCode: code}, newCapture(), stderr, DefaultOutput, time.Second)
		if got := strings.Contains(r.text, "[user namespaces do not exist"); got != want || len(out.Notes) > 0 != want {
			t.Errorf("exit code %d: %q", code, r.text)
		}
	}
}
