package policy

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"wolffia/internal/test/suite"
	"wolffia/perm"
	"wolffia/runtime"
)

var git = suite.Git

// write writes files: pairs of a name below dir and a text.
func write(t testing.TB, dir string, files ...string) {
	t.Helper()
	for i := 0; i < len(files); i += 2 {
		path := filepath.Join(dir, files[i])
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(files[i+1]), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// commit makes a repository at dir with these files, all tracked.
func commit(t testing.TB, dir string, files ...string) {
	t.Helper()
	write(t, dir, files...)
	git(t, dir, "init", "-q")
	git(t, dir, "add", "-f", ".")
	git(t, dir, "commit", "-q", "-m", "x")
}

// A place is a codebase and a state directory.
type place struct {
	testing.TB
	root, state string
	o           Options
}

func newPlace(t testing.TB) *place {
	return &place{TB: t, root: t.TempDir(), state: filepath.Join(t.TempDir(), "state")}
}

func (p *place) rules() *Policy {
	p.Helper()
	o := p.o
	o.StateDir = p.state
	made, err := For(p.Context(), p.root, &o)
	if err != nil {
		p.Fatal(err)
	}
	return made
}

// levels checks the levels of files: "name level ...".
func (p *place) levels(want string) *Policy {
	p.Helper()
	made := p.rules()
	compiled, err := perm.Compile(made.Rules)
	if err != nil {
		p.Fatal(err)
	}
	for f := strings.Fields(want); len(f) > 0; f = f[2:] {
		if got := compiled.Level(f[0], false); got.String() != f[1] {
			p.Errorf("%s is %v, want %s\n%v", f[0], got, f[1], compiled.Explain(f[0], false))
		}
	}
	return made
}

// TestTracked: a tracked file that a secret pattern hides is shown if git has
// its bytes, and is at view if not; what is not tracked stays hidden.
func TestTracked(t *testing.T) {
	for _, format := range []string{"sha1", "sha256"} {
		for _, packed := range []bool{false, true} {
			t.Run(fmt.Sprint(format, " packed ", packed), func(t *testing.T) {
				p := newPlace(t)
				git(t, p.root, "init", "-q", "--object-format="+format)
				commit(t, p.root, ".env", "A=1\n", ".env.test", "B=1\n", "config/secrets/db.yaml", "x\n", "secrets/deep/a.txt", "y", ".private/deep/note", "z", "server.key", "k\n", "empty.key", "", "a.txt", "a")
				if packed {
					git(t, p.root, "gc", "-q", "--prune=now")
				}
				write(t, p.root, ".env.test", "REAL=1\n", ".env.local", "C=1\n", "secrets/deep/b.txt", "z\n")
				made := p.levels(".env write .env.test view config/secrets/db.yaml write secrets/deep/a.txt write .private/deep/note write .private/other none server.key write empty.key write a.txt write " +
					".env.local none secrets/deep/b.txt none other.key none")
				var got []string
				for _, f := range made.Findings {
					got = append(got, fmt.Sprint(f.Path, " ", f.Kind, " ", f.Level))
				}
				if want := []string{".env 0 write", ".private/deep/note 0 write", "config/secrets/db.yaml 0 write", "empty.key 0 write", "secrets/deep/a.txt 0 write", "server.key 0 write", ".env.test 1 view"}; !slices.Equal(got, want) {
					t.Errorf("findings %q, want %q", got, want)
				}
				notes := strings.Join(made.Notes(), "\n")
				for _, text := range []string{"--reveal '/.env=none'", "--reveal '/.env.test=write'"} {
					if !strings.Contains(notes, text) {
						t.Errorf("no %s in %s", text, notes)
					}
				}
			})
		}
	}
}

// TestTrackedConverted: what git would have to convert is not compared.
func TestTrackedConverted(t *testing.T) {
	p := newPlace(t)
	write(t, p.root, ".gitattributes", "*.key text eol=crlf\n")
	commit(t, p.root, "a.key", "one\r\ntwo\r\n")
	p.levels("a.key view")
}

// TestTrackedLink: a link is compared by where it points.
func TestTrackedLink(t *testing.T) {
	p := newPlace(t)
	if err := os.Symlink("elsewhere", filepath.Join(p.root, ".env")); err != nil {
		t.Fatal(err)
	}
	commit(t, p.root, "a", "")
	p.levels(".env write")
	if err := os.Remove(filepath.Join(p.root, ".env")); err != nil {
		t.Fatal(err)
	}
	write(t, p.root, ".env", "elsewhere") // the same bytes in something else
	p.levels(".env view")
}

// TestTrackedKeepsOtherRules: what a rule by hand says is what holds, and other
// presets give what they give.
func TestTrackedKeepsOtherRules(t *testing.T) {
	p := newPlace(t)
	commit(t, p.root, ".env", "A=1\n", "b.key", "k\n", "sub/c.key", "k\n", "policy.yaml", `version: 1
extends: agent-safe
rules:
  - sub/=none
  - pattern: b.key
    level: none
    priority: 1000
`)
	rule := func(s string) []perm.Rule {
		r, err := perm.ParseRule(s)
		if err != nil {
			t.Fatal(err)
		}
		return []perm.Rule{r}
	}
	p.o = Options{Rules: rule("*.key=none")}
	p.levels(".env write b.key none sub/c.key none")
	p.o = Options{Rules: rule("*.key=read")}
	p.levels("b.key read sub/c.key read")
	p.o = Options{Reveals: rule("/.env=none")}
	p.levels(".env none b.key write")
	p.o = Options{Reveals: rule(".env=view")}
	p.levels(".env view")
	p.o = Options{File: filepath.Join(p.root, "policy.yaml")}
	p.levels(".env write b.key none sub/c.key none")
	p.o = Options{Preset: "read-only"}
	p.levels(".env read b.key read")
	p.o = Options{Preset: "view-only"} // git's objects cannot be read either
	p.levels(".env none")
	p.o = Options{Preset: "full-access"}
	if made := p.levels(".env write"); len(made.Findings) > 0 {
		t.Errorf(`levels ".env write": got made.Findings %+v; want len(made.Findings) <= 0`, made.Findings)
	}
	p.o = Options{Rules: rule("/.git/=none")} // so git does not work in there
	p.levels(".env none")
	p.o = Options{Rules: rule("/.git/objects/=none")} // the sandbox has a copy
	p.levels(".env write")
}

// TestTrackedSettings: of settings that git tracks, only those with what may be a credential are
// warned of; none is once a rule of the user's names it.
func TestTrackedSettings(t *testing.T) {
	p := newPlace(t)
	commit(t, p.root, ".npmrc", "save-exact=true\n", "sub/.npmrc", "//registry.example/:_authToken=x\n", ".env.test", "A=1\n")
	notes := strings.Join(p.levels(".npmrc write sub/.npmrc write .env.test write").Notes(), "\n")
	if !strings.Contains(notes, "objects: .env.test, sub/.npmrc; to hide one") {
		t.Errorf("notes: %s", notes)
	}
	for _, rule := range []string{"/.env.test=read", "/sub/.npmrc=read"} {
		r, err := perm.ParseRule(rule)
		if err != nil {
			t.Fatal(err)
		}
		p.o.Reveals = append(p.o.Reveals, r)
	}
	if notes := p.levels(".npmrc write sub/.npmrc read .env.test read").Notes(); len(notes) > 0 {
		t.Errorf("notes after they are revealed: %s", notes)
	}
}

// TestTrackedLater: what git tracks counts at once, and no longer than it is tracked.
func TestTrackedLater(t *testing.T) {
	p := newPlace(t)
	commit(t, p.root, "a", "")
	write(t, p.root, ".env.test", "A=1\n", "b.key", "k\n")
	p.levels(".env.test none b.key none")
	git(t, p.root, "add", "-f", ".env.test", "b.key")
	write(t, p.root, "b.key", "other\n")
	p.levels(".env.test write b.key view")
	git(t, p.root, "rm", "-q", "--cached", "-f", ".env.test")
	p.levels(".env.test none")
}

// TestTrackedConflict: a file whose merge is not resolved exists, with git's messages about it.
func TestTrackedConflict(t *testing.T) {
	p := newPlace(t)
	commit(t, p.root, ".env", "A=1\n")
	for _, branch := range []string{"a", "b"} {
		git(t, p.root, "checkout", "-q", "-b", branch, "main")
		write(t, p.root, ".env", branch)
		git(t, p.root, "commit", "-q", "-a", "-m", branch)
	}
	p.levels(".env write")
	git(t, p.root, "read-tree", "-m", "main", "b", "a")
	p.levels(".env view")
}

// TestTrackedWhere: working trees and submodules count wherever their git directories are, since a
// sandbox has copies; in place only those that can be seen inside do. A part of a working tree
// does not.
func TestTrackedWhere(t *testing.T) {
	p := newPlace(t)
	dir := p.root
	commit(t, dir+"/main", ".env", "A=1\n", "sub/b.key", "k\n")
	git(t, dir+"/main", "worktree", "add", "-q", "../tree")
	commit(t, dir+"/top", "c.key", "k\n")
	git(t, dir+"/top", "-c", "advice.addEmbeddedRepo=false", "submodule", "-q", "add", dir+"/main", "mod")
	git(t, dir+"/top", "clone", "-q", dir+"/main", "nested")
	p.levels("main/.env write main/sub/b.key write tree/.env write top/c.key write top/mod/.env write top/nested/.env write")
	p.root = dir + "/top"
	p.levels("c.key write mod/.env write nested/.env write")
	p.root = dir + "/tree"
	p.levels(".env write .git write")
	p.o.GitInPlace = true
	p.levels(".env none .git read") // git does not find its directory in there
	p.root = dir + "/main"
	p.levels(".env write .git/config read")
	p.root, p.o = dir+"/main/sub", Options{}
	p.levels("b.key none")
}

// TestDamaged: a note reports an index that cannot be read.
func TestDamaged(t *testing.T) {
	p := newPlace(t)
	commit(t, p.root, ".env", "A=1\n")
	write(t, p.root, ".env", "B=1\n")
	p.levels(".env view")
	index := filepath.Join(p.root, ".git/index")
	good, err := os.ReadFile(index)
	if err != nil {
		t.Fatal(err)
	}
	write(t, p.root, ".git/index", "nonsense")
	if made := p.levels(".env none"); !slices.Equal(made.Unread, []string{"."}) || len(made.Notes()) != 1 {
		t.Errorf(`levels ".env none": got made %+v; want made.Unread == []string{"."} and len(made.Notes()) == 1`, made)
	}
	write(t, p.root, ".git/index", string(good))
	p.levels(".env view")
}

// TestGuard: what git on the host would execute outside of a .git is at most read, and in place a
// .git is too.
func TestGuard(t *testing.T) {
	p := newPlace(t)
	commit(t, p.root, "a", "", "fixtures/no.git/x", "", "tests/no.git/x", "")
	commit(t, p.root+"/vendor/x", "a", "")
	git(t, p.root, "config", "core.hooksPath", "tools/hooks")
	git(t, p.root, "config", "remote.o.url", "https://u:pw@example.invalid/")
	git(t, p.root, "init", "-q", "--bare", "deploy")
	git(t, p.root, "init", "-q", "--bare", "sub/x.git")
	git(t, p.root, "init", "-q", "--bare", "sub/no.git")
	made := p.levels(".git write .git/config write vendor/x/.git/config write tools/hooks/x read new/.git/config write " +
		"deploy/HEAD read deploy/new read sub/x.git/config read new/y.git/config read fixtures/no.git/x write tests/no.git/new write sub/no.git/hooks/x read")
	if !slices.Equal(made.Credentials, []string{"remote.o.url in .git/config"}) {
		t.Errorf(`levels: got %q, want []string{"remote.o.url in .git/config"}`, made.Credentials)
	}
	if notes := strings.Join(made.Notes(), "\n"); !strings.Contains(notes, "--git-credentials") || strings.Contains(notes, "can be read inside") {
		t.Error(notes)
	}
	p.o.GitInPlace = true
	made = p.levels(".git/config read vendor/x/.git read new/.git/config read a write tools/hooks/x read .git/git-crypt/keys/default none")
	if notes := strings.Join(made.Notes(), "\n"); !strings.Contains(notes, "can be read inside: remote.o.url") {
		t.Error(notes)
	}
	c, err := ChoiceOf(made.Rules)
	if err != nil {
		t.Fatal(err)
	}
	p.o = Options{Choice: c}
	p.levels(".git/config read")
	p.o = Options{GitInPlace: true, Reveals: []perm.Rule{{Pattern: "/.git/config", Level: perm.Write}}}
	if notes := strings.Join(p.levels(".git/config write .git/hooks/x write").Notes(), "\n"); !strings.Contains(notes, "the host's own .git") {
		t.Error(notes)
	}
	p.o = Options{Preset: "full-access", GitInPlace: true}
	if notes := strings.Join(p.levels(".git/config write deploy/config write").Notes(), "\n"); !strings.Contains(notes, "the host's own .git") {
		t.Error(notes)
	}
}

// TestNoScan: rules that were not made for a codebase guard what a bare repository may be.
func TestNoScan(t *testing.T) {
	for _, preset := range perm.Presets() {
		rules, err := perm.Assemble(&perm.Request{Preset: preset.Name})
		if err != nil {
			t.Fatal(err)
		}
		for _, rules := range [][]perm.Rule{rules, preset.Rules} {
			p, err := perm.Compile(rules)
			if err != nil {
				t.Fatal(err)
			}
			if got := p.Level("a/x.git/config", false); preset.Git && got > perm.Read || !preset.Git && got != perm.Write {
				t.Errorf("%s: got %v; want (not preset.Git or got <= perm.Read) and (preset.Git or got == perm.Write)", preset.Name, got)
			}
		}
	}
}

// TestSealed: a note reports a codebase that cannot be written any more.
func TestSealed(t *testing.T) {
	p := &Policy{Sealed: []string{"a", "b"}}
	if notes := p.Notes(); len(notes) != 1 || !strings.Contains(notes[0], "a, b") {
		t.Errorf(`Notes: got notes %q; want len(notes) == 1 and notes[0] contains "a, b"`, notes)
	}
	for i := range 2000 {
		p.Sealed = append(p.Sealed, fmt.Sprint("d", i))
	}
	if notes := p.Notes(); len(notes) != 2 || !strings.Contains(notes[0], "and 1997 more") {
		t.Errorf(`Notes: got notes %q; want len(notes) == 2 and notes[0] contains "and 1997 more"`, notes)
	}
}

func TestErrors(t *testing.T) {
	p := newPlace(t)
	write(t, p.root, "bad.yaml", "version: 2\n", "file", "")
	for _, tt := range []struct {
		codebase string
		o        Options
		class    error
	}{
		{"none", Options{}, runtime.ErrInvalid},
		{"file", Options{}, runtime.ErrInvalid},
		{".", Options{Preset: "x"}, runtime.ErrInvalid},
		{".", Options{File: "bad.yaml"}, runtime.ErrInvalid},
		{".", Options{File: "none.yaml"}, runtime.ErrInvalid},
		{".", Options{Rules: []perm.Rule{{Pattern: "a//b"}}}, runtime.ErrInvalid},
		{".", Options{StateDir: "file/x"}, runtime.ErrUnavailable},
	} {
		tt.o.File = pathOf(p.root, tt.o.File)
		tt.o.StateDir = filepath.Join(p.root, tt.o.StateDir)
		if _, err := For(t.Context(), filepath.Join(p.root, tt.codebase), &tt.o); !errors.Is(err, tt.class) {
			t.Errorf("For: got tt %+v, err %v; want err is %v", tt, err, tt.class)
		}
	}
}

func pathOf(dir, name string) string {
	if name == "" {
		return ""
	}
	return filepath.Join(dir, name)
}

// TestSettings: settings without credentials can be read, and no others.
func TestSettings(t *testing.T) {
	p := newPlace(t)
	write(t, p.root, ".npmrc", "save-exact=true\nregistry=https://registry.example.invalid/\n//registry.example.invalid/:_authToken=${NPM_TOKEN}\nalways-auth=true\n",
		"a/.npmrc", "//registry.example.invalid/:_authToken=npm_0123456789\n", "b/NuGet.Config", "<configuration/>\n",
		"c/pip.conf", "[global]\nindex-url = https://u:p@example.invalid/simple\n", "node_modules/x/.npmrc", "_auth=x\n", ".envrc", "use nix\n")
	if err := os.Symlink("../.npmrc", filepath.Join(p.root, "b/.npmrc")); err != nil {
		t.Fatal(err)
	}
	p.levels(".npmrc read a/.npmrc none b/NuGet.Config read c/pip.conf none node_modules/x/.npmrc write b/.npmrc none new/.npmrc none .envrc none")
	p.o.Preset = "view-only"
	p.levels(".npmrc view a/.npmrc none")
	p.o.Preset = "development"
	p.levels(".npmrc read a/.npmrc read")
	p.o = Options{Rules: []perm.Rule{{Pattern: ".npmrc", Level: perm.None}}}
	p.levels(".npmrc none")
}

func TestPlain(t *testing.T) {
	for text, want := range map[string]bool{
		"":                                true,
		"save-exact=true\n":               true,
		"# a comment\nengine-strict=true": true,
		"registry=https://registry.example.invalid/path\n": true,
		"always-auth=true\n":                                  true,
		"//r.example.invalid/:_authToken=${NPM_TOKEN}\n":      true,
		"//r.example.invalid:8080/:_authToken=\"${TOKEN}\"\n": true,
		"//r.example.invalid/:_authToken=abc\n":               false,
		"//r.example.invalid/:_authToken=${A}abc\n":           false,
		"_authToken:abc=true":                                 false,
		"_authToken=abc=true":                                 false,
		"_authToken=abc:":                                     false,
		"//r.example.invalid/:_authToken=abc=":                false,
		"token: abc=true":                                     false,
		"_auth=YTpi":                                          false,
		"_password = x":                                       false,
		"; _authToken=old":                                    false,
		"registry=https://u:p@example.invalid/":               false,
		"registry=https://t@example.invalid/":                 false,
		"email=${X}\nkeyfile=/home/ann/key.pem":               false,
		`{"mcpServers": {"x": {"command": "x"}}}`:             true,
		"{\n\"env\": {\n\"API_KEY\": \"${API_KEY}\"\n}\n}":    true,
		"{\n\"API_KEY\": \"abc\"\n}":                          false,
		"api-key: sk-abc":                                     false,
		"x=0123456789abcdef0123456789abcdef":                  false,
		"x=\x00":                                              false,
		"x=\xff":                                              false,
		"sdk.dir=/home/ann/sdk":                               true,
		"MAPS_API_KEY=abc":                                    false,
		"-----BEGIN X":                                        false,
	} {
		if got := plain([]byte(text)); got != want {
			t.Errorf("%q: got %v, want %v", text, got, want)
		}
	}
	if plain(nil) {
		t.Error("what is too long is plain")
	}
}
