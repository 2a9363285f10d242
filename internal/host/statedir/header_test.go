package statedir_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"reflect"
	"strings"
	"testing"

	"wolffia/internal/host/statedir"
	"wolffia/perm"
	"wolffia/runtime"
)

// Brief is Config without the rules, whatever is in them and in the rest, and after each way to write a configuration.
func TestBrief(t *testing.T) {
	d, err := statedir.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	ordinary := []perm.Rule{{Pattern: "**", Level: perm.Read}, {Pattern: ".env", Level: perm.None}}
	for n, tt := range []struct {
		name   string
		rules  []perm.Rule
		labels map[string]string
		whole  bool // Brief may read all, since it cannot tell
	}{
		{name: "ordinary", rules: ordinary},
		{name: "no rules", whole: true},
		{name: "a label of that name", rules: ordinary, labels: map[string]string{"a": `,"permissions":[`, "permissions": "[]}", `,"permissions":[`: "x"}},
		{name: "a pattern like that", rules: []perm.Rule{{Pattern: `,"permissions":[`, Level: perm.Read}}},
		{name: "a pattern with an end", rules: []perm.Rule{{Pattern: "[a],", Level: perm.Read}, {Pattern: "b]}", Level: perm.None}}, whole: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := &statedir.Config{SandboxConfig: runtime.SandboxConfig{
				ID: strings.Repeat(string(rune('a'+n)), 12), Runtime: "bwrap", CodebasePath: "/a", Permissions: tt.rules, Labels: tt.labels,
				Env: map[string]string{"permissions": `],"`},
			}, CreatedAt: 1, UID: 7, User: "ann"}
			rec, _, err := d.Create(statedir.Draft{Config: c}, nil)
			if err != nil {
				t.Fatal(err)
			}
			same := func(when string) {
				t.Helper()
				all, err := rec.Config()
				if err != nil || !reflect.DeepEqual(all.Permissions, tt.rules) || all.HeaderOnly || all.RequireRules() != nil {
					t.Fatalf("%s: got all %+v, err %v; want err == nil and all.Permissions == %v and not all.HeaderOnly and all.Whole() == nil",
						when, all, err, tt.rules)
				}
				brief, err := rec.LoadHeader()
				if err != nil || !tt.whole && !brief.HeaderOnly {
					t.Fatalf("%s: got brief %+v, err %v; want err == nil and (tt.whole or brief.HeaderOnly)", when, brief, err)
				}
				if brief.HeaderOnly != (brief.RequireRules() != nil) {
					t.Errorf("%s: whole: %v", when, brief.RequireRules())
				}
				if brief.HeaderOnly {
					all.Permissions, all.HeaderOnly = nil, true
				}
				if !reflect.DeepEqual(brief, all) {
					t.Errorf("%s: %+v, want %+v", when, brief, all)
				}
			}
			same("created")
			all, err := rec.Config()
			if err != nil {
				t.Fatal(err)
			}
			if err := rec.SetConfig(all); err != nil {
				t.Fatal(err)
			}
			same("replaced")
		})
	}
}

// Nothing is written by a configuration whose rules were not read: they would be lost.
func TestBriefIsNotWritten(t *testing.T) {
	d, err := statedir.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	rec, _, err := d.Create(statedir.Draft{Config: &statedir.Config{SandboxConfig: runtime.SandboxConfig{ID: "abcdefghijkl", Permissions: []perm.Rule{{Pattern: ".env", Level: perm.None}}}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(rec.ConfigFile())
	if err != nil {
		t.Fatal(err)
	}
	c, err := rec.LoadHeader()
	if err != nil || !c.HeaderOnly {
		t.Fatalf("Brief: got c %+v, err %v; want err == nil and c.HeaderOnly", c, err)
	}
	if err := rec.SetConfig(c); !errors.Is(err, runtime.ErrUnavailable) {
		t.Errorf("it was written: %v", err)
	}
	if statedir.Shape(c, false) != "" {
		t.Error("a pooled sandbox would serve it")
	}
	c.ID = "bbbbbbbbbbbb"
	if _, _, err := d.Create(statedir.Draft{Config: c}, nil); err == nil {
		t.Error("a sandbox was created by it")
	}
	if after, err := os.ReadFile(rec.ConfigFile()); err != nil || !bytes.Equal(before, after) {
		t.Errorf("os.ReadFile: got after %s, err %v; want err == nil and before == %v", after, err, after)
	}
}

// Rules of which a newer version says more than this one knows start nothing, and are not lost. All else is read.
func TestNewerRules(t *testing.T) {
	rec := create(t, open(t), id, "")
	const rules = `"permissions":[{"pattern":"a","level":"none","hardlinks":true}]`
	for _, text := range []string{
		`{"id":"abcdefghijkl","name":"x",` + rules + `}`,
		`{"id":"abcdefghijkl",` + rules + `,"name":"x","mounts":[]}`,
	} {
		if err := os.WriteFile(rec.ConfigFile(), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		c, err := rec.Config()
		if err != nil || c.Name != "x" || len(c.Permissions) != 0 {
			t.Errorf(`%s: got c %+v, err %v; want err == nil and c.Name == "x" and len(c.Permissions) == 0`, text, c, err)
		}
		if err := c.RequireRules(); !errors.Is(err, runtime.ErrUnsupported) || !strings.Contains(err.Error(), "newer version") {
			t.Errorf("%s: whole: %v", text, err)
		}
		if rec.SetConfig(c) == nil {
			t.Errorf("%s: it was written", text)
		}
		if c, err := rec.LoadHeader(); err != nil || c.Name != "x" {
			t.Errorf("%s: brief: %+v, %v", text, c, err)
		}
	}
}

// A configuration that others have written, with the rules in another place or damaged, is read as a whole.
func TestBriefOfOtherConfigurations(t *testing.T) {
	rec := create(t, open(t), id, "")
	const rules = `"permissions":[{"pattern":"a","level":"read"}]`
	for text, want := range map[string]struct {
		brief bool
		name  string // "": an error
	}{
		`{"id":"abcdefghijkl","name":"x",` + rules + `}`:                 {true, "x"},
		`{"id":"abcdefghijkl",` + rules + `,"name":"x"}`:                 {false, "x"},
		`{"id":"abcdefghijkl",` + rules + `,"mounts":[],"name":"x"}`:     {false, "x"},
		`{"id":"abcdefghijkl",` + rules + `,"name":"x","mounts":[]}`:     {false, "x"},
		`{"id":"abcdefghijkl","name":"x",` + rules:                       {},
		`{"id":"abcdefghijkl","name":"x",` + rules[:len(rules)-2] + `]}`: {true, "x"}, // code that needs the rules finds out
		`{"id":"abcdefghijkl","name":"x,` + rules + `}`:                  {},
		`{"id":"bbbbbbbbbbbb","name":"x",` + rules + `}`:                 {},
	} {
		if err := os.WriteFile(rec.ConfigFile(), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		c, err := rec.LoadHeader()
		switch {
		case want.name == "":
			if !errors.Is(err, runtime.ErrUnavailable) {
				t.Errorf("%s: got c %+v, err %v; want err is runtime.ErrUnavailable", text, c, err)
			}
		case err != nil, c.HeaderOnly != want.brief, c.Name != want.name:
			t.Errorf("%s: %+v, %v", text, c, err)
		}
		if json.Valid([]byte(text)) {
			continue
		}
		if c, err := rec.Config(); !errors.Is(err, runtime.ErrUnavailable) {
			t.Errorf("%s: Config: %+v, %v", text, c, err)
		}
	}
}
