package runtimetest

import (
	"sync"

	"wolffia/perm"
	"wolffia/runtime"
)

var ruleTests = []test{
	{"RulesReplaced", []Feature{LiveRules}, rulesReplaced},
	{"RulesReplacedWhileStopped", []Feature{LiveRules}, rulesReplacedWhileStopped},
	{"RulesRefused", []Feature{LiveRules}, rulesRefused},
	{"RulesReplacedTogether", []Feature{LiveRules}, rulesReplacedTogether},
}

// set replaces the rules of a sandbox.
func (e *env) set(id string, r []perm.Rule) error {
	e.Helper()
	return e.workspace().SetPermissions(e.Ctx, id, r)
}

// Other rules bind when the call returns: for names that were used before and
// files that are open as well, in both directions.
func rulesReplaced(e *env) {
	dir := e.dir()
	e.write(dir+"/a", "a\n")
	e.write(dir+"/d/b", "b\n")
	s := e.start(e.open(dir))
	for range 3 {
		e.prints(s.ID, "ls; cat a d/b; echo a >a; echo x >x && rm x", "a\nd\na\nb\n")
		e.OK(e.set(s.ID, rules("**=read", "a=none")))
		e.prints(s.ID, "ls; cat d/b; test -e a || echo hidden; (echo x >x) 2>/dev/null || echo refused", "d\nb\nhidden\nrefused\n")
		e.OK(e.set(s.ID, rules("/a=view")))
		e.prints(s.ID, "ls; cat a 2>/dev/null || echo refused", "a\nrefused\n")
		e.OK(e.set(s.ID, nil))
		e.prints(s.ID, "ls -A", "")
		e.OK(e.set(s.ID, rules("**=write")))
	}
}

// The rules of a sandbox that does not run bind from its next start, and stay.
func rulesReplacedWhileStopped(e *env) {
	dir := e.dir()
	e.write(dir+"/a", "a\n")
	s := e.create(e.open(dir))
	e.OK(e.set(s.ID, rules("**=write", "a=none")))
	for range 2 {
		e.OK(e.rt.Start(e.Ctx, s.ID))
		e.prints(s.ID, "ls -A", "")
		e.OK(e.rt.Stop(e.Ctx, s.ID))
	}
	e.OK(e.set(s.ID, rules("**=read")))
	e.OK(e.rt.Start(e.Ctx, s.ID))
	e.prints(s.ID, "cat a", "a\n")
}

// What is refused changes nothing.
func rulesRefused(e *env) {
	dir := e.dir()
	e.write(dir+"/a", "a\n")
	s := e.start(e.open(dir))
	e.Wrong("a malformed pattern", e.set(s.ID, []perm.Rule{{Pattern: "**", Level: perm.None}, {Pattern: "a//b", Level: perm.None}}), runtime.ErrInvalid)
	e.prints(s.ID, "cat a", "a\n")
	e.Wrong("no codebase", e.set(e.create(nil).ID, rules("**=read")), runtime.ErrInvalid)
	e.Wrong("a running sandbox without codebase", e.set(e.start(nil).ID, rules("**=read")), runtime.ErrInvalid)
	e.Wrong("no such sandbox", e.set("zzzzzzzzzzzz", rules("**=read")), runtime.ErrNotFound)
}

// Concurrent changes of the rules wait for each other: one of them is the
// last, and its rules hold as a whole, now and after another start.
func rulesReplacedTogether(e *env) {
	dir := e.dir()
	for _, name := range []string{"a", "b", "c"} {
		e.write(dir+"/"+name+"/1", "")
		e.write(dir+"/"+name+"/2", "")
	}
	s := e.start(e.open(dir))
	var wg sync.WaitGroup
	for _, name := range []string{"a", "b", "c"} {
		wg.Go(func() {
			for range 5 {
				if err := e.set(s.ID, rules(name+"/1=read", name+"/2=read")); err != nil {
					e.Error(err)
				}
			}
		})
	}
	wg.Wait()
	now := e.out(s.ID, "echo */*")
	switch now {
	case "a/1 a/2\n", "b/1 b/2\n", "c/1 c/2\n":
	default:
		e.Errorf("the rules of several: %q", now)
	}
	e.OK(e.rt.Stop(e.Ctx, s.ID))
	e.OK(e.rt.Start(e.Ctx, s.ID))
	e.prints(s.ID, "echo */*", now)
}
