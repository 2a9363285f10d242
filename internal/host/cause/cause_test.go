package cause

import (
	"errors"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/rogpeppe/go-internal/txtar"

	"wolffia/internal/test/doctable"
)

// A fixture is a file of testdata: a host's files as the table reads them, an error, and what must
// be said of them. Its comment has lines KEY: VALUE. A \x00 in a file stands for that byte.
type fixture struct {
	want  map[string]string // the lines
	facts *Facts
}

func readFixture(t *testing.T, file string) fixture {
	t.Helper()
	archive, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	f := fixture{want: map[string]string{}, facts: &Facts{}}
	for line := range strings.Lines(string(archive.Comment)) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), ": "); ok && key[0] != '#' {
			f.want[key] = value
		}
	}
	files := fstest.MapFS{}
	for _, file := range archive.Files {
		text := strings.ReplaceAll(string(file.Data), `\x00`, "\x00")
		if file.Name == "error" {
			f.facts.Said = strings.TrimSpace(text)
			continue
		}
		files[file.Name] = &fstest.MapFile{Data: []byte(text), Mode: 0o644}
	}
	f.facts.Host = Read(files, false)
	f.facts.User, f.facts.Program = "ann", "/opt/my wolffia"
	f.facts.Symptom, f.facts.Dir = Symptom(f.want["symptom"]), f.want["dir"]
	if b := strings.Fields(f.want["bwrap"]); len(b) > 0 {
		f.facts.Bwrap.Path, f.facts.Bwrap.Setuid = "/usr/bin/bwrap", len(b) > 1
		for n := range strings.SplitSeq(b[0], ".") {
			i, err := strconv.Atoi(n)
			if err != nil {
				t.Fatal(err)
			}
			f.facts.Bwrap.Version = append(f.facts.Bwrap.Version, i)
		}
	}
	return f
}

// Each host is known by what was recorded of it.
func TestFixtures(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			f := readFixture(t, file)
			got, ok := Of(f.facts)
			if got.Code != f.want["code"] || ok != (f.want["code"] != "") {
				t.Fatalf("Of: got %+v, %v; want code %q", got, ok, f.want["code"])
			}
			seen[got.Code] = true
			if !strings.Contains(got.Problem, f.want["problem"]) || !strings.Contains(got.Fix, f.want["fix"]) {
				t.Errorf("Of: got %+v; want Problem contains %q and Fix contains %q", got, f.want["problem"], f.want["fix"])
			}
			if strings.ContainsAny(got.Problem, "\n") || strings.HasSuffix(got.Problem, ".") {
				t.Errorf("%q is not a sentence for the middle of a line", got.Problem)
			}
		})
	}
	codes := Codes()
	for i, code := range codes {
		if !seen[code] {
			t.Errorf("no fixture has the cause %s", code)
		}
		if code != "userns-kernel" && slices.Contains(codes[i+1:], code) {
			t.Errorf("two causes are %s", code)
		}
	}
}

// Each cause is in the documentation, with what doctor prints on the first host that a fixture has
// of it.
func TestDocumented(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	first := map[string]Cause{}
	for _, file := range files {
		if c, ok := Of(readFixture(t, file).facts); ok && first[c.Code].Code == "" {
			first[c.Code] = c
		}
	}
	table := "| code | problem, on one such host | fix |\n| --- | --- | --- |\n"
	for _, code := range slices.Sorted(maps.Keys(first)) {
		c := first[code]
		fix, _, more := strings.Cut(strings.TrimPrefix(c.Fix, "# "), "\n")
		if more {
			fix += " ..."
		}
		if fix != "" {
			fix = "`` " + fix + " ``"
		}
		table += "| `" + code + "` | " + doctable.Cell(c.Problem) + " | " + doctable.Cell(fix) + " |\n"
	}
	doctable.Check(t, "../../../docs/hosts.md", "causes", table)
}

