package perm

import (
	"errors"
	"strings"
	"testing"
)

// rules parses "PATTERN=LEVEL" with what the rules of the tests need besides:
// "file:" or "dir:" before it, "<=" for at most, "@N" after it for a priority.
func testRules(t testing.TB, specs ...string) []Rule {
	t.Helper()
	var rules []Rule
	for _, spec := range specs {
		kind := Glob
		if s, ok := strings.CutPrefix(spec, "file:"); ok {
			kind, spec = File, s
		} else if s, ok := strings.CutPrefix(spec, "dir:"); ok {
			kind, spec = Directory, s
		}
		priority := 0
		if i := strings.LastIndexByte(spec, '@'); i >= 0 {
			for _, c := range spec[i+1:] {
				priority = priority*10 + int(c-'0')
			}
			spec = spec[:i]
		}
		atMost := strings.Contains(spec, "<=")
		r, err := ParseRule(strings.Replace(spec, "<=", "=", 1))
		if err != nil {
			t.Fatal(err)
		}
		r.Type, r.Priority, r.AtMost = kind, priority, atMost
		rules = append(rules, r)
	}
	return rules
}

// Every sentence of the design about rules. A path with a trailing slash is a
// directory.
func TestDesign(t *testing.T) {
	for _, tt := range []struct {
		says  string
		rules []string
		want  map[string]Level
	}{
		{
			"no rule matches: none", nil,
			map[string]Level{"a": None, "a/": None, "a/b": None, "": View},
		},
		{
			"a star is one component's bytes, also with a leading dot",
			[]string{"/*=read", "/*/*/*=none"},
			map[string]Level{"a": Read, ".a": Read, "a/b": Read, "a/b/c": None},
		},
		{
			"wildcards",
			[]string{"/a?c=read", "/[x-z]1=read", "/[!x-z]2=read", "/[^x-z]3=read", "/{p,q{r,s}}=read", "/\\*=read", "/m*n*o=read", "/tu*ut=read", "/[]a-]=read"},
			map[string]Level{
				"abc": Read, "ac": None, "abbc": None, "b/c": None, "y1": Read, "w1": None, "w2": Read, "y2": None, "w3": Read, "y3": None,
				"p": Read, "qr": Read, "qs": Read, "q": None, "*": Read, "x": None, "tut": None, "tuut": Read, "mno": Read, "m-n-o": Read, "m-n-oo": Read, "m-n": None, "]": Read, "a": Read, "-": Read,
			},
		},
		{
			"bytes, not characters",
			[]string{"/?=read", "/??=write", "/[!a]z=read", "/\\xffx=read", "/[\\x01-\\x03]c=read"},
			map[string]Level{"a": Read, "é": Write, "éz": None, "\xffx": Read, "\xffz": Read, "\xfex": Write, "\x02c": Read, "\x04c": Write},
		},
		{
			"** at any depth",
			[]string{"/a/**/z=read", "/b/**=read", "**/c/d=read"},
			map[string]Level{"a/z": Read, "a/1/z": Read, "a/1/2/3/z": Read, "a/zz": None, "b/": Read, "b/x": Read, "b/x/y": Read, "b": None, "c/d": Read, "x/y/c/d": Read, "c": None},
		},
		{
			"only a leading slash anchors",
			[]string{"/a=read", "b=read", ".git/config=read", "c/d/=read"},
			map[string]Level{
				"a": Read, "x/a": None, "b": Read, "x/y/b": Read, ".git/config": Read, "x/y/.git/config": Read, ".git/x": None,
				"config": None, "c/d/": Read, "x/c/d/e": Read, "c/d": None,
			},
		},
		{
			"a trailing slash: directory and all below",
			[]string{"/a/=read"},
			map[string]Level{"a/": Read, "a": None, "a/b": Read, "a/b/c/": Read},
		},
		{
			"a directory that matches covers what is below",
			[]string{"**=write", "hide=none@1"},
			map[string]Level{"hide": None, "hide/": None, "hide/x": None, "x/hide/y/z": None, "hidden": Write},
		},
		{
			"kinds",
			[]string{"file:/a=read", "dir:/b=read", "/c=read"},
			map[string]Level{"a": Read, "a/": None, "a/x": None, "b": None, "b/": Read, "b/x": Read, "c": Read, "c/": Read, "c/x": Read},
		},
		{
			"a rule for files below a directory",
			[]string{"file:/a/**=read"},
			map[string]Level{"a": None, "a/": View, "a/x": Read, "a/x/y": Read, "a/x/": View},
		},
		{"higher priority first", []string{"/a/b=none@1", "a=read@2"}, map[string]Level{"a/b": Read}},
		{"then anchored", []string{"/a/=write", "b/c/longer=none"}, map[string]Level{"a/b/c/longer": Write, "b/c/longer": None}},
		{"then literal components", []string{"b/*=write", "looooong*=none", "b/c=read"}, map[string]Level{"b/looooong": Write, "b/c": Read, "looooong": None}},
		{"then literal bytes", []string{"a*=write", "ab*=none"}, map[string]Level{"ax": Write, "abx": None}},
		{"then file, directory, glob", []string{"/a=none", "file:/a=write", "dir:/b=read", "/b=write"}, map[string]Level{"a": Write, "a/": None, "b/": Read, "b": Write}},
		{"then the stricter", []string{"/a=write", "/a=view", "/a=read"}, map[string]Level{"a": View}},
		{"everything is written in several ways", []string{"/=write", "**=read", "/**=write"}, map[string]Level{"a": Read, "a/b": Read, "": Read}},
		{
			"secrets outrank --rule, and only --reveal outranks them",
			[]string{"**=write", ".env=none@1000", "src/=write@200", "/deep/.env=read@2000"},
			map[string]Level{"src/.env": None, "src/x": Write, "deep/.env": Read, "deep/er/.env": None},
		},
		{
			"a directory on the way to something visible is view",
			[]string{"/a/b/c=read"},
			map[string]Level{"a/": View, "a/b/": View, "a/b/c": Read, "a/b/x/": None, "a": None, "a/b/c/d/": Read, "x/": None},
		},
		{
			"on the way is decided from rules alone",
			[]string{"*.md=read"},
			map[string]Level{"any/": View, "any/where/": View, "any/where/x.md": Read, "any/where/x": None},
		},
		{
			"a hidden directory is on the way to nothing",
			[]string{"**=write", "secrets/=none@1000", "*.md=read@5"},
			map[string]Level{"secrets/": None, "secrets/x.md": None, "secrets/x/": None, "secrets": Write},
		},
		{
			"unless something in it is revealed",
			[]string{"**=write", "secrets/=none@1000", "secrets/pub.txt=read@2000"},
			map[string]Level{"secrets/": View, "secrets/pub.txt": Read, "secrets/other": None, "x/secrets/pub.txt": Read, "secrets/sub/": View},
		},
		{
			"revealing an anchored file shows only its own directories",
			[]string{"**=write", "secrets/=none@1000", "/a/secrets/pub.txt=read@2000"},
			map[string]Level{"secrets/": None, "a/secrets/": View, "a/secrets/pub.txt": Read, "a/secrets/x": None, "a/b/secrets/": None},
		},
		{
			"a rule that hides leads to nothing",
			[]string{"/a/b=none"},
			map[string]Level{"a/": None, "a/b": None},
		},
		{
			"a limit gives nothing and cuts down what is given",
			[]string{"**=write", "/.git/hooks/<=read@1000", "/x/=none@200", "/x/.git/hooks/<=read@1000", "/.git/hooks/mine=write@2000"},
			map[string]Level{".git/hooks/": Read, ".git/hooks/pre-push": Read, ".git/hooks/mine": Write, ".git/x": Write, "x/.git/hooks/": None, "x/": None},
		},
		{
			"a limit makes nothing visible",
			[]string{"/a/b<=read"},
			map[string]Level{"a/": None, "a/b": None},
		},
	} {
		p := mustCompile(t, testRules(t, tt.rules...)...)
		for path, want := range tt.want {
			name, dir := strings.CutSuffix(path, "/")
			if got := p.Level(name, dir); got != want {
				t.Errorf("%s: %q is %v, want %v\n%v", tt.says, path, got, want, p.Explain(name, dir))
			}
			checkPath(t, p, name, dir || name == "")
		}
	}
}

