package sessiontest

import (
	"fmt"
	"path"
	"reflect"
	"strings"
	"time"

	"wolffia/runtime"
)

var lookupTests = []test{
	{"LookupFields", nil, lookupFields},
	{"LookupRunning", nil, lookupRunning},
	{"LookupList", nil, lookupList},
}

func lookupFields(e *env) {
	begin := time.Now().Add(-time.Second) // their clocks may round
	s := e.shell(&runtime.SessionConfig{Name: "main", Cwd: "/usr"})
	if s.State != runtime.SessionIdle || s.Cwd != "/usr" || s.PID <= 1 || s.Commands != 0 || s.Waiting != 0 || s.Jobs != 0 || s.Restarts != 0 {
		s.Errorf("a new session is %+v", s.Session)
	}
	if !path.IsAbs(s.Shell) || !strings.HasSuffix(s.Shell, "sh") {
		s.Errorf("its shell is %q", s.Shell)
	}
	if s.CreatedAt.Before(begin) || s.CreatedAt.After(time.Now().Add(time.Second)) {
		s.Errorf("it was created at %v", s.CreatedAt)
	}
	s.prints("echo $$", fmt.Sprintf("%d\n", s.PID))
	s.prints("cd /etc", "")
	got := s.get()
	if got.Cwd != "/etc" || got.Commands != 2 || got.State != runtime.SessionIdle || got.PID != s.PID || !got.CreatedAt.Equal(s.CreatedAt) || got.UsedAt.Before(begin) {
		s.Errorf("after two commands it is %+v", got)
	}
	s.run("exit 1")
	s.alive()
	if got := s.get(); got.Restarts != 1 || got.Commands != 4 || got.PID == s.PID || got.Cwd != "/etc" {
		s.Errorf("after an exit it is %+v", got)
	}
}

func lookupRunning(e *env) {
	s := e.shell(nil)
	wait, open := s.gate()
	first := s.begin(s.Ctx, &runtime.SessionExecRequest{Command: []string{wait}})
	s.waiting(0)
	second := s.begin(s.Ctx, &runtime.SessionExecRequest{Command: []string{"true"}})
	s.waiting(1)
	open()
	s.result(first)
	s.result(second)
	if got := s.get(); got.State != runtime.SessionIdle || got.Waiting != 0 {
		s.Errorf("get: got %+v; want got.State == runtime.SessionIdle and got.Waiting == 0", got)
	}
}

func lookupList(e *env) {
	if all, err := e.rt.ListSessions(e.Ctx, e.box); all == nil || len(all) > 0 || err != nil {
		e.Errorf("at first the list is %v, %v", all, err)
	}
	for _, name := range []string{"b", "c", "a"} {
		e.shell(&runtime.SessionConfig{Name: name}).prints("true", "")
	}
	all, err := e.rt.ListSessions(e.Ctx, e.box)
	e.OK(err)
	var names []string
	for _, s := range all {
		names = append(names, s.Name)
		if got := (&shell{e, s}).get(); !reflect.DeepEqual(got, s) {
			e.Errorf("the list has %+v, and it is %+v", s, got)
		}
	}
	if got := strings.Join(names, " "); got != "a b c" {
		e.Errorf("the list is %s", got)
	}
	// A session's own work, such as saving its state, does not count as use.
	for begin := time.Now(); time.Since(begin) < time.Second/2; {
		if got := (&shell{e, all[0]}).get(); !got.UsedAt.Equal(all[0].UsedAt) {
			e.Fatalf("used at %v, and not used since: %v", all[0].UsedAt, got.UsedAt)
		}
	}
}
