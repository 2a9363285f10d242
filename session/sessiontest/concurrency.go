package sessiontest

import (
	"fmt"
	"slices"
	"strings"

	"wolffia/internal/test/suite"
	"wolffia/internal/test/testenv"
	"wolffia/runtime"
)

var concurrencyTests = []test{
	{"ConcurrentOneSession", nil, concurrentOne},
	{"ConcurrentSessions", nil, concurrentSessions},
	{"ConcurrentNames", nil, concurrentNames},
	{"ConcurrentLives", nil, concurrentLives},
}

// crowd is how many calls come at once.
const crowd = 50

func concurrentOne(e *env) {
	s := e.shell(nil)
	turns := make([]string, crowd)
	for i, err := range suite.AtOnce(crowd, func(i int) error {
		r, err := s.rt.SessionExec(s.Ctx, s.ID, &runtime.SessionExecRequest{
			Command: []string{fmt.Sprintf("echo $((++n)); echo err%d >&2; cat; (exit %d)", i, i)}, Stdin: strings.NewReader("x"),
		})
		if err != nil {
			return err
		}
		turns[i] = string(r.Stdout)
		if r.ExitCode != i || string(r.Stderr) != fmt.Sprintf("err%d\n", i) || r.Session.Ended {
			return fmt.Errorf("%+v, session %+v", r, r.Session)
		}
		return nil
	}) {
		if err != nil {
			e.Errorf("%d: %v", i, err)
		}
	}
	for n := range crowd {
		if want := fmt.Sprintf("%d\nx", n+1); !slices.Contains(turns, want) {
			e.Errorf("nobody has had turn %q", want)
		}
	}
	s.same()
}

func concurrentSessions(e *env) {
	each := testenv.Some(crowd)
	shells := make([]*runtime.Session, 20)
	for _, err := range suite.AtOnce(len(shells), func(i int) (err error) {
		shells[i], err = e.rt.CreateSession(e.Ctx, e.box, &runtime.SessionConfig{Env: map[string]string{"ME": fmt.Sprint(i)}})
		return err
	}) {
		e.OK(err)
	}
	for i, err := range suite.AtOnce(each*len(shells), func(i int) error {
		me := i % len(shells)
		r, err := e.rt.SessionExec(e.Ctx, shells[me].ID, &runtime.SessionExecRequest{Command: []string{fmt.Sprintf("echo $ME; : $((++n)); (exit %d)", i%200)}})
		if err != nil {
			return err
		}
		if string(r.Stdout) != fmt.Sprintf("%d\n", me) || r.ExitCode != i%200 || len(r.Stderr) > 0 || r.Session.Ended {
			return fmt.Errorf("%+v, session %+v", r, r.Session)
		}
		return nil
	}) {
		if err != nil {
			e.Errorf("%d: %v", i, err)
		}
	}
	for _, s := range shells {
		(&shell{e, s}).prints("echo $n", fmt.Sprintf("%d\n", each))
		(&shell{e, s}).same()
	}
}

// One of the callers that want the same name gets it.
func concurrentNames(e *env) {
	won := 0
	for _, err := range suite.AtOnce(20, func(int) error {
		_, err := e.rt.CreateSession(e.Ctx, e.box, &runtime.SessionConfig{Name: "wanted"})
		return err
	}) {
		if err == nil {
			won++
		} else {
			e.Wrong("create", err, runtime.ErrExists)
		}
	}
	all, err := e.rt.ListSessions(e.Ctx, e.box)
	e.OK(err)
	if won != 1 || len(all) != 1 {
		e.Errorf("%d have got the name, and there are %d sessions", won, len(all))
	}
}

// Sessions come and go beside each other.
func concurrentLives(e *env) {
	for i, err := range suite.AtOnce(20, func(i int) error {
		s, err := e.rt.CreateSession(e.Ctx, e.box, &runtime.SessionConfig{Name: fmt.Sprintf("s%d", i)})
		if err != nil {
			return err
		}
		r, err := e.rt.SessionExec(e.Ctx, s.ID, &runtime.SessionExecRequest{Command: []string{fmt.Sprintf("echo %d", i)}})
		if err != nil {
			return err
		}
		if string(r.Stdout) != fmt.Sprintf("%d\n", i) {
			return fmt.Errorf("%+v", r)
		}
		return e.rt.DestroySession(e.Ctx, s.ID)
	}) {
		if err != nil {
			e.Errorf("%d: %v", i, err)
		}
	}
	if all, err := e.rt.ListSessions(e.Ctx, e.box); len(all) > 0 || err != nil {
		e.Errorf("%d sessions are left, %v", len(all), err)
	}
}
