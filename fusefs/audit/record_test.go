package audit

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"wolffia/perm"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// hostile are names that a sandbox may choose.
var hostile = []string{
	"a", ".", "a b", "\x1b[2J\x1b]0;title\x07", "\xff\xfe", "a\nb", "\u009b31m", "\u202egnp.exe", "\u2028", `"`, `\`, `\x41`,
	"<script>", "\x7f", "\U000e0001", "é", "日本", "\ufffd", strings.Repeat("\xff", maxPath), strings.Repeat("\x01", maxPath),
}

func denialOf(path string) Record {
	return Record{Time: noon, Count: 1, Op: "read", Path: path, Level: perm.View, Need: perm.Read, Errno: "EACCES", PID: 7, Command: path[:min(len(path), 15)], UID: 1000}
}

// Whatever a path is, it can be had again, and nothing of it gets through to a
// terminal.
func TestHostileNames(t *testing.T) {
	for _, path := range hostile {
		r := denialOf(path)
		r.Command = strings.ToValidUTF8(r.Command, "\ufffd")
		r.Rule = &perm.Rule{Pattern: "**", Level: perm.View, Source: path}
		r.Remedy = path
		if !utf8.ValidString(path) {
			r.Rule.Source, r.Remedy = "", ""
		}
		line := r.Append(nil)
		for _, c := range string(line) + r.Text(time.UTC, "") {
			if !strconv.IsPrint(c) {
				t.Errorf("%q: %q is printed as it is", path, c)
			}
		}
		if len(line) >= maxLine {
			t.Errorf("%q: a line of %d bytes", path[:10], len(line))
		}
		got, err := Parse(line)
		if err != nil {
			t.Errorf("%q: %v", path, err)
		} else if diff := cmp.Diff(r, got); diff != "" {
			t.Errorf(`%q: got %s, want ""`, path, diff)
		}
		if !json.Valid(line) {
			t.Errorf("%q: no JSON: %s", path, line)
		}
	}
}

// The JSON of a line is an interface: docs/cli.md.
func TestForm(t *testing.T) {
	r := denialOf("a\xffb")
	r.Rule = &perm.Rule{Pattern: "**", Level: perm.View, Source: "--rule"}
	r.Remedy = `--rule '/a\xffb=read'`
	want := `{"time":"2026-03-01T12:00:00Z","count":1,"op":"read","path":"a\ufffdb","pathBytes":"Yf9i","level":"view","need":"read","errno":"EACCES",` +
		`"rule":{"pattern":"**","level":"view","source":"--rule"},"remedy":"--rule '/a\\xffb=read'","pid":7,"command":"a` + "\ufffd" + `b","uid":1000}`
	r.Command = "a\ufffdb"
	if got := string(r.Append(nil)); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	dropped := Record{Time: noon, Since: noon.Add(-time.Second), Dropped: 3}
	if got, want := string(dropped.Append(nil)), `{"time":"2026-03-01T12:00:00Z","since":"2026-03-01T11:59:59Z","dropped":3}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestText(t *testing.T) {
	rule := &perm.Rule{Pattern: ".env", Source: "preset agent-safe"}
	for _, tt := range []struct {
		r    Record
		want string
	}{
		{
			Record{Op: "lookup", Path: "x/.env", Need: perm.View, Errno: "ENOENT", Rule: rule, Remedy: "--reveal '/x/.env=view'", Command: "cat", PID: 9, Count: 1},
			`2026-03-01 12:00:00  lookup    x/.env                    ENOENT: needs view, has none, by ".env=none" of preset agent-safe; to allow it: --reveal '/x/.env=view' (cat, pid 9)`,
		},
		{
			Record{Op: "write", Path: "a\x1b[2J b", Level: perm.Read, Need: perm.Write, Errno: "EACCES", Since: noon, Count: 10},
			`2026-03-01 12:00:00  write     "a\x1b[2J b"              EACCES: needs write, has read, no rule matches (10 times more)`,
		},
		{
			Record{Op: "mknod", Path: "disk", Level: perm.Write, Need: perm.Write, Errno: "EPERM", Count: 1},
			`2026-03-01 12:00:00  mknod     disk                      EPERM: this kind of object is refused`,
		},
		{
			Record{Op: "read", Path: "long", Cut: true, Need: perm.Read, Errno: "EACCES", Problem: "too long", Count: 1},
			`2026-03-01 12:00:00  read      long...                   EACCES: needs read, has none, too long`,
		},
		{Record{Dropped: 5}, `2026-03-01 12:00:00  5 more denials have no line of their own`},
	} {
		tt.r.Time = noon
		if got := tt.r.Text(time.UTC, ""); got != tt.want {
			t.Errorf("got  %s\nwant %s", got, tt.want)
		}
	}
}

// The rule that is named is the one that gave the level.
func TestExplain(t *testing.T) {
	rules, err := perm.Compile([]perm.Rule{
		{Pattern: "**", Level: perm.Read, Source: "base"},
		{Pattern: "out/", Level: perm.View, Source: "dirs"},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		path       string
		level      perm.Level
		cut        bool
		source     string
		withRemedy bool
	}{
		{"a", perm.Read, false, "base", true},
		{"out", perm.View, false, "dirs", true}, // a directory
		{"out", perm.Read, false, "base", true}, // a file
		{"out", perm.None, false, "", false},    // by rules that are no more
		{"out", perm.View, true, "", false},
		{strings.Repeat("a/", maxDepth) + "a", perm.Read, false, "", false},
	} {
		r := Record{Path: tt.path, Level: tt.level, Need: perm.Write, Cut: tt.cut}
		r.Explain(rules)
		source := ""
		if r.Rule != nil {
			source = r.Rule.Source
		}
		if (r.Problem != "") != (tt.source == "") || source != tt.source || (r.Remedy != "") != tt.withRemedy {
			t.Errorf("%+v: rule of %q, remedy %q", tt, source, r.Remedy)
		}
	}
}

// Parse takes what Append makes, and nothing that would then be made
// differently.
func FuzzParse(f *testing.F) {
	for _, path := range hostile {
		r := denialOf(path)
		f.Add(r.Append(nil))
	}
	f.Add((&Record{Time: noon, Dropped: 1}).Append(nil))
	f.Add([]byte(`{"time":"2026-03-01T12:00:00Z","op":"x","level":"nonsense"}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := Parse(text)
		if err != nil {
			return
		}
		line := r.Append(nil)
		if bytes.ContainsAny(line, "\n\r\x1b") || !json.Valid(line) {
			t.Fatalf("%q becomes %q", text, line)
		}
		_ = r.Text(time.UTC, "")
		again, err := Parse(line)
		if err != nil {
			t.Fatalf("%q becomes %q: %v", text, line, err)
		}
		if twice := again.Append(nil); !bytes.Equal(twice, line) {
			t.Fatalf("%q, then %q", line, twice)
		}
	})
}
