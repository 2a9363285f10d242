package perm

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"wolffia/perm/plainyaml"
)

func TestParsePolicy(t *testing.T) {
	f, err := ParsePolicy("p.yaml", []byte(`# what this project allows
version: 1
extends: agent-safe
rules:
  - /docs/=read
  - "*.key=none"
  - pattern: "{a,b}=c"
    level: write
    type: file
    except: a
    priority: 1500

  - {pattern: /x/, level: view, at_most: true, type: directory}
  - {pattern: y, level: none, copies: true}
  - pattern: |-
      odd: name
    level: none
    priority: -3
`))
	if err != nil {
		t.Fatal(err)
	}
	want := &PolicyFile{Name: "p.yaml", Extends: "agent-safe", Rules: []Rule{
		{Pattern: "/docs/", Level: Read, Priority: 100, Source: "p.yaml:5"},
		{Pattern: "*.key", Level: None, Priority: 100, Source: "p.yaml:6"},
		{Pattern: "{a,b}=c", Except: "a", Type: File, Level: Write, Priority: 1500, Source: "p.yaml:7"},
		{Pattern: "/x/", Type: Directory, Level: View, AtMost: true, Priority: 100, Source: "p.yaml:13"},
		{Pattern: "y", Level: None, Copies: true, Priority: 100, Source: "p.yaml:14"},
		{Pattern: "odd: name", Level: None, Priority: -3, Source: "p.yaml:15"},
	}}
	if diff := cmp.Diff(want, f); diff != "" {
		t.Error(diff)
	}
}

func TestPolicyErrorsNameTheirLine(t *testing.T) {
	const head = "version: 1\nrules:\n"
	for _, tt := range []struct{ data, want string }{
		{"", "p:1: "},
		{"rules: []", "p:1: want version: 1"},
		{"version: 2\nrules: []", "p:1: want version: 1"},
		{"version: \"1\"", "p:1: want a whole number"},
		{"version: 1\nversion: 1", "p:2: "},
		{"version: 1\nrule: []", `p:2: unknown field "rule"`},
		{"version: 1\nextends: safe", "p:2: unknown preset \"safe\""},
		{"version: 1\nextends: [read-only]", "p:2: want text"},
		{"version: 1\nrules: a=read", "p:2: rules: want a list"},
		{"version: 1\nrules:", "p:2: rules: want a list"},
		{"- a=read", "p:1: want the fields"},
		{head + "- a=read\n- [b=read]", "p:4: want text"},
		{head + "- - a=read", "p:3: a list in a list"},
		{head + "- a=read\n- b=rad", "p:4: rule \"b=rad\": unknown level \"rad\""},
		{head + "- a=read\n- a{=none", "p:4: rule \"a{=none\": unclosed {"},
		{head + "- a", "p:3: rule \"a\": want PATTERN=LEVEL"},
		{head + "-", "p:3: want text"},
		{head + "- 5", "p:3: want text"},
		{head + "- *.key=none", "p:3: "},
		{head + "- pattern: *.key\n  level: none", "p:3: "},
		{head + "- &x a=read", "p:3: "},
		{head + "- !!str a=read", "p:3: "},
		{head + "- <<: {pattern: a}\n  level: read", "p:3: "},
		{head + "- pattern: a", "p:3: rule without a level"},
		{head + "- level: read", "p:3: rule \"=read\": empty pattern"},
		{head + "- pattern: a\n  level: ", "p:4: want text"},
		{head + "- pattern: a\n  level: Read", "p:4: unknown level"},
		{head + "- pattern: a\n  level: read\n  type: link", "p:5: unknown type \"link\""},
		{head + "- pattern: a\n  level: read\n  type: \"\"", "p:5: unknown type"},
		{head + "- pattern: a\n  level: read\n  priority: high", "p:5: want a whole number"},
		{head + "- pattern: a\n  level: read\n  priority: 1.5", "p:5: want a whole number"},
		{head + "- pattern: a\n  level: read\n  priority: 99999999999999999999", "p:5: want a whole number"},
		{head + "- pattern: a\n  level: read\n  at_most: 1", "p:5: want true or false"},
		{head + "- pattern: a\n  level: read\n  source: x", "p:5: unknown field \"source\""},
		{head + "- pattern: a\n  level: read\n  level: none", "p:5: "},
		{head + "- pattern: a/\n  level: read\n  type: file", "p:3: rule "},
		{head + "- a=read\n- b=read\n- a=none", "p:5: rule repeats the one of line 3: remove one of them"},
		{head + "- a=read\n---\nversion: 1", "p:1: 2 documents"},
		{head + "\t- a=read", "p:3: "},
		{head + "- \"a=read", "p:3: "},
		{head + "- a=read\n- " + strings.Repeat("x", 8<<10), "p:4: line longer"},
		{head + "- \xff=read", "p:1: not UTF-8"},
		{strings.Repeat("#\n", plainyaml.MaxFile), "p:1: larger than"},
		{"version: " + strings.Repeat("[", 4000), "p:1: nested too deep"},
		{"version: " + strings.Repeat("]", 4000), "p:1: "},
		{head + strings.Repeat("- ", 4000), "p:3: a list in a list"},
	} {
		f, err := ParsePolicy("p", []byte(tt.data))
		if err == nil || !errors.Is(err, ErrInvalid) || !strings.HasPrefix(err.Error(), tt.want) || f != nil {
			t.Errorf("%.80q: %v, want %s", tt.data, err, tt.want)
		}
	}
	_, err := ParsePolicy("p", []byte("version: 1\nx: 1\nrules:\n- a=rad\n- \"[=read\"\n- pattern: b\n  level: rad\n  type: x\n"))
	for _, want := range []string{"p:2:", "p:4:", "p:5:", "p:7:", "p:8:"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("not all problems are named: %v", err)
		}
	}
}

