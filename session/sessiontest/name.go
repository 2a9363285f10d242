package sessiontest

import (
	"strings"

	"wolffia/runtime"
)

var nameTests = []test{
	{"NameForms", nil, nameForms},
	{"NameErrors", nil, nameErrors},
	{"NameRandom", nil, nameRandom},
	{"NameOfSandbox", nil, nameOfSandbox},
	{"InvalidRequests", nil, invalidRequests},
}

func nameForms(e *env) {
	for _, name := range []string{"a", "0", "Main", "a.b-c_d", strings.Repeat("x", 64)} {
		s := e.shell(&runtime.SessionConfig{Name: name})
		if s.Name != name || s.ID != e.box+"/"+name || s.SandboxID != e.box {
			e.Errorf("%+v", s.Session)
		}
		s.alive()
	}
	for _, name := range []string{".", "..", "-a", "_", "a/b", "a b", "a\n", "ä", "a\x00", "$(id)", strings.Repeat("x", 65)} {
		_, err := e.rt.CreateSession(e.ctx, e.box, &runtime.SessionConfig{Name: name})
		e.wrong("create "+name, err, runtime.ErrInvalid)
	}
}

func nameErrors(e *env) {
	e.shell(&runtime.SessionConfig{Name: "taken"})
	_, err := e.rt.CreateSession(e.ctx, e.box, &runtime.SessionConfig{Name: "taken"})
	e.wrong("create a taken one", err, runtime.ErrExists)
	stopped, err := e.rt.Create(e.ctx, &runtime.SandboxConfig{})
	e.ok(err)
	for id, class := range map[string]error{"nobody": runtime.ErrNotFound, stopped.ID: runtime.ErrConflict} {
		_, err := e.rt.CreateSession(e.ctx, id, nil)
		e.wrong("create in "+id, err, class)
		_, err = e.rt.ListSessions(e.ctx, id)
		e.wrong("list "+id, err, class)
	}
	for id, class := range map[string]error{
		e.box + "/nobody": runtime.ErrNotFound, "nobody/taken": runtime.ErrNotFound, stopped.ID + "/taken": runtime.ErrConflict,
		"taken": runtime.ErrNotFound, "": runtime.ErrNotFound, "/": runtime.ErrNotFound, e.box: runtime.ErrNotFound,
		e.box + "/": runtime.ErrNotFound, "/taken": runtime.ErrNotFound, e.box + "/taken/x": runtime.ErrNotFound,
	} {
		_, err := e.rt.GetSession(e.ctx, id)
		e.wrong("get "+id, err, class)
		_, err = e.rt.SessionExec(e.ctx, id, &runtime.SessionExecRequest{Command: "true"})
		e.wrong("exec in "+id, err, class)
		e.wrong("destroy "+id, e.rt.DestroySession(e.ctx, id), class)
	}
}

func nameRandom(e *env) {
	a, b := e.shell(nil), e.shell(&runtime.SessionConfig{})
	if a.Name == "" || a.Name == b.Name {
		e.Errorf("the names are %q and %q", a.Name, b.Name)
	}
}

// A session is found by any name of its sandbox.
func nameOfSandbox(e *env) {
	box, err := e.rt.Create(e.ctx, &runtime.SandboxConfig{Name: "named"})
	e.ok(err)
	e.ok(e.rt.Start(e.ctx, box.ID))
	_, err = e.rt.CreateSession(e.ctx, "named", &runtime.SessionConfig{Name: "main"})
	e.ok(err)
	for _, of := range []string{box.ID, "named", box.ID[:len(box.ID)-1]} {
		s, err := e.rt.GetSession(e.ctx, of+"/main")
		e.ok(err)
		if s.ID != box.ID+"/main" || s.SandboxID != box.ID {
			e.Errorf("%s: %+v", of, s)
		}
		s.ID = of + "/main"
		(&shell{e, s}).alive()
	}
	e.ok(e.rt.DestroySession(e.ctx, "named/main"))
}

func invalidRequests(e *env) {
	for what, tt := range map[string]struct {
		config runtime.SessionConfig
		class  error
	}{
		"no such shell":     {runtime.SessionConfig{Shell: "/no/such/shell"}, runtime.ErrUnavailable},
		"no such shell yet": {runtime.SessionConfig{Shell: "nosuchshell"}, runtime.ErrUnavailable},
		"no such directory": {runtime.SessionConfig{Cwd: "/missing"}, runtime.ErrInvalid},
		"directory is file": {runtime.SessionConfig{Cwd: "/etc/passwd"}, runtime.ErrInvalid},
	} {
		_, err := e.rt.CreateSession(e.ctx, e.box, &tt.config)
		e.wrong(what, err, tt.class)
	}
	if all, err := e.rt.ListSessions(e.ctx, e.box); len(all) > 0 || err != nil {
		e.Errorf("%d sessions are left, %v", len(all), err)
	}
	s := e.shell(nil)
	for what, req := range map[string]*runtime.SessionExecRequest{
		"NUL":              {Command: "echo a\x00b"},
		"negative timeout": {Command: "true", Timeout: -1},
	} {
		_, err := e.rt.SessionExec(e.ctx, s.ID, req)
		e.wrong(what, err, runtime.ErrInvalid)
	}
	for _, env := range []map[string]string{{"A=B": "c"}, {"": "c"}, {"A": "\x00"}, {"1a": "c"}, {"a b; echo injected": "c"}, {"A$(echo injected >&2)": "c"}} {
		r, err := e.rt.SessionExec(e.ctx, s.ID, &runtime.SessionExecRequest{Command: "echo ran", Env: env})
		if err != nil && runtime.Class(err) == nil || err == nil && strings.Contains(string(r.Stdout)+string(r.Stderr), "injected\n") {
			e.Errorf("variable %q: %+v, %v", env, r, err)
		}
		s.alive()
	}
	s.same()
}