// TestAnswers: the questions and answers have each text of bubblewrap or of wolffia's start that a
// fixture has, with the causes that it had.
func TestAnswers(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	codes := map[string][]string{}
	for _, file := range files {
		f := readFixture(t, file)
		text, _, _ := strings.Cut(f.facts.Said, "\n")
		text, _, _ = strings.Cut(text, ", likely")
		code := f.want["code"]
		if _, after, ok := strings.Cut(" "+text, " bwrap: "); ok && code != "" && !slices.Contains(codes[after], code) {
			codes[after] = append(codes[after], code)
		}
	}
	table := "| bubblewrap says | codes |\n| --- | --- |\n"
	for _, text := range slices.Sorted(maps.Keys(codes)) {
		slices.Sort(codes[text])
		table += "| " + doctable.Cell(text) + " | " + doctable.Code(codes[text], ", ") + " |\n"
	}
	doctable.Check(t, "../../../docs/faq.md", "errors", table)
}

// A fix that changes a file works as root and as a user, and no text of the host becomes a command.
func TestFixes(t *testing.T) {
	f := readFixture(t, "testdata/bwrap-setuid.txtar")
	f.facts.Bwrap.Path = "/a b/$(x)'/bwrap"
	if c, _ := Of(f.facts); c.Fix != `sudo chmod u-s '/a b/$(x)'\''/bwrap'` {
		t.Errorf("Of: got %q", c.Fix)
	}
	f.facts.Root = true
	if c, _ := Of(f.facts); !strings.HasPrefix(c.Fix, "chmod ") {
		t.Errorf("Of: got %q; want no sudo for root", c.Fix)
	}
	f.facts.User = "a; rm" // and not a name
	if got := f.facts.Name(); got != "$USER" {
		t.Errorf("Name: got %q", got)
	}
	f = readFixture(t, "testdata/ubuntu-start.txtar")
	if c, _ := Of(f.facts); !strings.Contains(c.Fix, "profile wolffia-local \"/opt/my wolffia\" flags=(unconfined) {\n  userns,") {
		t.Errorf("Of: got %q", c.Fix)
	}
	f.facts.Program = "/usr/bin/wolffia"
	if c, _ := Of(f.facts); !strings.Contains(c.Fix, "tee /etc/apparmor.d/wolffia >") {
		t.Errorf("Of: got %q; want the package's profile", c.Fix)
	}
	for fix, want := range map[string]bool{
		"": false, "# for a person": false, " \n# a\n": false, "# first\nsudo true": true, "true": true,
	} {
		if Runnable(fix) != want {
			t.Errorf("Runnable(%q): got %v", fix, !want)
		}
	}
}

// An error with a cause keeps its class, names the code and the fix, and is explained once.
func TestError(t *testing.T) {
	inner := errors.New("it failed" + advice)
	err := error(&Error{Cause{"some-code", "the sentence", "a fix"}, inner})
	if got := err.Error(); got != "it failed\nsome-code: the sentence\nfix: a fix" {
		t.Errorf("Error: got %q", got)
	}
	if got := (&Error{Cause{Fix: "# for you\n# both"}, inner}).Error(); !strings.HasSuffix(got, "\nfix: for you\nboth") {
		t.Errorf("Error: got %q; want no marks of comments", got)
	}
	if !errors.Is(err, inner) || Explain("", err) != err {
		t.Error("the error is lost, or has two causes")
	}
	if odd := fs.ErrClosed; Explain("", odd) != odd {
		t.Error("an error without a known cause is changed")
	}
	if Explain(Full, nil) != nil {
		t.Error("no error has a cause")
	}
}

// The host of the test can be read, and its own directories are on mounts.
func TestThis(t *testing.T) {
	h := This()
	if h.Release == "" || h.Program == "" || !h.UserNS || h.Mounts.at("/").point != "/" || h.Mounts.proc().point != "/proc" {
		t.Errorf("This: got %+v", h)
	}
}

func TestFamily(t *testing.T) {
	for text, want := range map[string]string{
		"ID=debian\nVERSION_ID=\"12\"\n":                 "debian",
		"NAME=x\nID=ubuntu\nID_LIKE=debian\n":            "debian",
		"ID=linuxmint\nID_LIKE=\"ubuntu debian\"\n":      "debian",
		"ID=\"rocky\"\nID_LIKE=\"rhel centos fedora\"\n": "fedora",
		"ID=alpine":                "alpine",
		"ID=manjaro\nID_LIKE=arch": "arch",
		"ID=\"opensuse-leap\"\nID_LIKE=\"suse opensuse\"\n": "suse",
		"ID=nixos\n": "",
		"":           "",
		"ID_LIKE='fedora'\nID='amzn'\n# ID=debian\nXID=arch": "fedora",
	} {
		if got := family(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
