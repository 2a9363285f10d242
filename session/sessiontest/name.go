package sessiontest

import (
	"strings"

	"wolffia/internal/test/suite"
	"wolffia/runtime"
)

var nameTests = []test{
	{"NameForms", nil, nameForms},
	{"NameErrors", nil, nameErrors},
	{"NameRandom", nil, nameRandom},
	{"NameOfSandbox", nil, nameOfSandbox},
	{"CreateOnFirstUse", nil, createOnFirstUse},
	{"CreateOnFirstUseAtOnce", nil, createOnFirstUseAtOnce},
	{"CreateOnFirstUseFails", nil, createOnFirstUseFails},
	{"AttachCreates", nil, attachCreates},
	{"InvalidRequests", nil, invalidRequests},
}

func nameForms(e *env) {
	for _, name := range []string{"a", "0", "Main", "a.b-c_d", strings.Repeat("x", 64)} {
		s := e.shell(&runtime.SessionConfig{Name: name})
		if s.Name != name || s.ID != runtime.SessionIn(e.box, name) || s.SandboxID != e.box {
			e.Errorf("shell: got s.Session %+v; want s.Name == %v and s.ID == runtime.SessionIn(e.box, name) and s.SandboxID == %v",
				s.Session, name, e.box)
		}
		s.alive()
	}
	for _, name := range []string{".", "..", "-a", "_", "a/b", "a b", "a\n", "ä", "a\x00", "$(id)", strings.Repeat("x", 65)} {
		_, err := e.rt.CreateSession(e.Ctx, e.box, &runtime.SessionConfig{Name: name})
		e.Wrong("create "+name, err, runtime.ErrInvalid)
	}
}

func nameErrors(e *env) {
	e.shell(&runtime.SessionConfig{Name: "taken"})
	_, err := e.rt.CreateSession(e.Ctx, e.box, &runtime.SessionConfig{Name: "taken"})
	e.Wrong("create a taken one", err, runtime.ErrExists)
	stopped, err := e.rt.Create(e.Ctx, &runtime.SandboxConfig{})
	e.OK(err)
	for id, class := range map[string]error{"nobody": runtime.ErrNotFound, stopped.ID: runtime.ErrConflict} {
		_, err := e.rt.CreateSession(e.Ctx, id, nil)
		e.Wrong("create in "+id, err, class)
		_, err = e.rt.ListSessions(e.Ctx, id)
		e.Wrong("list "+id, err, class)
	}
	for id, class := range map[runtime.SessionID]error{
		runtime.SessionIn(e.box, "nobody"): runtime.ErrNotFound, "nobody/taken": runtime.ErrNotFound, runtime.SessionIn(stopped.ID, "taken"): runtime.ErrConflict,
		"taken": runtime.ErrNotFound, "": runtime.ErrNotFound, "/": runtime.ErrNotFound, runtime.SessionID(e.box): runtime.ErrNotFound,
		runtime.SessionIn(e.box, ""): runtime.ErrNotFound, "/taken": runtime.ErrNotFound, runtime.SessionIn(e.box, "taken/x"): runtime.ErrNotFound,
	} {
		_, err := e.rt.GetSession(e.Ctx, id)
		e.Wrong("get "+string(id), err, class)
		_, err = e.rt.SessionExec(e.Ctx, id, &runtime.SessionExecRequest{Command: []string{"true"}})
		e.Wrong("exec in "+string(id), err, class)
		e.Wrong("destroy "+string(id), e.rt.DestroySession(e.Ctx, id), class)
	}
}

func nameRandom(e *env) {
	a, b := e.shell(nil), e.shell(&runtime.SessionConfig{})
	if a.Name == "" || a.Name == b.Name {
		e.Errorf("the names are %q and %q", a.Name, b.Name)
	}
}

// Create makes a session of the default configuration, with what the command was
// given, once.
func createOnFirstUse(e *env) {
	id := runtime.SessionIn(e.box, "first")
	_, err := e.rt.SessionExec(e.Ctx, id, &runtime.SessionExecRequest{Command: []string{"true"}})
	e.Wrong("without Create", err, runtime.ErrNotFound)
	exec := func(req *runtime.SessionExecRequest, want string) {
		e.Helper()
		req.Create = true
		r, err := e.rt.SessionExec(e.Ctx, id, req)
		e.OK(err)
		if string(r.Stdout) != want || r.ExitCode != 0 || r.Session == nil || r.Session.Restored != "" {
			e.Errorf("%+v, %+v; want %q", r, r.Session, want)
		}
	}
	exec(&runtime.SessionExecRequest{
		Command: []string{"cat; echo $A $PWD; B=kept"}, Stdin: strings.NewReader("input\n"), Env: map[string]string{"A": "once"}, Cwd: "/tmp",
	}, "input\nonce /tmp\n")
	exec(&runtime.SessionExecRequest{Command: []string{"echo $A $B"}}, "kept\n")
	same := &runtime.SessionExecRequest{Command: []string{"env | sort; pwd; stty size 2>&1"}, Create: true}
	s, err := e.rt.CreateSession(e.Ctx, e.box, nil)
	e.OK(err)
	made, err := e.rt.SessionExec(e.Ctx, s.ID, same)
	e.OK(err)
	first, err := e.rt.SessionExec(e.Ctx, runtime.SessionIn(e.box, "same"), same)
	e.OK(err)
	if string(first.Stdout) != string(made.Stdout) || len(made.Stdout) == 0 {
		e.Errorf("it has %q; a session that CreateSession makes has %q", first.Stdout, made.Stdout)
	}
	output := make(chan []byte, 100)
	e.OK(e.rt.SessionExecStream(e.Ctx, runtime.SessionIn(e.box, "streamed"), &runtime.SessionExecRequest{Command: []string{"echo streamed"}, Create: true}, output))
	var printed []byte
	for b := range output {
		printed = append(printed, b...)
	}
	if string(printed) != "streamed\n" {
		e.Errorf("it printed %q", printed)
	}
	p, err := e.rt.StartProcess(e.Ctx, e.box, &runtime.Command{Command: []string{"exit 3"}, Session: "process", Create: true})
	e.OK(err)
	defer p.Close()
	if exit, err := p.Wait(e.Ctx); err != nil || exit.ExitCode != 3 {
		e.Errorf("Wait: got exit %+v, err %v; want err == nil and exit.ExitCode == 3", exit, err)
	}
}

