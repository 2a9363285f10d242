package perm

import (
	"encoding/json"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
)

func FuzzCompile(f *testing.F) {
	for _, s := range []string{"**", "/a/**/b/", "{a,b{c,d}}", "[!a-z]*", "\\*", "[[:alpha:]]", "{", "a\\", "é?", "{*,a}*", "/", "[]-]", "[\\]]"} {
		f.Add(s, "a/b", uint8(0))
	}
	f.Fuzz(func(t *testing.T, pattern, path string, kind uint8) {
		r := Rule{Pattern: pattern, Type: Kind(kind % 3), Level: Read}
		p, err := Compile([]Rule{r})
		if err != nil {
			if !errors.Is(err, ErrInvalid) {
				t.Fatalf("%v is not ErrInvalid", err)
			}
			return
		}
		for _, dir := range []bool{false, true} {
			p.Level(path, dir)
			if p.Explain(path, dir).Problem == "" {
				checkPath(t, p, strings.TrimPrefix(path, "."), dir || path == "" || path == ".")
			}
		}
	})
}

func FuzzQuote(f *testing.F) {
	f.Add("a", "b")
	f.Add("\xff\n\u00a0", "\u00a0")
	f.Add("[x]{y,z}*?\\", "[x]{y,z}**\\")
	f.Fuzz(func(t *testing.T, name, other string) {
		if !validName(name) || !validName(other) || len(name) > 255 {
			return
		}
		data, err := json.Marshal(Rule{Pattern: "/" + Quote(name), Level: Read})
		if err != nil {
			t.Fatal(err)
		}
		var r Rule
		if err := json.Unmarshal(data, &r); err != nil {
			t.Fatal(err)
		}
		p, err := Compile([]Rule{r})
		if err != nil {
			t.Fatal(err)
		}
		if p.Level(name, false) != Read {
			t.Errorf("%q does not match itself", name)
		}
		if other != name && p.Level(other, false) != None {
			t.Errorf("%q matches %q", name, other)
		}
	})
}

func FuzzMatch(f *testing.F) {
	for i := range uint64(20) {
		f.Add(i, "a/b/ab", false)
	}
	f.Add(uint64(154), "\x8c", true) // not UTF-8, and a rule of either case
	f.Fuzz(func(t *testing.T, seed uint64, path string, dir bool) {
		if len(path) > 40 {
			return
		}
		rules := randomRules(rand.New(rand.NewPCG(seed, 3)))
		p, err := Compile(rules)
		if err != nil {
			return
		}
		valid := true
		for _, name := range strings.Split(path, "/") {
			valid = valid && validName(name)
		}
		switch got := p.Level(path, dir); {
		case path == "" || path == ".":
		case !valid && got != None:
			t.Fatalf("%q is %v", path, got)
		case valid && got != slowLevel(rules, path, dir):
			t.Fatalf("%q is %v, want %v\n%v", path, got, slowLevel(rules, path, dir), rules)
		}
	})
}

// FuzzGlob compares one component with the slow matcher.
func FuzzGlob(f *testing.F) {
	f.Add("a*b*c", "aXbXc")
	f.Add("*a*a*a*", "aaaa")
	f.Add("[a-c]?", "bz")
	f.Fuzz(func(t *testing.T, pattern, name string) {
		if strings.ContainsAny(pattern, "[]{}/\\\x00") || strings.Contains(pattern, "**") || pattern == "" || !validName(name) || len(name) > 255 {
			return // sets are read a little differently; see slowName
		}
		g, err := parseGlob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := g.match(name), slowName(pattern, name); got != want {
			t.Fatalf("%q on %q: %v, want %v", pattern, name, got, want)
		}
	})
}

func FuzzParsePolicy(f *testing.F) {
	f.Add([]byte("version: 1\nextends: agent-safe\nrules:\n  - /docs/=read\n  - pattern: \"*.key\"\n    level: none\n    type: file\n    priority: 5\n"))
	f.Add([]byte("version: 1\nrules: [a=read, {pattern: b, level: none}]"))
	f.Add([]byte("rules:\n- &a x\n- *a\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 1000 {
			return // the parser is slow, not wrong, on long lines
		}
		file, err := ParsePolicy("p", data)
		if err != nil {
			if !errors.Is(err, ErrInvalid) || !strings.HasPrefix(err.Error(), "p:") {
				t.Fatalf("%v is not ErrInvalid with a line", err)
			}
			return
		}
		if _, err := Compile(file.Rules); err != nil {
			t.Fatalf("what was parsed does not compile: %v", err)
		}
	})
}
