package perm

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestExplain(t *testing.T) {
	rules := testRules(t, "**=write", "secrets/=none@1000", "src/=read@200", "/src/x=write@300", "/a/b/pub=read@2000", "/a/b/=none@1000", "/src/<=view@250")
	for i := range rules {
		rules[i].Source = "test"
	}
	base, hide, src, x, pub, b, limit := &rules[0], &rules[1], &rules[2], &rules[3], &rules[4], &rules[5], &rules[6]
	p := mustCompile(t, rules...)
	for _, tt := range []struct {
		path string
		dir  bool
		want Explanation
		text string
	}{
		{
			"main.go", false,
			Explanation{Level: Write, Rule: base},
			`"main.go" is write: rule "**=write" of test`,
		},
		{
			"src/secrets/k", false,
			Explanation{Level: None, Rule: hide, Losers: []Rule{*limit, *src, *base}},
			"\"src/secrets/k\" is none: rule \"secrets/=none\" of test\nover rule \"/src/=view (at most)\" of test, then rule \"src/=read\" of test, then rule \"**=write\" of test",
		},
		{"src/x", false, Explanation{Level: Write, Rule: x, Losers: []Rule{*limit, *src, *base}}, ""},
		{"src/y", false, Explanation{Level: View, Rule: limit, Losers: []Rule{*src, *base}}, ""},
		{
			"a/b", true,
			Explanation{Dir: true, Level: View, Rule: b, Losers: []Rule{*base}, Raised: true, Toward: pub},
			"\"a/b\" is view: it leads to what rule \"/a/b/pub=read\" of test could make visible\nover rule \"**=write\" of test",
		},
		{"a/b/c", true, Explanation{Dir: true, Level: None, Rule: b, Losers: []Rule{*base}}, ""},
		{"../x", false, Explanation{Problem: "not a path below the root"}, `"../x" is none: not a path below the root`},
	} {
		tt.want.Path = tt.path
		got := p.Explain(tt.path, tt.dir)
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf(`%q: got %s, want ""`, tt.path, diff)
		}
		if tt.text != "" && got.String() != tt.text {
			t.Errorf("got  %s\nwant %s", got, tt.text)
		}
	}
	if got := mustCompile(t).Explain("a", false).String(); got != `"a" is none: no rule matches` {
		t.Error(got)
	}
	if got := mustCompile(t).Explain("", false); got.Level != View || !got.Raised || got.String() != `"" is view: the root is always visible` {
		t.Error(got)
	}
}

func TestExplanationIsTheCallersOwn(t *testing.T) {
	p := mustCompile(t, testRules(t, "/a/b=read")...)
	p.Explain("a/b", false).Rule.Pattern = "x"
	p.Explain("a", true).Toward.Pattern = "x"
	p.Rules()[0].Pattern = "x"
	if got := p.Explain("a/b", false).Rule.Pattern; got != "/a/b" {
		t.Errorf("the rule has become %q", got)
	}
}

func TestJSON(t *testing.T) {
	r := Rule{Pattern: "a", Except: "b", Type: File, Level: Read, AtMost: true, Priority: 5, Source: "x:1"}
	data, err := json.Marshal([]Rule{r, {Pattern: "c"}})
	want := `[{"pattern":"a","except":"b","type":"file","level":"read","at_most":true,"priority":5,"source":"x:1"},{"pattern":"c","level":"none"}]`
	if err != nil || string(data) != want {
		t.Errorf("got %s, %v", data, err)
	}
	var back []Rule
	if err := json.Unmarshal(data, &back); err != nil || back[0] != r {
		t.Errorf("got %+v, %v", back, err)
	}
	if err := json.Unmarshal([]byte(`[{"pattern":"a","level":"all"}]`), &back); err == nil {
		t.Error("an unknown level is taken")
	}
}

func TestRemedy(t *testing.T) {
	req := Request{
		Rules:   testRules(t, "/out/=read", "view=view"),
		GitDirs: []string{"bare"},
		File:    &PolicyFile{Rules: testRules(t, "**=write@100", "/top=none@3000")},
	}
	for _, tt := range []struct {
		path string
		dir  bool
		want Level
		text string
	}{
		{"out/it's", false, Write, `--rule '/out/it'\''s=write'`},
		{"out", true, Write, "--rule '/out/=write'"},
		{"view", false, Read, "--rule '/view=read'"},
		{"out/.env", false, Read, "--reveal '/out/.env=read'"},
		{"bare/hooks", true, Write, "--reveal '/bare/hooks/=write'"},
		{"a*b/.npmrc", false, Write, "--reveal '/a\\*b/.npmrc=write'"},
		{"secrets/x/y", false, View, "--reveal '/secrets/x/y=view'"},
		{"src", false, Write, ""},
		{"top", false, Read, ""},
		{"../x", false, Read, ""},
		{"", true, Write, ""},
	} {
		rules, err := Assemble(&req)
		if err != nil {
			t.Fatal(err)
		}
		got := mustCompile(t, rules...).Explain(tt.path, tt.dir).Remedy(tt.want)
		if got != tt.text {
			t.Errorf("%q to %v: %s, want %s", tt.path, tt.want, got, tt.text)
		}
		if got == "" {
			continue
		}
		flag, value, _ := strings.Cut(got, " ")
		r, err := ParseRule(strings.ReplaceAll(strings.Trim(value, "'"), `'\''`, "'"))
		if err != nil {
			t.Fatal(err)
		}
		after := req
		if flag == "--rule" {
			after.Rules = append(after.Rules[:len(after.Rules):len(after.Rules)], r)
		} else {
			after.Reveals = append(after.Reveals[:len(after.Reveals):len(after.Reveals)], r)
		}
		if rules, err = Assemble(&after); err != nil {
			t.Fatal(err)
		}
		if level := mustCompile(t, rules...).Level(tt.path, tt.dir); level != tt.want {
			t.Errorf("%s makes %q %v, want %v", got, tt.path, level, tt.want)
		}
	}
}
