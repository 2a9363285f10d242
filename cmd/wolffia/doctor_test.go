package main

import (
	"errors"
	"strings"
	"testing"

	"wolffia/internal/host/probe"
	"wolffia/runtime"
)

// A cause is one failure, and what else works is said.
func TestConclusion(t *testing.T) {
	ok := func(f probe.Feature) probe.Result { return probe.Result{Feature: f, OK: true} }
	missing := func(f, because probe.Feature) probe.Result {
		return probe.Result{Feature: f, Required: true, Because: because}
	}
	for _, tt := range []struct {
		results []probe.Result
		want    string
	}{
		{[]probe.Result{ok(probe.UserNamespaces), ok(probe.Bubblewrap)}, "Sandboxes work here"},
		{[]probe.Result{missing(probe.Bubblewrap, ""), ok(probe.Runsc)}, "Those with --runtime gvisor can"},
		{[]probe.Result{missing(probe.Bubblewrap, ""), ok(probe.Runsc), ok(probe.Docker)}, "Those with --runtime gvisor or --runtime docker can"},
		{[]probe.Result{missing(probe.Bubblewrap, "")}, "Sandboxes cannot work here"},
		{[]probe.Result{missing(probe.UserNamespaces, ""), missing(probe.Bubblewrap, probe.UserNamespaces), ok(probe.Runsc)}, "Sandboxes cannot work here"},
		{[]probe.Result{missing(probe.Fuse, "")}, "without FUSE"},
		{[]probe.Result{missing("programs", "")}, "Sandboxes cannot work here"},
	} {
		if got := conclusion(tt.results); !strings.Contains(got, tt.want) {
			t.Errorf("%+v: %q, want %q", tt.results, got, tt.want)
		}
	}
}

// The words of a command are words for a session's shell; a single one is text.
func TestTextOf(t *testing.T) {
	for _, tt := range []struct {
		command []string
		want    string
	}{
		{[]string{"a; b $C"}, "a; b $C"},
		{[]string{"git", "commit", "-m", "hello world"}, "git commit -m 'hello world'"},
		{[]string{"A=1", "x"}, "'A=1' x"},
		{[]string{"echo", "it's", "", "$x", "~", "a\nb", "\u00e9"}, `echo 'it'\''s' '' '$x' '~' 'a` + "\n" + `b' 'é'`},
		{[]string{"-x", "a/b.c:1@2%3+4,5"}, "-x a/b.c:1@2%3+4,5"},
	} {
		if got := textOf(tt.command); got != tt.want {
			t.Errorf("%q: %s, want %s", tt.command, got, tt.want)
		}
	}
}

// Each class of error has a name in JSON.
func TestClassNames(t *testing.T) {
	seen := map[string]bool{"other": true, "interrupted": true}
	for _, class := range runtime.Classes() {
		name := failureOf(runtime.WithClass(class, errors.New("x"))).Error.Class
		if seen[name] || strings.Contains(name, " ") {
			t.Errorf("%v is %q", class, name)
		}
		seen[name] = true
	}
}
