package runtimetest

import (
	"github.com/google/go-cmp/cmp"

	"wolffia/perm"
	"wolffia/runtime"
)

var deniedTests = []test{
	{"Denied", []Feature{Filter}, deniedMeanwhile},
	{"DeniedOften", []Feature{Filter}, deniedOften},
}

// The result of a command has what the rules denied meanwhile, each time, and nothing else: not
// what was denied before, nor names that do not exist.
func deniedMeanwhile(e *env) {
	dir := e.dir()
	e.write(dir+"/ro.txt", "read me\n")
	e.write(dir+"/d/.env", "SECRET\n")
	e.write(dir+"/d/it's\x1b", "")
	s := e.start(&runtime.SandboxConfig{CodebasePath: dir, Permissions: []perm.Rule{
		{Pattern: "**", Level: perm.Write, Source: "preset x"},
		{Pattern: "ro.txt", Level: perm.Read, Source: "policy.yaml:3"},
		{Pattern: ".env", Level: perm.None, Priority: perm.PrioritySecret, Source: "preset x"},
		{Pattern: "it*", Level: perm.Read, Source: "--rule"},
	}})
	env := runtime.Denial{Op: "lookup", Path: "d/.env", Level: perm.None, Rule: ".env=none", Source: "preset x", Allow: "--reveal '/d/.env=read'"}
	for _, tt := range []struct {
		script string
		want   []runtime.Denial
	}{
		{"cat ro.txt; ls d", nil},
		{"cat d/.env", []runtime.Denial{env}},
		{"cat d/.env; cat d/.env", []runtime.Denial{env}},
		{"cat .env d/nothing x/.env", nil}, // not there
		{"rm ro.txt; test -e d/.env", []runtime.Denial{
			{Op: "unlink", Path: "ro.txt", Level: perm.Read, Rule: "ro.txt=read", Source: "policy.yaml:3", Allow: "--rule '/ro.txt=write'"}, env,
		}},
		{`rm d/it*`, []runtime.Denial{
			{Op: "unlink", Path: `d/it's\x1b`, Level: perm.Read, Rule: "it*=read", Source: "--rule", Allow: `--rule '/d/it'\''s\x1b=write'`},
		}},
		{"true", nil},
	} {
		check := func(how string, got []runtime.Denial) {
			e.Helper()
			if diff := cmp.Diff(tt.want, got); diff != "" {
				e.Errorf(`%s: %s: got %s, want ""`, how, tt.script, diff)
			}
		}
		res, err := e.rt.Exec(e.Ctx, s.ID, &runtime.ExecRequest{Command: []string{"sh", "-c", tt.script}})
		e.OK(err)
		check("exec", res.Denied)
		exit := e.wait(e.process(s.ID, &runtime.Command{Command: []string{"sh", "-c", tt.script}}))
		check("process", exit.Denied)
	}
}

// What is denied without end makes a short result, and displaces no denial of another kind.
func deniedOften(e *env) {
	dir := e.dir()
	e.write(dir+"/ro.txt", "")
	s := e.start(&runtime.SandboxConfig{CodebasePath: dir, Permissions: rules("**=write", "*.none=none", "ro.txt=read")})
	res, err := e.rt.Exec(e.Ctx, s.ID, &runtime.ExecRequest{Command: []string{"sh", "-c", "rm -f ro.txt; i=0; while [ $i -lt 300 ]; do test -e $i.none; mkdir $i.none; i=$((i+1)); done"}})
	e.OK(err)
	if len(res.Denied) != 10 || res.DeniedMore < 20 {
		e.Errorf("denied: %+v and %d more", res.Denied, res.DeniedMore)
	}
}
