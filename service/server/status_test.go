package server

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"

	"wolffia/runtime"
	"wolffia/service"
	"wolffia/service/quota"
	"wolffia/service/registry"
)

// Every class of error that can come out of the service has a status of its own,
// and nothing that has none is told.
func TestEveryClassHasAStatus(t *testing.T) {
	want := map[error]int{
		runtime.ErrInvalid: 400, runtime.ErrNotFound: 404, runtime.ErrExists: 409, runtime.ErrDenied: 403,
		runtime.ErrConflict: 409, runtime.ErrUnavailable: 503, runtime.ErrUnsupported: 501,
		quota.ErrTooOften: 429, ErrStopping: 503, errTooLarge: 413, errSlow: 408, errType: 415, errMethod: 405, errNoCall: 404,
		context.Canceled: 499, context.DeadlineExceeded: 504,
	}
	for _, c := range runtime.Classes() {
		if want[c] == 0 {
			t.Errorf("class %q has no status here", c)
		}
	}
	codes := map[string]bool{}
	for _, s := range statuses {
		if want[s.Is] != s.HTTP || s.Code == "" || codes[s.Code] {
			t.Errorf("%v is %d %q, want %d", s.Is, s.HTTP, s.Code, want[s.Is])
		}
		codes[s.Code] = true
		delete(want, s.Is)
		err := fmt.Errorf("what happened: %w", s.Is)
		if status, f := failureOf(err); status != s.HTTP || f.Code != s.Code || f.Message != err.Error() {
			t.Errorf("failureOf: got err %v, status %d, f %+v; want status == %d and f.Code == %v and f.Message == err.Error()",
				err, status, f, s.HTTP, s.Code)
		}
	}
	for is := range want {
		t.Errorf("%v is not in the table", is)
	}
}

func TestStatusOfOtherErrors(t *testing.T) {
	late := &service.TimeoutError{Result: &runtime.Result{Stdout: []byte("part")}}
	for _, c := range []struct {
		err    error
		status int
		code   string
	}{
		{&registry.ConflictError{SandboxID: "abcabcabcabc"}, 409, "conflict"},
		{runtime.Errorf(runtime.ErrUnavailable, "%w", registry.ErrInUse), 503, "unavailable"},
		{runtime.WithClass(runtime.ErrUnavailable, registry.ErrClosed), 503, "unavailable"},
		{late, 504, "timedOut"},
		{&runtime.StartError{Code: 127, Message: "x"}, 404, "notFound"},
		{&runtime.StartError{Code: 126, Message: "x"}, 403, "denied"},
		{&someError{runtime.Errorf(runtime.ErrDenied, "x"), 3}, 403, "denied"},
		{errors.Join(context.Canceled, runtime.Errorf(runtime.ErrUnavailable, "undone")), 499, "canceled"},
		{&fs.PathError{Op: "open", Path: "/home/somebody/secret", Err: fs.ErrPermission}, 500, "internal"},
		{errors.New("secret"), 500, "internal"},
	} {
		status, f := failureOf(c.err)
		if status != c.status || f.Code != c.code || f.Message == "" || status == 500 && strings.Contains(f.Message, "secret") {
			t.Errorf("%v: %d %+v, want %d %q", c.err, status, f, c.status, c.code)
		}
	}
	if _, f := failureOf(&registry.ConflictError{SandboxID: "abcabcabcabc"}); f.SandboxID != "abcabcabcabc" {
		t.Errorf("a conflict says %+v", f)
	}
	if r, is := partial(fmt.Errorf("x: %w", late)).(*runtime.Result); !is || string(r.Stdout) != "part" {
		t.Errorf("what is known of a time-out: %+v", r)
	}
	if p := partial(&someError{runtime.ErrDenied, 3}); p != 3 {
		t.Errorf("what is known of a half: %v", p)
	}
	if p := partial(runtime.ErrDenied); p != nil {
		t.Errorf("of nothing: %v", p)
	}
}

func TestAllowed(t *testing.T) {
	for _, c := range []struct {
		peer, self uint32
		want       bool
	}{
		{1000, 1000, true},
		{0, 1000, true},
		{0, 0, true},
		{1001, 1000, false},
		{1000, 0, false},
		{65534, 1000, false},
		{1<<32 - 1, 1000, false},
	} {
		if got := allowed(c.peer, c.self); got != c.want {
			t.Errorf("uid %d to a service of %d: %v", c.peer, c.self, got)
		}
	}
}