func TestExcept(t *testing.T) {
	p := mustCompile(t,
		Rule{Pattern: "**", Level: Write},
		Rule{Pattern: ".env.*", Except: ".env.{example,sample}", Level: None, Priority: PrioritySecret},
		Rule{Pattern: "/docs/", Level: Read, Priority: PriorityRule})
	for path, want := range map[string]Level{
		".env.local": None, ".env.example": Write, "a/.env.sample": Write, "docs/.env.example": Read, "docs/.env.x": None, ".env.examples": None,
	} {
		if got := p.Level(path, false); got != want {
			t.Errorf("%q is %v, want %v", path, got, want)
		}
	}
}

func TestMalformedRulesAreErrors(t *testing.T) {
	for _, r := range []Rule{
		{},
		{Pattern: "//"},
		{Pattern: "//a"},
		{Pattern: "a//b"},
		{Pattern: "a//"},
		{Pattern: "."},
		{Pattern: "./a"},
		{Pattern: "a/../b"},
		{Pattern: "\\.\\."},
		{Pattern: "{.,a}."},
		{Pattern: "a\x00b"},
		{Pattern: "a**"},
		{Pattern: "**a/b"},
		{Pattern: "a***"},
		{Pattern: "***"},
		{Pattern: "[a"},
		{Pattern: "[]"},
		{Pattern: "[!]"},
		{Pattern: "[a/b]"},
		{Pattern: "[b-a]"},
		{Pattern: "[é]"},
		{Pattern: "[[:alpha:]]"},
		{Pattern: "{a,b"},
		{Pattern: "a}"},
		{Pattern: "{a}"},
		{Pattern: "{,a}"},
		{Pattern: "a/{,b}/c"},
		{Pattern: "a\\"},
		{Pattern: "a\\/b"},
		{Pattern: "a\\x2fb"},
		{Pattern: "a\\x00b"},
		{Pattern: "a\\xg0"},
		{Pattern: "a\\x1"},
		{Pattern: "[\\x2f]"},
		{Pattern: "\\x2e"},
		{Pattern: "a\xff"},
		{Pattern: "a", Except: "\xff"},
		{Pattern: "{a,b\\"},
		{Pattern: strings.Repeat("{a,b}", 9)},
		{Pattern: "{" + strings.Repeat("a,", 300) + "b}"},
		{Pattern: strings.Repeat("a", maxPattern+1)},
		{Pattern: "a/", Type: File},
		{Pattern: "/", Type: File},
		{Pattern: "a", Type: 3},
		{Pattern: "a", Level: 5},
		{Pattern: "a", Level: Write, AtMost: true},
		{Pattern: "a", Except: "b/c"},
		{Pattern: "a", Except: "[b"},
		{Pattern: "a", Except: "{b,}"},
		{Pattern: "a", Except: "**"},
		{Pattern: "**", Except: "b"},
	} {
		r.Source = "somewhere:7"
		_, err := Compile([]Rule{{Pattern: "fine"}, r, {Pattern: "[", Source: "elsewhere"}})
		switch {
		case err == nil:
			t.Errorf("%q compiles", r.Pattern)
		case !errors.Is(err, ErrInvalid):
			t.Errorf("%q: %v is not ErrInvalid", r.Pattern, err)
		case !strings.Contains(err.Error(), "somewhere:7") || !strings.Contains(err.Error(), "elsewhere") || strings.Contains(err.Error(), "fine"):
			t.Errorf("%q: the error does not name all wrong rules: %v", r.Pattern, err)
		}
	}
	if _, err := Compile(make([]Rule, maxRules+1)); !errors.Is(err, ErrInvalid) {
		t.Errorf("too many rules: %v", err)
	}
	many := make([]Rule, 400)
	for i := range many {
		many[i].Pattern = "{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}"
	}
	if _, err := Compile(many); !errors.Is(err, ErrInvalid) {
		t.Errorf("too many alternatives: %v", err)
	}
}

