package perm

import (
	"fmt"
	"strings"
	"sync"
	"testing"
)

func mustCompile(t testing.TB, rules ...Rule) *Policy {
	t.Helper()
	p, err := Compile(rules)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func preset(t testing.TB, name string) []Rule {
	t.Helper()
	p, err := PresetByName(name)
	if err != nil {
		t.Fatal(err)
	}
	return p.Rules
}

func enter(p *Policy, path string) State {
	s := p.Root()
	for _, name := range strings.Split(path, "/") {
		s = p.Enter(s, name)
	}
	return s
}

func TestDirectoriesThatBehaveAlikeShareAState(t *testing.T) {
	rules := append(preset(t, "agent-safe"), GitRules([]string{"deploy"})...)
	rules = append(rules,
		Rule{Pattern: "/src/", Level: Write, Priority: PriorityRule},
		Rule{Pattern: "/lib/", Level: Write, Priority: PriorityRule},
		Rule{Pattern: "/docs/", Level: Read, Priority: PriorityRule},
		Rule{Pattern: "/man/", Level: Read, Priority: PriorityRule},
		Rule{Pattern: "/hidden/", Level: None, Priority: PriorityRule},
	)
	p := mustCompile(t, rules...)
	for _, same := range [][]string{
		{"src", "lib", "other", "src/deep/er"},
		{".git/objects/aa", ".git/objects/pack", ".git/logs/refs"},
		{"docs", "man", "man/man1"},
		{".secrets", "a/.ssh", "a/.gnupg/private-keys-v1.d", "hidden", "hidden/x"},
	} {
		for _, path := range same[1:] {
			if enter(p, same[0]) != enter(p, path) {
				t.Errorf("%q and %q have different states", same[0], path)
			}
		}
	}
	for _, path := range []string{"docs", ".secrets", ".git", "x.git", "deploy", "internal/secrets"} {
		if enter(p, "src") == enter(p, path) {
			t.Errorf("src and %q have the same state", path)
		}
	}
	if n := len(*p.states.Load()); n > 20 {
		t.Errorf("%d states for a dozen directories", n)
	}
}

func TestStatesAreCanonical(t *testing.T) {
	for _, tt := range []struct{ rules, same []string }{
		{[]string{"/p/**/q/s/**/r=read"}, []string{"p/q/s", "p/q/s/q", "p/x/q/s/p"}},                                                    // a later loop reaches all that an earlier one does
		{[]string{"**=write@0", "/x/<=read@2", "/x/y/z/<=read@1", ".env=none@0"}, []string{"x/y", "x/w", "x/y/z/q"}},                    // a limit behind a stricter one
		{[]string{"**=read", "/x/y/<=read@1", "/z/=read@1"}, []string{"x", "x/y", "w", "z"}},                                            // what changes nothing
		{[]string{"**=write", "/x/<=read@5", "/y/=read@5", "/z/q/=read@7", "w=write@1", "/k=none@0"}, []string{"x", "y", "x/x", "z/q"}}, // a limit is like a rule
		{[]string{"/a/=write@1", "/b/=write@2", ".env=none@3"}, []string{"a", "b", "a/b/c"}},                                            // whichever rule decides
		{[]string{"**=write", "/x/<=view@5", "/y/<=view@5", "/[x]/<=read@1", ".env=none@0"}, []string{"x", "y"}},                        // two limits
	} {
		p := mustCompile(t, testRules(t, tt.rules...)...)
		for _, path := range tt.same[1:] {
			if enter(p, tt.same[0]) != enter(p, path) {
				t.Errorf("%v: %q and %q have different states", tt.rules, tt.same[0], path)
			}
		}
	}
}

func TestConstant(t *testing.T) {
	p := mustCompile(t, append(preset(t, "agent-safe"), Rule{Pattern: "/.secrets/pub.txt", Level: Read, Priority: PriorityReveal})...)
	for _, tt := range []struct {
		path  string
		level Level
		ok    bool
	}{
		{"src", Write, false},
		{".secrets", None, false},
		{"a/.ssh", None, true},
		{".secrets/deeper", None, true},
	} {
		level, ok := p.Constant(enter(p, tt.path))
		if ok != tt.ok || ok && level != tt.level {
			t.Errorf("below %q: %v, %v; want %v, %v", tt.path, level, ok, tt.level, tt.ok)
		}
	}
	p = mustCompile(t, preset(t, "full-access")...)
	if level, ok := p.Constant(p.Root()); level != Write || !ok {
		t.Errorf("full access: %v, %v", level, ok)
	}
}

// A tree can be made to meet exponentially many states. Then memory stays
// bounded and what is beyond is hidden.
func TestStatesAreBounded(t *testing.T) {
	rules := []Rule{{Pattern: "**", Level: Write}}
	for i := range 16 {
		rules = append(rules, Rule{Pattern: fmt.Sprintf("/**/d%d/**/f%d", i, i), Level: None, Priority: 1})
	}
	p := mustCompile(t, rules...)
	beyond := 0
	for i := range 1 << 16 {
		s := p.Root()
		for bit := range 16 {
			if i&(1<<bit) != 0 {
				s = p.Enter(s, fmt.Sprintf("d%d", bit))
			}
		}
		if level := p.Child(s, "f0", false); i&1 != 0 && level != None {
			t.Fatalf("directory %b shows f0 as %v", i, level)
		}
		if s == 0 {
			beyond++
		}
		if s == 0 && (p.Child(s, "x", false) != None || p.Child(s, "x", true) != None || p.Enter(s, "x") != 0) {
			t.Fatal("a dead directory shows something")
		}
	}
	if n := len(*p.states.Load()); n > maxStates || beyond == 0 {
		t.Errorf("%d states and %d directories beyond, want at most %d states and some", n, beyond, maxStates)
	}
	if e := p.Explain("d0/d1/d2/d3/d4/d5/d6/d7/d8/d9/d10/d11/d12/d13/d14/d15/x", false); e.Level == None && e.Problem == "" {
		t.Errorf("hidden without a reason: %+v", e)
	}
}

func TestForeignStatesHide(t *testing.T) {
	var zero Policy
	for _, p := range []*Policy{&zero, mustCompile(t, Rule{Pattern: "**", Level: Write})} {
		for _, s := range []State{0, -1, 1 << 30} {
			if p.Child(s, "a", false) != None || p.Child(s, "a", true) != None {
				t.Errorf("state %d shows something", s)
			}
			if level, ok := p.Constant(s); level != None || !ok {
				t.Errorf("state %d: %v, %v", s, level, ok)
			}
		}
	}
	if zero.Level("a", false) != None || zero.RootLevel() != View {
		t.Error("the zero policy shows something")
	}
}

func TestNamesThatAreNone(t *testing.T) {
	p := mustCompile(t, Rule{Pattern: "**", Level: Write})
	for _, name := range []string{"", ".", "..", "a/b", "/", "a\x00", "\x00"} {
		if p.Child(p.Root(), name, false) != None || p.Child(p.Root(), name, true) != None || p.Enter(p.Root(), name) != 0 {
			t.Errorf("the name %q has a level", name)
		}
	}
	for _, path := range []string{"/", "/a", "a/", "a//b", "./a", "a/.", "a/..", "../a", "..", "a/../b", "a\x00b", "\x00"} {
		if p.Level(path, false) != None || p.Level(path, true) != None {
			t.Errorf("the path %q has a level", path)
		}
		if e := p.Explain(path, false); e.Problem == "" || e.Level != None {
			t.Errorf("the path %q is explained as %+v", path, e)
		}
	}
}

func TestConcurrentUse(t *testing.T) {
	p := mustCompile(t, append(preset(t, "agent-safe"), Rule{Pattern: "a/**/b/**/c", Level: Read, Priority: 5})...)
	want := mustCompile(t, p.Rules()...)
	var wg sync.WaitGroup
	for g := range 8 {
		// ends after its paths
		wg.Go(func() {
			for i := range 500 {
				path := fmt.Sprintf("a/%d/b/%d/c", (i*7+g)%50, i%10)
				if got := p.Level(path, i%2 == 0); got != Read {
					t.Errorf("%q is %v", path, got)
				}
			}
		})
	}
	wg.Wait()
	if got, want := p.Level("a/b/.env", false), want.Level("a/b/.env", false); got != want {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestWarmQuestionsDoNotAllocate(t *testing.T) {
	p := mustCompile(t, append(preset(t, "agent-safe"), GitRules([]string{"deploy"})...)...)
	s := p.Root()
	ask := func() {
		for _, name := range []string{"main.go", ".env", "src", ".git", "id_rsa.pub", "server.pem"} {
			p.Child(s, name, false)
			p.Child(s, name, true)
			p.Child(p.Enter(p.Enter(s, name), "hooks"), "config", false)
		}
		p.Level("internal/secrets/secrets.go", false)
		p.Level(".git/modules/x/config", false)
		p.Constant(s)
	}
	ask()
	if n := testing.AllocsPerRun(100, ask); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkChild(b *testing.B) {
	for _, n := range []int{10, 1000} {
		rules := []Rule{{Pattern: "**", Level: Write}}
		for i := range n {
			form := []string{"/dir%d/sub/", "name%d", "*.ext%d", "pre%d*", "a%d/**/b"}[i%5]
			rules = append(rules, Rule{Pattern: fmt.Sprintf(form, i), Level: None, Priority: 1})
		}
		p := mustCompile(b, rules...)
		for _, kind := range []struct {
			name string
			dir  bool
		}{{"file", false}, {"dir", true}} {
			b.Run(fmt.Sprintf("%s/rules=%d", kind.name, n), func(b *testing.B) {
				b.ReportAllocs()
				s := enter(p, "src/internal")
				for b.Loop() {
					p.Child(s, "main_test.go", kind.dir)
				}
			})
		}
	}
	p := mustCompile(b, preset(b, "agent-safe")...)
	for _, name := range []string{"main_test.go", "README.md"} {
		b.Run("agent-safe/"+name, func(b *testing.B) {
			b.ReportAllocs()
			s := enter(p, "src/internal")
			for b.Loop() {
				p.Child(s, name, false)
			}
		})
	}
}

func BenchmarkCompile(b *testing.B) {
	rules := preset(b, "agent-safe")
	for b.Loop() {
		mustCompile(b, rules...)
	}
}
