package perm

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestExamples(t *testing.T) {
	for pattern, want := range map[string][]Example{
		"/docs/":          {{"docs", true, true}},
		"/a/b.md":         {{"a/b.md", false, true}},
		".env":            {{".env", false, false}},
		"*.pem":           {{"x.pem", false, false}},
		"/src/**/k?[0-9]": {{"src/kx0", false, false}},
		"{a,/b/[!x]}":     {{"a", false, false}, {"b/!", false, false}},
		"**":              nil,
		"/":               nil,
		"a//b":            nil,
	} {
		got := Rule{Pattern: pattern}.Examples()
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf(`%q: got %s, want ""`, pattern, diff)
		}
		for _, e := range got {
			if mustCompile(t, Rule{Pattern: pattern, Level: Write}).Level(e.Path, e.Dir) != Write {
				t.Errorf("%q does not match %q", pattern, e.Path)
			}
		}
	}
}

// What other tools read in another way is refused where a person writes it.
func TestRefusedText(t *testing.T) {
	for rule, ok := range map[string]bool{
		"!docs/x.md=write": false, `\!docs=read`: true, "[!]a]b=read": true, "a!=read": true,
		"docs =read": false, " docs=read": false, "docs /=read": false, "docs\t=read": false, "a b=read": true,
		`docs\ =read`: true, `docs\x20=read`: true, `docs\\ =read`: false,
	} {
		_, err := ParseRule(rule)
		if (err == nil) != ok {
			t.Errorf("%q: got err %v; want (err == nil) == %v", rule, err, ok)
		}
		_, err = ParsePolicy("p", []byte("version: 1\nrules:\n  - pattern: '"+rule[:len(rule)-len(rule[lastEquals(rule):])]+"'\n    level: read\n"))
		if (err == nil) != ok {
			t.Errorf("%q in full: %v", rule, err)
		}
	}
	for _, name := range []string{"a ", " a", " ", "a b", "d /x", "x/d "} {
		for _, end := range []string{"", "/"} {
			r, err := ParseRule("/" + Quote(name) + end + "=read")
			if err != nil || mustCompile(t, r).Level(name, end != "") != Read {
				t.Errorf("%q quoted: %v", name, err)
			}
		}
	}
}

func lastEquals(s string) int {
	for i := len(s) - 1; ; i-- {
		if s[i] == '=' {
			return i
		}
	}
}
