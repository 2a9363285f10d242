package testenv

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"wolffia/internal/host/probe"
)

// A recorder is a test that only notes how it ends.
type recorder struct {
	testing.TB
	end string
}

func (r *recorder) Helper()                           {}
func (r *recorder) Fatalf(format string, args ...any) { r.stop("fatal "+format, args) }
func (r *recorder) Skipf(format string, args ...any)  { r.stop("skip "+format, args) }

func (r *recorder) stop(format string, args []any) {
	r.end = fmt.Sprintf(format, args...)
	panic(r)
}

// run returns how a test ends: "", "fatal ..." or "skip ...".
func run(f func(t testing.TB)) string {
	r := &recorder{}
	func() {
		defer func() {
			if p := recover(); p != nil && p != any(r) {
				panic(p)
			}
		}()
		f(r)
	}()
	return r.end
}

func TestNeed(t *testing.T) {
	mu.Lock()
	results[probe.Docker] = probe.Result{Problem: "it is not there", Fix: "get it"}
	results[probe.Runsc] = probe.Result{OK: true, Problem: "it is slow"}
	mu.Unlock()
	for _, tt := range []struct {
		require string
		feature probe.Feature
		want    string
	}{
		{"", probe.Runsc, ""},
		{"all", probe.Runsc, ""},
		{"", probe.Docker, "skip NEEDS docker: it is not there\nfix:\nget it"},
		{"runsc,root", probe.Docker, "skip NEEDS docker"},
		{"runsc, docker", probe.Docker, "fatal NEEDS docker, which WOLFFIA_REQUIRE demands: it is not there"},
		{"all", probe.Docker, "fatal NEEDS docker"},
		{"dockers", probe.Docker, "skip"},
	} {
		t.Setenv(Require, tt.require)
		got := run(func(t testing.TB) { Need(t, probe.Runsc, tt.feature) })
		if !strings.HasPrefix(got, tt.want) || tt.want == "" && got != "" {
			t.Errorf("%q, %s: %q, want %q", tt.require, tt.feature, got, tt.want)
		}
	}
}

func TestTools(t *testing.T) {
	for require, want := range map[string]string{"": "skip NEEDS the program no-such", "root": "skip", "all": "fatal", "fuse,tools": "fatal"} {
		t.Setenv(Require, require)
		if got := run(func(t testing.TB) { Tools(t, "sh", "true") }); got != "" {
			t.Errorf(`%q: got %q, want ""`, require, got)
		}
		if got := run(func(t testing.TB) { Tools(t, "sh", "no-such") }); !strings.HasPrefix(got, want) {
			t.Errorf("%q: got %q; want got begins with %q", require, got, want)
		}
	}
}

func TestUsers(t *testing.T) {
	has, lacks := Root, Unprivileged
	name := "unprivileged"
	if os.Geteuid() != 0 {
		has, lacks, name = lacks, has, "root"
	}
	for require, want := range map[string]string{"": "skip", "all": "skip", name: "fatal"} {
		t.Setenv(Require, require)
		if got := run(has); got != "" {
			t.Errorf(`%q: got %q, want ""`, require, got)
		}
		if got := run(lacks); !strings.HasPrefix(got, want) {
			t.Errorf("%q: got %q; want got begins with %q", require, got, want)
		}
	}
}