func TestParseRule(t *testing.T) {
	r, err := ParseRule("a=b=c=read")
	if err != nil || r != (Rule{Pattern: "a=b=c", Level: Read}) {
		t.Errorf("got %+v, %v", r, err)
	}
	for _, s := range []string{"", "a", "a=", "=read", "a=Read", "a= read", "a=rw", "[=read", "a=read ", "a=4"} {
		if r, err := ParseRule(s); !errors.Is(err, ErrInvalid) {
			t.Errorf("%q: got r %+v, err %v; want err is ErrInvalid", s, r, err)
		}
	}
}

func TestNamesOfLevelsAndKinds(t *testing.T) {
	for _, l := range Levels() {
		text, err := l.MarshalText()
		var back Level
		if err != nil || back.UnmarshalText(text) != nil || back != l {
			t.Errorf("MarshalText: got l %v, text %q, err %v; want err == nil and back.UnmarshalText(text) == nil and back == %v",
				l, text, err, l)
		}
	}
	for _, k := range []Kind{Glob, Directory, File} {
		text, err := k.MarshalText()
		var back Kind
		if err != nil || back.UnmarshalText(text) != nil || back != k {
			t.Errorf("MarshalText: got k %v, text %q, err %v; want err == nil and back.UnmarshalText(text) == nil and back == %v",
				k, text, err, k)
		}
	}
	l, k := Write, File
	if l.UnmarshalText([]byte("WRITE")) == nil || l != Write || k.UnmarshalText([]byte("link")) == nil || k != File {
		t.Error("unknown names are taken")
	}
	if _, err := Level(9).MarshalText(); err == nil {
		t.Error("a level that is none has a name")
	}
	if _, err := Kind(9).MarshalText(); err == nil {
		t.Error("a kind that is none has a name")
	}
}
