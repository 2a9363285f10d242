package runtimetest

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"wolffia/internal/test/suite"
	"wolffia/runtime"
)

var concurrencyTests = []test{
	{"ConcurrentCreates", nil, concurrentCreates},
	{"ConcurrentNames", nil, concurrentNames},
	{"ConcurrentStarts", nil, concurrentStarts},
	{"ConcurrentStops", nil, concurrentStops},
	{"ConcurrentDestroys", nil, concurrentDestroys},
	{"ConcurrentEverything", nil, concurrentEverything},
	{"DestroyDuringExec", nil, destroyDuringExec},
	{"StopDuringStream", nil, stopDuringStream},
}

// Many sandboxes run through their whole lives at once: none fails or disturbs another.
func concurrentCreates(e *env) {
	for i, err := range suite.AtOnce(some(50), func(i int) error {
		s, err := e.rt.Create(e.Ctx, &runtime.SandboxConfig{Labels: map[string]string{"i": fmt.Sprint(i)}})
		if err != nil {
			return err
		}
		if err := e.rt.Start(e.Ctx, s.ID); err != nil {
			return err
		}
		r, err := e.rt.Exec(e.Ctx, s.ID, &runtime.ExecRequest{Command: sh(fmt.Sprintf("echo %d >mine; cat mine", i))})
		if err != nil {
			return err
		}
		if string(r.Stdout) != fmt.Sprintf("%d\n", i) {
			return fmt.Errorf("%+v", r)
		}
		if s, err = e.rt.Get(e.Ctx, s.ID); err != nil {
			return err
		}
		if s.Labels["i"] != fmt.Sprint(i) || s.State != runtime.StateRunning {
			return fmt.Errorf("%+v", s)
		}
		return e.rt.Destroy(e.Ctx, s.ID)
	}) {
		if err != nil {
			e.Errorf("%d: %v", i, err)
		}
	}
	e.empty()
}

// oneOnly checks that one call has succeeded and the others have failed so.
func (e *env) oneOnly(errs []error, class error) {
	e.Helper()
	won := 0
	for _, err := range errs {
		if err == nil {
			won++
		} else {
			e.Wrong("the loser of a race", err, class)
		}
	}
	if won != 1 {
		e.Errorf("%d of %d have succeeded, want one", won, len(errs))
	}
}

func concurrentNames(e *env) {
	e.oneOnly(suite.AtOnce(10, func(int) error {
		_, err := e.rt.Create(e.Ctx, &runtime.SandboxConfig{Name: "one"})
		return err
	}), runtime.ErrExists)
	e.oneOnly(suite.AtOnce(10, func(int) error {
		_, err := e.rt.Create(e.Ctx, &runtime.SandboxConfig{ID: "aaaaaaaaaaaa"})
		return err
	}), runtime.ErrExists)
	if n := len(e.list()); n != 2 {
		e.Errorf("%d sandboxes, want 2", n)
	}
}

func concurrentStarts(e *env) {
	for range 5 {
		s := e.create(nil)
		e.oneOnly(suite.AtOnce(3, func(int) error { return e.rt.Start(e.Ctx, s.ID) }), runtime.ErrConflict)
		e.is(s.ID, runtime.StateRunning)
		e.prints(s.ID, "echo alive", "alive\n")
		e.OK(e.rt.Destroy(e.Ctx, s.ID))
	}
}

func concurrentStops(e *env) {
	s := e.start(nil)
	for _, err := range suite.AtOnce(4, func(int) error { return e.rt.Stop(e.Ctx, s.ID) }) {
		if err != nil {
			e.Error(err)
		}
	}
	e.is(s.ID, runtime.StateStopped)
}

func concurrentDestroys(e *env) {
	for range 5 {
		s := e.start(nil)
		won := false
		for _, err := range suite.AtOnce(4, func(int) error { return e.rt.Destroy(e.Ctx, s.ID) }) {
			if won = won || err == nil; err != nil {
				e.Wrong("destroy at once", err, runtime.ErrNotFound)
			}
		}
		if !won {
			e.Error("no caller has destroyed it")
		}
		e.empty()
	}
}

// Whatever is called at once on one sandbox: each call succeeds, or says why it
// could not by its class, and the sandbox can be used, or destroyed, after it.
// Stop and Get always can. That a Start or Exec was overtaken by a Stop is a
// conflict, or an accident.
func concurrentEverything(e *env) {
	s := e.start(nil)
	var worked atomic.Int64
	calls := []struct {
		name string
		call func() error
		may  []error
	}{
		{"Start", func() error { return e.rt.Start(e.Ctx, s.ID) }, []error{runtime.ErrConflict, runtime.ErrUnavailable}},
		{"Stop", func() error { return e.rt.Stop(e.Ctx, s.ID) }, nil},
		{"Get", func() error {
			_, err := e.rt.Get(e.Ctx, s.ID)
			return err
		}, nil},
		{"Exec", func() error {
			_, err := e.rt.Exec(e.Ctx, s.ID, &runtime.ExecRequest{Command: []string{"true"}})
			return err
		}, []error{runtime.ErrConflict, runtime.ErrUnavailable}},
	}
	for i, err := range suite.AtOnce(some(24), func(i int) error {
		err := calls[i%len(calls)].call()
		if err == nil {
			worked.Add(1)
		}
		return err
	}) {
		if c := calls[i%len(calls)]; err != nil && !slices.Contains(c.may, runtime.Class(err)) {
			e.Errorf("%s among others: %v", c.name, err)
		}
	}
	if worked.Load() == 0 {
		e.Error("nothing has worked")
	}
	e.OK(e.rt.Stop(e.Ctx, s.ID))
	e.OK(e.rt.Start(e.Ctx, s.ID))
	e.prints(s.ID, "echo alive", "alive\n")
}

// async makes a call in a goroutine, and sends the error with which it ends.
func async(call func() error) <-chan error {
	ended := make(chan error, 1)
	go func() { ended <- call() }()
	return ended
}

// over checks that a call has ended because its sandbox was taken away.
func (e *env) over(ended <-chan error) {
	e.Helper()
	select {
	case err := <-ended:
		if !errors.Is(err, runtime.ErrConflict) && !errors.Is(err, runtime.ErrNotFound) {
			e.Errorf("the sandbox was taken away, and the call says: %v", err)
		}
	case <-e.Ctx.Done():
		e.Error("the call hangs")
	}
}

func destroyDuringExec(e *env) {
	s, tag := e.start(nil), newTag()
	ended := async(func() error {
		// What dies of the SIGTERM may still be told of.
		_, err := e.rt.Exec(e.Ctx, s.ID, &runtime.ExecRequest{Command: sh("trap '' TERM; sleep " + tag)})
		return err
	})
	e.Until("the command", func() bool { return e.count(s.ID, tag) == 1 })
	e.OK(e.rt.Destroy(e.Ctx, s.ID))
	e.over(ended)
}

func stopDuringStream(e *env) {
	s, tag := e.start(nil), newTag()
	output := make(chan []byte, 16)
	ended := async(func() error {
		return e.rt.ExecStream(e.Ctx, s.ID, &runtime.ExecRequest{Command: sh("trap '' TERM; echo before; sleep " + tag)}, output)
	})
	e.Until("the command", func() bool { return e.count(s.ID, tag) == 1 })
	e.OK(e.rt.Stop(e.Ctx, s.ID))
	e.over(ended)
	var got []byte
	for b := range output {
		got = append(got, b...)
	}
	if string(got) != "before\n" {
		e.Errorf("the output is %q", got)
	}
}
