package audit

import (
	"fmt"
	"testing"

	"wolffia/perm"
)

func TestRecent(t *testing.T) {
	var s Recent
	env := Record{Op: "lookup", Path: ".env", Need: perm.View, Errno: "ENOENT"}
	write := Record{Op: "write", Path: "a", Level: perm.Read, Need: perm.Write, Errno: "EACCES"}
	paths := func(n int64) (all []string) {
		for _, r := range s.Since(n) {
			all = append(all, r.Op+" "+r.Path)
		}
		return all
	}
	check := func(n int64, want string) {
		t.Helper()
		if got := fmt.Sprint(paths(n)); got != want {
			t.Errorf("since %d: %s, want %s", n, got, want)
		}
	}
	check(0, "[]")
	for i, r := range []Record{env, write, env} {
		if n := s.Add(r, nil); n != int64(i+1) {
			t.Errorf("%d denials, want %d", n, i+1)
		}
	}
	check(0, "[lookup .env write a]")
	check(1, "[write a lookup .env]")
	check(2, "[lookup .env]")
	check(3, "[]")
	for i := range 2 * maxRecent {
		r := env
		r.Path = fmt.Sprint("name", i)
		s.Add(r, nil)
		s.Add(write, nil)
	}
	all := paths(0)
	if len(all) != maxRecent+1 || all[0] != "write a" || all[maxRecent] != fmt.Sprint("lookup name", 2*maxRecent-1) {
		t.Errorf(`paths: got %d, all %v; want len(all) == maxRecent+1 and all[0] == "write a" and all[maxRecent] == fmt.Sprint("lookup name", 2*maxRecent-1)`,
			len(all), all)
	}
	rules, err := perm.Compile([]perm.Rule{{Pattern: ".env", Level: perm.None, Priority: perm.PrioritySecret}})
	if err != nil {
		t.Fatal(err)
	}
	n := s.Add(env, rules)
	if got := s.Since(n - 1); len(got) != 1 || got[0].Remedy != "--reveal '/.env=read'" {
		t.Errorf("%+v: want the flag to read it, by the last rules", got)
	}
}
