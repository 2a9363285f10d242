package perm

import (
	"math/rand/v2"
	"strings"
	"testing"

	"wolffia/internal/test/testenv"
)

// randomRules and randomPath draw from few names and forms, so that they meet.
func randomRules(r *rand.Rand) []Rule {
	names := []string{"a", "b", "ab", "a.x", "*", "a*", "*b", "*.x", "?", "[ab]", "[!a]", "{a,b}", "{a,b.x}", "**", "**", "{a/b,b}", "\\a", "[^b]*", "*a*", "a*a", "*x*.x", "A", "aB", "[A-B]", "A*", "*.X"}
	rules := make([]Rule, 1+r.IntN(6))
	for i := range rules {
		var b strings.Builder
		if r.IntN(2) == 0 {
			b.WriteByte('/')
		}
		for n := 1 + r.IntN(4); n > 0; n-- {
			b.WriteString(names[r.IntN(len(names))])
			if n > 1 {
				b.WriteByte('/')
			}
		}
		rule := &rules[i]
		rule.Type = Kind(r.IntN(3))
		if rule.Type != File && r.IntN(4) == 0 {
			b.WriteByte('/')
		}
		rule.Pattern = b.String()
		rule.Level = Level(r.IntN(int(Write) + 1))
		rule.AtMost = rule.Level != Write && r.IntN(4) == 0
		rule.Priority = r.IntN(3)
		if r.IntN(4) == 0 {
			rule.Except = []string{"a", "*.x", "{b,ab}"}[r.IntN(3)]
		}
		if r.IntN(4) == 0 {
			rule.NotBelow = []string{"a", "*.x", "{b,ab}"}[r.IntN(3)]
		}
		rule.Fold = r.IntN(4) == 0
		rule.Copies = r.IntN(4) == 0
	}
	return rules
}

func randomPath(r *rand.Rand) string {
	names := []string{"a", "b", "ab", "a.x", "b.x", "c", "A", "aB", "A.x", "b.X", "a~", ".a.x.swp", "#b#", ".#ab", "A.BAK", "a.save.1", ".b.x~.swo", "a.bak~", ".a.x.swp~~", "b - Copy (2)", "a~.x", "a.x~"}
	var parts []string
	for n := r.IntN(6); n > 0; n-- {
		parts = append(parts, names[r.IntN(len(names))])
	}
	return strings.Join(parts, "/")
}

func TestCompiledAgreesWithSlow(t *testing.T) {
	rounds := testenv.Some(5_000)
	for seed := range uint64(rounds) {
		r := rand.New(rand.NewPCG(seed, 1))
		rules := randomRules(r)
		p, err := Compile(rules)
		if err != nil {
			continue // for instance an exception without a name
		}
		for range 20 {
			path, dir := randomPath(r), r.IntN(2) == 0
			dir = dir || path == ""
			got, want := p.Level(path, dir), slowLevel(rules, path, dir)
			if got != want {
				t.Fatalf("seed %d: level of %q (dir %v) is %v, want %v\nrules: %v\n%v", seed, path, dir, got, want, rules, p.Explain(path, dir))
			}
			checkPath(t, p, path, dir)
		}
	}
}

// checkPath checks what must hold of any policy and path.
func checkPath(t *testing.T, p *Policy, path string, dir bool) {
	t.Helper()
	level := p.Level(path, dir)
	if level > None {
		for parent := path; parent != ""; {
			parent = strings.TrimSuffix(parent[:strings.LastIndexByte(parent, '/')+1], "/")
			if p.Level(parent, true) < View {
				t.Fatalf("%q is %v, but its ancestor %q is hidden: %v", path, level, parent, p.Rules())
			}
		}
	}
	s := p.Root()
	for _, name := range strings.Split(path, "/") {
		if path == "" {
			break
		}
		if l, ok := p.Constant(s); ok {
			if level != l {
				t.Fatalf("%q is %v, but below an ancestor all is %v: %v", path, level, l, p.Rules())
			}
			break
		}
		s = p.Enter(s, name)
	}
	e := p.Explain(path, dir)
	want := None
	if e.Rule != nil {
		want = e.Rule.Level
	}
	if e.Raised {
		want = View
	}
	if e.Level != level || want != level || e.Problem != "" {
		t.Fatalf("%q is %v, but explained as %v: %+v", path, level, want, e)
	}
}

// TestEqualStatesDecideEqually is what renames rely on: a directory may move
// between two places of equal state without a look at what is in it.
func TestEqualStatesDecideEqually(t *testing.T) {
	shared := 0
	for seed := range uint64(500) {
		r := rand.New(rand.NewPCG(seed, 2))
		p, err := Compile(randomRules(r))
		if err != nil {
			continue
		}
		places := map[State][]string{}
		for range 60 {
			path := randomPath(r)
			s := p.Root()
			for _, name := range strings.Split(path, "/") {
				if path != "" {
					s = p.Enter(s, name)
				}
			}
			places[s] = append(places[s], path)
		}
		for _, paths := range places {
			for _, other := range paths[1:] {
				if other == paths[0] {
					continue
				}
				shared++
				for range 20 {
					below, dir := "/"+randomPath(r), r.IntN(2) == 0
					if below == "/" {
						continue
					}
					a := p.Level(strings.TrimPrefix(paths[0]+below, "/"), dir)
					b := p.Level(strings.TrimPrefix(other+below, "/"), dir)
					if a != b {
						t.Fatalf("seed %d: %q and %q have one state, but %q is %v in one and %v in the other: %v", seed, paths[0], other, below, a, b, p.Rules())
					}
				}
			}
		}
	}
	if shared < 1000 {
		t.Errorf("only %d pairs of directories shared a state: states are not canonical", shared)
	}
}