// Of callers that create one session at the same time each has its command run in it.
func createOnFirstUseAtOnce(e *env) {
	const n = 20
	for _, err := range suite.AtOnce(n, func(int) error {
		_, err := e.rt.SessionExec(e.Ctx, runtime.SessionIn(e.box, "wanted"), &runtime.SessionExecRequest{Command: []string{": $((++n))"}, Create: true})
		return err
	}) {
		e.OK(err)
	}
	r, err := e.rt.SessionExec(e.Ctx, runtime.SessionIn(e.box, "wanted"), &runtime.SessionExecRequest{Command: []string{"echo $n"}})
	e.OK(err)
	if string(r.Stdout) != "20\n" {
		e.Errorf("%s of %d commands were run in it", r.Stdout, n)
	}
}

func createOnFirstUseFails(e *env) {
	for id, class := range map[runtime.SessionID]error{"nobody/first": runtime.ErrNotFound, runtime.SessionIn(e.box, "a b"): runtime.ErrNotFound, "first": runtime.ErrNotFound} {
		_, err := e.rt.SessionExec(e.Ctx, id, &runtime.SessionExecRequest{Command: []string{"true"}, Create: true})
		e.Wrong(string(id), err, class)
	}
	stopped, err := e.rt.Create(e.Ctx, &runtime.SandboxConfig{})
	e.OK(err)
	_, err = e.rt.SessionExec(e.Ctx, runtime.SessionIn(stopped.ID, "first"), &runtime.SessionExecRequest{Command: []string{"true"}, Create: true})
	e.Wrong("stopped", err, runtime.ErrConflict)
	all, err := e.rt.ListSessions(e.Ctx, e.box)
	e.OK(err)
	if len(all) > 0 {
		e.Errorf("there are %+v", all[0])
	}
}

func attachCreates(e *env) {
	_, err := e.rt.AttachSession(e.Ctx, runtime.SessionIn(e.box, "seen"), &runtime.AttachRequest{Rows: 10, Cols: 40})
	e.Wrong("without Create", err, runtime.ErrNotFound)
	t, err := e.rt.AttachSession(e.Ctx, runtime.SessionIn(e.box, "seen"), &runtime.AttachRequest{Rows: 10, Cols: 40, Create: true})
	e.OK(err)
	e.OK(t.Close())
	s, err := e.rt.GetSession(e.Ctx, runtime.SessionIn(e.box, "seen"))
	e.OK(err)
	if s.State != runtime.SessionIdle {
		e.Errorf("it is %+v", s)
	}
}

// A session is found by any name of its sandbox.
func nameOfSandbox(e *env) {
	box, err := e.rt.Create(e.Ctx, &runtime.SandboxConfig{Name: "named"})
	e.OK(err)
	e.OK(e.rt.Start(e.Ctx, box.ID))
	_, err = e.rt.CreateSession(e.Ctx, "named", &runtime.SessionConfig{Name: "main"})
	e.OK(err)
	for _, of := range []string{box.ID, "named", box.ID[:len(box.ID)-1]} {
		s, err := e.rt.GetSession(e.Ctx, runtime.SessionIn(of, "main"))
		e.OK(err)
		if s.ID != runtime.SessionIn(box.ID, "main") || s.SandboxID != box.ID {
			e.Errorf(`%s: got s %+v; want s.ID == runtime.SessionIn(box.ID, "main") and s.SandboxID == %v`, of, s, box.ID)
		}
		s.ID = runtime.SessionIn(of, "main")
		(&shell{e, s}).alive()
	}
	e.OK(e.rt.DestroySession(e.Ctx, "named/main"))
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
		_, err := e.rt.CreateSession(e.Ctx, e.box, &tt.config)
		e.Wrong(what, err, tt.class)
	}
	if all, err := e.rt.ListSessions(e.Ctx, e.box); len(all) > 0 || err != nil {
		e.Errorf("%d sessions are left, %v", len(all), err)
	}
	s := e.shell(nil)
	for what, req := range map[string]*runtime.SessionExecRequest{
		"NUL":              {Command: []string{"echo a\x00b"}},
		"negative timeout": {Command: []string{"true"}, Timeout: -1},
	} {
		_, err := e.rt.SessionExec(e.Ctx, s.ID, req)
		e.Wrong(what, err, runtime.ErrInvalid)
	}
	for _, env := range []map[string]string{{"A=B": "c"}, {"": "c"}, {"A": "\x00"}, {"1a": "c"}, {"a b; echo injected": "c"}, {"A$(echo injected >&2)": "c"}} {
		r, err := e.rt.SessionExec(e.Ctx, s.ID, &runtime.SessionExecRequest{Command: []string{"echo ran"}, Env: env})
		if err != nil && runtime.Class(err) == nil || err == nil && strings.Contains(string(r.Stdout)+string(r.Stderr), "injected\n") {
			e.Errorf("variable %q: %+v, %v", env, r, err)
		}
		s.alive()
	}
	s.same()
}
