package proc

import (
	"os"
	"slices"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	rest := " S 10 12 13 34816 -1 4194304 1 0 0 0 0 0 0 0 20 0 1 0 4711 1 1"
	want := Process{PID: 7, Parent: 10, Group: 12, Session: 13, Start: 4711, State: 'S', Terminal: true}
	for _, name := range []string{"sleep", "", "a b", ") S 1 2 3 (", "\xff\n)"} {
		if got, ok := parse(7, []byte("7 ("+name+")"+rest)); !ok || got != want {
			t.Errorf("%q: got %+v, ok %v; want ok and got == %+v", name, got, ok, want)
		}
	}
	for _, stat := range []string{"", "7 (x", "7 (x)", "7 (x) S 10 12", "7 (x)" + strings.Replace(rest, "12", "x", 1), "7 (x)" + strings.Replace(rest, "4711", "-1", 1)} {
		if got, ok := parse(7, []byte(stat)); ok {
			t.Errorf("%q: got %+v; want not ok", stat, got)
		}
	}
}

func TestOthers(t *testing.T) {
	pid := func(n int) func(Process) bool { return func(p Process) bool { return p.PID == n } }
	all := Others()
	if slices.ContainsFunc(all, pid(os.Getpid())) || !slices.ContainsFunc(all, pid(os.Getppid())) {
		t.Errorf("of %d processes, the test is one or its parent is none", len(all))
	}
}
