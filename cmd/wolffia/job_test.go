package main

import (
	"encoding/json"
	"testing"

	"golang.org/x/sys/unix"

	"wolffia/runtime"
)

// What wait --json prints of a job: an unknown exit code is named only where it is unknown.
func TestJobEnd(t *testing.T) {
	for name, tt := range map[string]struct {
		exit runtime.Result
		want string
	}{
		"success":      {runtime.Result{}, `{"exitCode":0,"signal":0,"timedOut":false}`},
		"a code":       {runtime.Result{ExitCode: 7, Session: &runtime.SessionStatus{}}, `{"exitCode":7,"signal":0,"timedOut":false}`},
		"a signal":     {runtime.Result{ExitCode: 137, Signal: unix.SIGKILL}, `{"exitCode":137,"signal":9,"timedOut":false}`},
		"unknown code": {runtime.Result{ExitCode: 125, Session: &runtime.SessionStatus{StatusLost: true}}, `{"exitCode":125,"signal":0,"timedOut":false,"statusLost":true}`},
	} {
		got, err := json.Marshal(endOf(tt.exit))
		if err != nil || string(got) != tt.want {
			t.Errorf("%s: got %s, %v; want %s, nil", name, got, err, tt.want)
		}
	}
}
