package runtimetest

import (
	"wolffia/runtime"
)

var lookupTests = []test{
	{"Lookup", nil, lookup},
	{"LookupNameFirst", nil, lookupNameFirst},
	{"UnknownSandbox", nil, unknownSandbox},
	{"DestroyedSandbox", nil, destroyedSandbox},
}

func lookup(e *env) {
	for _, c := range []runtime.SandboxConfig{
		{ID: "aaaaaaaaaaaa", Name: "first"}, {ID: "aaaaaaaaaaab"}, {ID: "bbbbbbbbbbbb", Name: "last"},
	} {
		e.create(&c)
	}
	for ref, want := range map[string]string{
		"aaaaaaaaaaaa": "aaaaaaaaaaaa", "first": "aaaaaaaaaaaa", "aaaaaaaaaaab": "aaaaaaaaaaab",
		"b": "bbbbbbbbbbbb", "bbbbbbbbbbb": "bbbbbbbbbbbb", "last": "bbbbbbbbbbbb",
	} {
		if got := e.get(ref).ID; got != want {
			e.Errorf("%q is %s, want %s", ref, got, want)
		}
	}
	for ref, class := range map[string]error{
		"a": runtime.ErrInvalid, "aaaaaaaaaaa": runtime.ErrInvalid, // not unique
		"c": runtime.ErrNotFound, "fir": runtime.ErrNotFound, "B": runtime.ErrNotFound,
		"bbbbbbbbbbbbb": runtime.ErrNotFound, "bbbbbbbbbbbc": runtime.ErrNotFound,
		"./aaaaaaaaaaaa": runtime.ErrNotFound, "../x": runtime.ErrNotFound, "b\x00": runtime.ErrNotFound,
	} {
		_, err := e.rt.Get(e.Ctx, ref)
		e.Wrong(ref, err, class)
	}
	if s, err := e.rt.Get(e.Ctx, ""); err == nil {
		e.Errorf("nothing means sandbox %s", s.ID)
	}
	e.OK(e.rt.Start(e.Ctx, "b"))
	if r := e.sh("last", "exit 3"); r.ExitCode != 3 {
		e.Errorf("by name: %+v", r)
	}
	e.OK(e.rt.Stop(e.Ctx, "last"))
	e.OK(e.rt.Destroy(e.Ctx, "bb"))
	e.Wrong("destroy by a prefix of two", e.rt.Destroy(e.Ctx, "aa"), runtime.ErrInvalid)
	if n := len(e.list()); n != 2 {
		e.Errorf("%d sandboxes, want 2", n)
	}
}

// A name is a name even if it is the beginning of another sandbox's id.
func lookupNameFirst(e *env) {
	e.create(&runtime.SandboxConfig{ID: "abcabcabcabc"})
	e.create(&runtime.SandboxConfig{ID: "xyzxyzxyzxyz", Name: "abc"})
	if got := e.get("abc").ID; got != "xyzxyzxyzxyz" {
		e.Errorf("abc is %s", got)
	}
	if got := e.get("abca").ID; got != "abcabcabcabc" {
		e.Errorf("abca is %s", got)
	}
}

// calls are the methods that name a sandbox.
func calls(e *env) map[string]func(id string) error {
	cmd := []string{"true"}
	return map[string]func(id string) error{
		"Start":   func(id string) error { return e.rt.Start(e.Ctx, id) },
		"Stop":    func(id string) error { return e.rt.Stop(e.Ctx, id) },
		"Destroy": func(id string) error { return e.rt.Destroy(e.Ctx, id) },
		"Get": func(id string) error {
			_, err := e.rt.Get(e.Ctx, id)
			return err
		},
		"Exec": func(id string) error {
			_, err := e.rt.Exec(e.Ctx, id, &runtime.ExecRequest{Command: cmd})
			return err
		},
		"ExecStream": func(id string) error {
			output := make(chan []byte)
			done := make(chan struct{})
			go func() { // ends with the channel
				for range output {
				}
				close(done)
			}()
			err := e.rt.ExecStream(e.Ctx, id, &runtime.ExecRequest{Command: cmd}, output)
			e.Within("close of the output", done)
			return err
		},
		"StartProcess": func(id string) error {
			p, err := e.rt.StartProcess(e.Ctx, id, &runtime.Command{Command: cmd})
			if err == nil {
				_, err = p.Wait(e.Ctx)
				_ = p.Close()
			}
			return err
		},
	}
}

func unknownSandbox(e *env) {
	for name, call := range calls(e) {
		for _, id := range []string{"abcdefghijkl", "nobody"} {
			e.Wrong(name+" "+id, call(id), runtime.ErrNotFound)
		}
	}
}

func destroyedSandbox(e *env) {
	for name, call := range calls(e) {
		s := e.start(&runtime.SandboxConfig{Name: "gone"})
		e.OK(e.rt.Destroy(e.Ctx, s.ID))
		e.Wrong(name+" by id", call(s.ID), runtime.ErrNotFound)
		e.Wrong(name+" by name", call("gone"), runtime.ErrNotFound)
		e.empty()
	}
}
