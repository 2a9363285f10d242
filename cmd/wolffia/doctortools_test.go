package main

import (
	"errors"
	"testing"

	"wolffia/runtime"
)

// A program that only does not know --version has no problem; one that fails otherwise has.
func TestToolProblem(t *testing.T) {
	for name, tt := range map[string]struct {
		res  *runtime.Result
		err  error
		want string
	}{
		"works":        {&runtime.Result{Stdout: []byte("1.0\n")}, nil, ""},
		"other option": {&runtime.Result{ExitCode: 2, Stderr: []byte("flag provided but not defined: -version\n")}, nil, ""},
		"module": {
			&runtime.Result{ExitCode: 1, Stderr: []byte("node:internal\n  throw err;\nError: Cannot find module '../dist/pnpm.cjs'\n")}, nil,
			"Error: Cannot find module '../dist/pnpm.cjs'",
		},
		"signal":    {&runtime.Result{ExitCode: 139, Signal: 11}, nil, "signal 11 killed it"},
		"time":      {&runtime.Result{ExitCode: 124, TimedOut: true}, nil, "it has not ended within 5s"},
		"not there": {nil, errors.New(`"x": not found`), `"x": not found`},
	} {
		if got := toolProblem(tt.res, tt.err); got != tt.want {
			t.Errorf("%s: got %q, want %q", name, got, tt.want)
		}
	}
}