func TestAssemble(t *testing.T) {
	file := func(data string) *PolicyFile {
		f, err := ParsePolicy("p.yaml", []byte(data))
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	for _, tt := range []struct {
		says string
		req  Request
		want map[string]Level
	}{
		{
			"nothing asked for is agent-safe",
			Request{GitDirs: []string{"deploy"}, NotGit: []string{"plain.git"}},
			map[string]Level{"a": Write, ".env": None, ".git/config": Write, "a.git/x": Read, "b/plain.git/x": Write, "deploy/config": Read},
		},
		{
			"full access leaves git alone",
			Request{Preset: "full-access", GitDirs: []string{"deploy"}},
			map[string]Level{"a": Write, ".env": Write, "deploy/config": Write, "a.git/x": Write},
		},
		{
			"a file extends a preset",
			Request{File: file("version: 1\nextends: read-only\nrules: [/out/=write]")},
			map[string]Level{"a": Read, "out/a": Write, "out/.env": None},
		},
		{
			"a preset is named beside a file",
			Request{Preset: "view-only", File: file("version: 1\nrules: [/out/=write]"), GitDirs: []string{"out/g"}},
			map[string]Level{"a": View, "out/a": Write, "out/.env": None, "out/g/config": Read},
		},
		{
			"a file alone hides what it does not name, and secrets",
			Request{File: file("version: 1\nrules: [/out/=write]"), GitDirs: []string{"out/g"}},
			map[string]Level{"a": None, "out/a": Write, "out/.env": None, "out/g/hooks/x": Read},
		},
		{
			"rules outrank the file, reveals the secrets",
			Request{
				File:    file("version: 1\nextends: agent-safe\nrules: [/out/deep/x=none]"),
				Rules:   testRules(t, "/out/=read", "out/=write", "/out/=view"),
				Reveals: testRules(t, "/out/.env=write", "/out/.env=read", "file:/out/.env=write", "file:/out/.env=read"),
			},
			map[string]Level{"out/deep/x": View, "out/a": View, "a/out/b": Write, "out/.env": Read, "a/.env": None},
		},
	} {
		rules, err := Assemble(&tt.req)
		if err != nil {
			t.Fatal(err)
		}
		p := mustCompile(t, rules...)
		for path, want := range tt.want {
			if got := p.Level(path, false); got != want {
				t.Errorf("%s: %q is %v, want %v\n%v", tt.says, path, got, want, p.Explain(path, false))
			}
		}
		for _, r := range rules {
			if r.Source == "" {
				t.Errorf("%s: rule %v comes from nowhere", tt.says, r)
			}
		}
	}
	for _, req := range []Request{
		{Preset: "none"},
		{Preset: "agent-safe", File: &PolicyFile{Name: "p.yaml", Extends: "read-only"}},
		{File: &PolicyFile{Extends: "safe"}},
	} {
		if _, err := Assemble(&req); !errors.Is(err, ErrInvalid) {
			t.Errorf("%+v: got %v, want ErrInvalid", req, err)
		}
	}
}
