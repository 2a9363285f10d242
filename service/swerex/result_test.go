package swerex

import (
	"io"
	"strings"
	"testing"

	"wolffia/internal/test/resulttest"
	"wolffia/runtime"
)

const inAudit = "SWE-ReX has no field: wolffia audit shows it"

func TestResultIsWhole(t *testing.T) {
	left := map[string]string{
		"Signal": "exit_code is 128 and the signal", "TimedOut": "an exception, of runInSession",
		"Stderr": "in output", "StdoutDropped": "the handler itself keeps the output, and counts it",
		"StderrDropped": "the handler itself keeps the output, and counts it",
		"Duration":      "SWE-ReX has no field: the client knows it",
		"Git":           "SWE-ReX has no field: it arrives in the repository", "GitPending": "SWE-ReX has no field",
		"Session.Cwd": "SWE-ReX has no field: pwd says it", "Session.ShellCode": "exit_code",
	}
	for _, name := range strings.Fields("Op Path Level Rule Source Reason Allow") {
		left["Denied."+name] = inAudit
	}
	for _, name := range strings.Fields("Time Op Name Address Port PID Program Reason Allow Count") {
		left["Refused."+name] = inAudit
	}
	left["DeniedMore"], left["RefusedMore"] = inAudit, inAudit
	resulttest.Check(t, func(w io.Writer, r *runtime.Result) (any, error) {
		return (&action{Check: "silent"}).observe(t.Context(), &running{result: *r, ended: true}, r.Stdout, -1)
	}, left)
}
