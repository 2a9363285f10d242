package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"wolffia/fields"
	"wolffia/perm/plainyaml"
)

// testKeys has the keys of the table of settings, and some that it does not have.
func testKeys() []fields.Field {
	field := func(name string, kind fields.Kind) fields.Field {
		return fields.Field{Name: name, Key: name, Kind: kind}
	}
	return append(fields.Keys(), field("new-flag", fields.Text), field("new-list", fields.List), field("truth", fields.Truth), field("whole", fields.Whole))
}

func parse(t *testing.T, project bool, text string) *File {
	t.Helper()
	at := Place{Name: "user", Dir: "/home/ann/.config/wolffia", Home: "/home/ann"}
	if project {
		at = Place{Name: "project", Dir: "/src", Home: "/home/ann", Project: true}
	}
	f, err := Parse(testKeys(), at, []byte(text))
	if err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	return f
}

// merge merges two files; an empty text is no file.
func merge(t *testing.T, user, project string, profile *string) ([]Setting, error) {
	t.Helper()
	r := &Request{Keys: testKeys(), UserName: "user", Profile: profile}
	r.Builtin = Builtin()
	if user != "" {
		r.User = parse(t, false, user)
	}
	if project != "" {
		r.Project = parse(t, true, project)
	}
	return Merge(r)
}

// TestBindings has rows for each key: what a project's file may say beside the user's.
func TestBindings(t *testing.T) {
	const ok = ""
	seen := map[string]bool{}
	for _, tt := range []struct{ key, user, project, want string }{
		{"codebase", "", "codebase: /x", "cannot be in a project's file"},
		{"cwd", "cwd: /a", "cwd: /b", ok},
		{"mirrors", "", "mirrors: {npm: a.example}", "it names hosts that your lists then allow"},
		{"allow-host", "", "allow-host: [a.example@private]", "may not lead names to private addresses"},
		{"allow-host", "allow-host: [a.example@private]", "allow-host: [a.example@private]", ok},
		{"mount-point", "mount-point: /a", "mount-point: /b", ok},
		{"name", "name: a", "name: b", ok},
		{"label", "label: {a: 1}", "label: {a: 2}", ok},
		{"env", "env: {A: 1}", "env: {A: 2}", ok},
		{"env", "", "env: [PATH]", "variable \"PATH\" of the host"},
		{"env", "", "env: {PATH: }", "variable \"PATH\" of the host"},
		{"env", "env: [PATH]", "env: [PATH]", ok},
		{"env", "env: [HOME]", "env: [PATH]", "variable \"PATH\" of the host"},
		{"rules", "rules: [a=none]", "rules: [a=write]", ok}, // perm decides
		{"reveal", "reveal: [a=none]", "reveal: [a=write]", ok},
		{"preset", "", "preset: read-only", ok},
		{"preset", "", "preset: development", "development gives more than agent-safe"},
		{"preset", "", "preset: full-access", "full-access gives more than agent-safe"},
		{"preset", "preset: full-access", "preset: development", ok},
		{"preset", "preset: view-only", "preset: read-only", "read-only gives more than view-only of user:1"},
		{"preset", "policy: p", "preset: read-only", "user:1 names a policy file, which decides"},
		{"network", "", "network: host", ok},
		{"network", "network: none", "network: host", "host gives more than none of user:1"},
		{"network", "network: host", "network: none", ok},
		{"network", "", "network: filtered", ok},
		{"network", "network: none", "network: filtered", "filtered gives more than none of user:1"},
		{"network", "network: host", "network: filtered", ok},
		{"network", "allow-host: [a.example]", "network: host", "host gives more than filtered of user:1"},
		{"network", "allow-host: [a.example]", "network: none", ok},
		{"allow-host", "", "allow-host: [a.example]", ok},
		{"allow-host", "network: host", "allow-host: [a.example]", ok},
		{"allow-host", "network: none", "allow-host: [a.example]", "allow-host: \"a.example\" gives more than the network of user:1"},
		{"allow-host", "network: filtered", "allow-host: [a.example]", "gives more than the network of user:1"},
		{"allow-host", "allow-host: [b.example]", "allow-host: [b.example, a.example]", "\"a.example\" gives more than the network of user:1"},
		{"allow-host", "allow-host: [b.example, a.example]", "allow-host: [a.example]", ok},
		{"allow-host", "network: none\nallow-host: [a.example]", "allow-host: [a.example]", "gives more"},
		{"allow-host", "network: none\nallow: [allow-host]", "allow-host: [a.example]", ok},
		{"allow-host", "network: none", "profile: p\nprofiles: {p: {allow-host: [a.example]}}", "gives more than the network"},
		{"add-host", "", "add-host: [\"a.example:127.0.0.1\"]", "add-host: a project's file may not set it, since the address may be a service of this host"},
		{"no-sni-check", "", "no-sni-check: [a.example]", "may not set it"},
		{"header", "", "header: [\"a.example:Authorization=@token\"]", "may not set it, since it reads a file of yours"},
		{"upstream-proxy", "", "upstream-proxy: \"http://a.example:3128\"", "may not set it, since the proxy decides where connections go"},
		{"runtime", "", "runtime: gvisor", ok},
		{"runtime", "", "runtime: docker", "docker gives more than bwrap"},
		{"runtime", "runtime: gvisor", "runtime: bwrap", "bwrap gives more than gvisor of user:1"},
		{"runtime", "runtime: docker", "runtime: bwrap", ok},
		{"limits", "", "limits: best-effort", "best-effort gives more than strict"},
		{"limits", "limits: best-effort", "limits: best-effort", ok},
		{"filter", "", "filter: fuse", ok},
		{"filter", "", "filter: static", "static gives more than auto"},
		{"filter", "filter: fuse", "filter: auto", "auto gives more than fuse of user:1"},
		{"cow", "", "cow: true", ok},
		{"cow", "cow: true", "cow: false", "false gives more than true of user:1"},
		{"platform", "", "platform: kvm", ok},
		{"platform", "platform: systrap", "platform: kvm", `"kvm" is not "systrap" of user:1`},
		{"kube-guest", "", "kube-guest: a", "its program watches"},
		{"kube-context", "", "kube-context: a", "with your rights"},
		{"kube-namespace", "", "kube-namespace: a", "your rights, quotas"},
		{"kube-runtime-class", "", "kube-runtime-class: a", "how the pod is isolated"},
		{"image", "", "image: a", ok},
		{"image", "image: b", "image: a", `"a" is not "b" of user:1`},
		{"toolchains", "toolchains: none", "toolchains: auto", `"auto" is not "none" of user:1`},
		{"cache", "cache: [go]", "cache: [go, npm]", `"go,npm" is not "go" of user:1`},
		{"cache", "", "cache: [go]", ok},
		{"cache", "", "cache: ['go:shared']", "other projects use a shared cache"},
		{"memory", "", "memory: 9", ok},
		{"memory", "memory: 8", "memory: 8", ok},
		{"memory", "memory: 8", "memory: 9", "9 is more than 8 of user:1"},
		{"cpus", "cpus: 1", "cpus: 2", "2 is more than 1"},
		{"cpus", "cpus: 1", "cpus: 1000.5", "1000.5 is more than 1"},
		{"pids", "pids: 1", "pids: 2", "2 is more than 1"},
		{"disk", "disk: 1", "disk: 2", "2 is more than 1"},
		{"ttl", "ttl: 1", "ttl: 2", "2 is more than 1"},
		{"idle-timeout", "idle-timeout: 1", "idle-timeout: 2", "2 is more than 1"},
		{"idle-action", "idle-timeout: 1\nidle-action: stop", "idle-action: hibernate", "hibernate gives more than stop"},
		{"timeout", "timeout: 1", "timeout: 2", "2 is more than 1"},
		{"mount", "", "mount: [/etc]", "may not set it, since it shows a directory without rules"},
		{"mount", "mount: [/etc]", "mount: [/etc]", "may not set it"},
		{"mount", "allow: [mount]", "mount: [/etc]", ok},
		{"rootfs", "", "rootfs: r", "may not set it"},
		{"root", "", "root: true", "may not set it, since programs would be root inside"},
		{"policy", "", "policy: p", "may not set it"},
		{"owner", "", "owner: a/b/c", "may not set it"},
		{"audit", "", "audit: a", "may not set it, since the file is overwritten"},
		{"home", "", "home: a", "may not set it"},
		{"volume", "", "volume: [a:/b]", "may not set it"},
		{"worktree", "", "worktree: b", "may not set it, since it makes branches"},
		{"publish", "", "publish: ['1:2']", "may not set it, since other programs would take the project's server for one of this host"},
		{"publish", "publish: ['1:2']", "publish: ['1:2']", "may not set it"},
		{"publish", "allow: [publish]", "publish: ['1:2']", ok},
		{"expose", "", "expose: ['5432']", "may not set it, since a service of this host may trust"},
		{"socket", "", "socket: [/x]", "may not set it, since the program behind it acts for you"},
		{"socket-force", "socket-force: true", "socket-force: true", "may not set it, since the sandbox could control this host"},
		{"git-credentials", "git-credentials: true", "git-credentials: true", "may not set it, since the sandbox could use your passwords"},
		{"new-flag", "", "new-flag: 1", "not known to be harmless"},
		{"new-flag", "new-flag: 1", "new-flag: 1", "not known to be harmless"},
		{"new-flag", "allow: [new-flag]", "new-flag: 1", ok},
		{"network", "network: none\nallow: [network]", "network: host", ok},
		// The user's default profile counts as the user's, and the project's as the project's.
		{"network", "profile: p\nprofiles: {p: {network: none}}", "network: host", "host gives more than none of user:2, profile p"},
		{"network", "network: none", "profile: p\nprofiles: {p: {network: host}}", "project:2, profile p: network: host gives more"},
		{"network", "network: none", "profile: agent", "built-in profile agent: network: host gives more"},
		{"mount", "profiles: {p: {mount: [/x]}}", "profile: p", "user:1, profile p: mount: a project's file may not set it"},
		{"codebase", "profiles: {p: {codebase: /x}}", "profile: p", "may not set it"},
	} {
		seen[tt.key] = true
		var err error
		if known(testKeys(), tt.key).Bound.How == fields.Never && tt.user == "" {
			_, err = Parse(testKeys(), Place{Name: "project", Project: true}, []byte(tt.project))
		} else {
			_, err = merge(t, tt.user, tt.project, nil)
		}
		switch {
		case tt.want == ok && err != nil, tt.want != ok && (err == nil || !strings.Contains(err.Error(), tt.want)):
			t.Errorf("user %q, project %q: %v, want %q", tt.user, tt.project, err, tt.want)
		}
	}
	for _, k := range fields.Keys() {
		if !seen[k.Key] && k.Bound != (fields.Bound{}) && k.Bound.How != fields.Free {
			t.Errorf("no row for %s", k.Key)
		}
	}
}

// TestPrecedence: the order of the layers, and where each value comes from.
func TestPrecedence(t *testing.T) {
	user := "cwd: /user\nenv: {A: 1}\nprofile: mine\nprofiles:\n  mine: {cwd: /mine, env: {A: 2}}\n  other: {cwd: /other}"
	project := "cwd: /project\nenv: {A: 3}\nprofile: its\nprofiles: {its: {cwd: /its}}"
	named := func(s string) *string { return &s }
	for _, tt := range []struct {
		profile *string
		want    []string
	}{
		{nil, []string{
			"/user user:1", "A=1 user:2", "/mine user:5, profile mine", "A=2 user:5, profile mine",
			"/project project:1", "A=3 project:2", "/its project:4, profile its",
		}},
		{named("other"), []string{"/user user:1", "A=1 user:2", "/project project:1", "A=3 project:2", "/other user:6, profile other"}},
		{named("its"), []string{"/user user:1", "A=1 user:2", "/project project:1", "A=3 project:2", "/its project:4, profile its"}},
		{named("offline"), []string{"/user user:1", "A=1 user:2", "/project project:1", "A=3 project:2", "none built-in profile offline"}},
		{named(""), []string{"/user user:1", "A=1 user:2", "/project project:1", "A=3 project:2"}},
	} {
		settings, err := merge(t, user, project, tt.profile)
		var got []string
		for _, s := range settings {
			got = append(got, strings.Join(s.Values, ",")+" "+s.Source.String())
		}
		if diff := cmp.Diff(tt.want, got); diff != "" || err != nil {
			t.Error(err, diff)
		}
	}
	for _, tt := range []struct {
		user, project string
		profile       *string
		want          string
	}{
		{"profile: x", "", nil, `user:1: unknown profile "x"`},
		{"", "profile: x", nil, `project:1: unknown profile "x"`},
		{"", "", named("clude"), `--profile: unknown profile "clude": did you mean claude?`},
		{"profiles:\n  p: {cwd: /a}", "profiles: {p: {cwd: /b}}", nil, "project:1: profile p: user:2 has a profile of that name"},
	} {
		if _, err := merge(t, tt.user, tt.project, tt.profile); err == nil || !strings.HasPrefix(err.Error(), tt.want) {
			t.Errorf("%v, want %s", err, tt.want)
		}
	}
}

func TestParseValues(t *testing.T) {
	f := parse(t, false, `
mount: [~/data, "rel:/x:rw", "~/a:~/b", /abs]
rootfs: ../r
env: {A: 1, B: true, C: , D: "x=y"}
label: [a=b]
whole: 3
truth: true
rules: [docs/=read]
memory: 5
`)
	got := map[string][]string{}
	for _, s := range f.Settings {
		got[s.Key] = s.Values
	}
	want := map[string][]string{
		"mount":  {"/home/ann/data", "/home/ann/.config/wolffia/rel:/x:rw", "/home/ann/a:/home/ann/b", "/abs"},
		"rootfs": {"/home/ann/.config/r"},
		"env":    {"A=1", "B=true", "C", "D=x=y"},
		"label":  {"a=b"}, "whole": {"3"}, "truth": {"true"}, "rules": {"docs/=read"}, "memory": {"5"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestParseErrors(t *testing.T) {
	keys := append(testKeys(), fields.Field{Name: "choice", Key: "choice", Values: []fields.Value{{Name: "one"}, {Name: "two"}}})
	for _, tt := range []struct {
		project bool
		text    string
		want    string
	}{
		{false, "zz: 1\nmemry: 5", "f:1: unknown key \"zz\"\nf:2: unknown key \"memry\": did you mean memory?"},
		{false, "rule: [a=read]", `f:1: unknown key "rule": the key of --rule is rules`},
		{false, "memory: 1\nmemory: 2", "f:2: "},
		{false, "- a", "f:1: the file: want KEY: VALUE on each line"},
		{false, "mount: /x", "f:1: mount: want a list"},
		{false, "env: x", "f:1: env: want a list, or NAME: VALUE on each line"},
		{false, "env: {A: [1]}", `f:1: env: "A": want text`},
		{false, "mount: [1]", "f:1: mount: want a list of texts"},
		{false, "mount: {a: b}", "f:1: mount: want a list"},
		{false, "mount: [~bob/x]", `f:1: mount: path "~bob/x": only ~/ is known; write the whole path`},
		{false, "rootfs: ''", "f:1: rootfs: empty path"},
		{false, "cwd: true", "f:1: cwd: want text"},
		{false, "truth: 1", "f:1: truth: want true or false"},
		{false, "whole: 1.5", "f:1: whole: want a whole number"},
		{false, "choice: tow", `f:1: choice: unknown value "tow": did you mean two?`},
		{false, "rules:\n  - a=read\n  - b=rad", `f:3: rules: rule "b=rad": unknown level "rad"`},
		{false, "memory: lots", "f:1: memory: "},
		{false, "cpus: inf", "f:1: cpus: want a number"},
		{false, "pull: somtimes", "f:1: pull: unknown value"},
		{false, "name: \"a\\0b\"", "f:1: name: NUL byte"},
		{false, "profiles: {p: {profile: q}}", `f:1: unknown key "profile"`},
		{false, "profiles: {p: 5}", "f:1: profile p: want KEY: VALUE"},
		{false, "profiles: {\"a b\": {}}", `f:1: profile "a b": a name has up to 64 letters`},
		{false, "allow: [rules]", "f:1: allow: rules is not a key that has to be allowed"},
		{false, "allow: [codebase]", "f:1: allow: codebase is not a key that has to be allowed"},
		{false, "allow: [nonsense]", `f:1: allow: unknown key "nonsense"`},
		{false, "allow: mount", "f:1: allow: want a list of keys"},
		{true, "allow: [mount]", `f:1: unknown key "allow": it belongs into the user's own file`},
		{true, "profiles: {p: {codebase: /}}", "f:1: codebase cannot be in a project's file"},
		{false, "name: *x", "f:1: "},
		{false, "name: a\n---\nname: b", "f:1: 2 documents"},
		{false, "x: " + strings.Repeat("y", 10000), "f:1: line longer"},
	} {
		f, err := Parse(keys, Place{Name: "f", Home: "/h", Dir: "/d", Project: tt.project}, []byte(tt.text))
		if err == nil || f != nil || !strings.HasPrefix(err.Error(), tt.want) {
			t.Errorf("%q: %v, want %s", tt.text, err, tt.want)
		}
	}
}

func TestWidens(t *testing.T) {
	f := parse(t, true, "network: none\npreset: read-only\nmemory: 5\nenv: {A: 1}\nreveal: [a=read]\nprofiles: {p: {network: host, env: [X], mount: [/x], limits: best-effort, cwd: /}}")
	var got []string
	for _, s := range Widens(&Request{Keys: testKeys(), Project: f}) {
		got = append(got, s.Key+" "+s.Source.String())
	}
	want := []string{"reveal project:5", "network project:6, profile p", "env project:6, profile p", "mount project:6, profile p", "limits project:6, profile p"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// A profile that a project's file selects, and does not have, gives what it gives.
func TestWidensByAProfile(t *testing.T) {
	user := parse(t, false, "profiles: {net: {network: host, memory: 5}, less: {network: none}}")
	builtin := []Profile{{Name: "agent", Settings: []Setting{{Key: "network", Values: []string{"host"}, Source: Source{Profile: "agent"}}}}}
	for text, want := range map[string]string{
		"profile: net":     "profile net: network [host] project:1",
		"profile: agent":   "profile agent: network [host] project:1",
		"profile: less":    "",
		"profile: unknown": "",
		"profile: p\nprofiles: {p: {network: host}}": "network [host] project:2, profile p",
	} {
		var got []string
		for _, s := range Widens(&Request{Keys: testKeys(), User: user, Builtin: builtin, Project: parse(t, true, text)}) {
			got = append(got, fmt.Sprint(s.Key, " ", s.Values, " ", s.Source))
		}
		if strings.Join(got, "; ") != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func TestCodebase(t *testing.T) {
	r := &Request{User: parse(t, false, "codebase: ~/a\nprofiles: {p: {codebase: ~/b}}")}
	p, unknown := "p", "x"
	for profile, want := range map[*string]string{nil: "/home/ann/a", &p: "/home/ann/b", &unknown: "/home/ann/a"} {
		r.Profile = profile
		if got := r.Codebase(); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

func TestRead(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, ProjectName)
	if _, err := ReadProject(dir); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
	if err := os.WriteFile(file, []byte("a"), 0o600); err != nil {
		t.Fatal(err)
	}
	if data, err := ReadProject(dir); string(data) != "a" || err != nil {
		t.Errorf(`ReadProject: got %q, %v; want "a", nil`, data, err)
	}
	for mode, ok := range map[os.FileMode]bool{0o600: true, 0o644: true, 0o646: false, 0o666: false} {
		if err := os.Chmod(file, mode); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadUser(file); (err == nil) != ok {
			t.Errorf("%o: got err %v; want (err == nil) == %v", mode, err, ok)
		}
	}
	if err := os.Truncate(file, plainyaml.MaxFile+10); err != nil {
		t.Fatal(err)
	}
	if data, err := ReadProject(dir); err != nil || len(data) != plainyaml.MaxFile+1 {
		t.Errorf("%d bytes, %v", len(data), err)
	}
	// Nothing else in the place of the file, and no wait for a writer of a pipe.
	for name, make := range map[string]func() error{
		"link":      func() error { return os.Symlink("/etc/passwd", file) },
		"pipe":      func() error { return unix.Mkfifo(file, 0o600) },
		"directory": func() error { return os.Mkdir(file, 0o700) },
	} {
		if err := errors.Join(os.Remove(file), make()); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadProject(dir); !errors.Is(err, ErrNotRegular) {
			t.Errorf("%s: got %v, want ErrNotRegular", name, err)
		}
	}
}

func TestUserFile(t *testing.T) {
	for _, tt := range []struct {
		env  map[string]string
		want string
	}{
		{map[string]string{"HOME": "/h"}, "/h/.config/wolffia/config.yaml"},
		{map[string]string{"HOME": "/h", "XDG_CONFIG_HOME": "/x"}, "/x/wolffia/config.yaml"},
		{map[string]string{"HOME": "/h", "XDG_CONFIG_HOME": "x"}, "/h/.config/wolffia/config.yaml"},
		{nil, ""},
	} {
		if got := UserFile(func(k string) string { return tt.env[k] }); got != tt.want {
			t.Errorf("%v: got %q, want %q", tt.env, got, tt.want)
		}
	}
}

// What is found in a project, in a file that is valid.
func TestPropose(t *testing.T) {
	files := []string{"go.mod", "package.json", "yarn.lock", "Makefile"}
	text := Propose(func(name string) bool { return slices.Contains(files, name) })
	if _, err := Parse(testKeys(), Place{Project: true}, []byte(text)); err != nil {
		t.Error(err)
	}
	for _, want := range []string{
		"# Found: Go (go.mod), Node with yarn (yarn.lock), make (Makefile)\n", "\n# cache: [go, yarn]\n",
		"\n# allow-host: [\"@go\", \"@yarn\"]\n",
	} {
		if !strings.Contains(text, want) || strings.Contains(text, "npm") || strings.Contains(text, "network: host") {
			t.Errorf("%s\nwant %q", text, want)
		}
	}
	if text := Propose(func(string) bool { return false }); strings.Contains(text, "Found") {
		t.Error(text)
	}
}

// The built-in profiles say what they are for, and set what they say.
func TestBuiltin(t *testing.T) {
	claude := map[string][]string{}
	for _, p := range Builtin() {
		if p.Description == "" || len(p.Settings) == 0 {
			t.Errorf(`got p %+v; want p.Description != "" and len(p.Settings) != 0`, p)
		}
		for _, s := range p.Settings {
			if p.Name == "claude" {
				claude[s.Key] = s.Values
			}
			if s.Source.Profile != p.Name || key(testKeys(), s.Key) == nil {
				t.Errorf("got p.Name %s, s %+v; want s.Source.Profile == %v and key(testKeys(), s.Key) != nil", p.Name, s, p.Name)
			}
		}
	}
	want := map[string][]string{
		"home": {"claude"}, "allow-host": {"@anthropic", "@crates", "@go", "@npm", "@pypi"}, "env": {"DISABLE_AUTOUPDATER=1"},
	}
	if diff := cmp.Diff(want, claude); diff != "" {
		t.Error(diff)
	}
}

// TestAmounts: a value without a limit is more than any limit.
func TestAmounts(t *testing.T) {
	amounts := map[string][]string{ // from the smallest
		"memory": {"512m", "2g"}, "disk": {"512m", "2g"}, "cpus": {"0.5", "2", "0"}, "pids": {"5", "20", "0"},
		"ttl": {"90s", "5m", "7d", "0"}, "idle-timeout": {"90", "1h", "0"}, "timeout": {"90s", "1h"},
	}
	for _, k := range fields.Keys() {
		values := amounts[k.Name]
		if (values == nil) != (k.Bound.How != fields.Most) {
			t.Errorf("%s: an amount?", k.Name)
			continue
		}
		last := 0.0
		for _, v := range values {
			n, err := amount(&k, v)
			if err != nil || n <= last {
				t.Errorf("%s: %s is %g after %g: %v", k.Name, v, n, last, err)
			}
			last = n
		}
		if values != nil {
			if _, err := amount(&k, "nonsense"); err == nil {
				t.Errorf("%s: nonsense is an amount", k.Name)
			}
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("memory: 2\nprofiles: {a: {env: {B: 1}}}\nallow: [mount]"))
	keys := testKeys()
	f.Fuzz(func(_ *testing.T, data []byte) {
		for _, project := range []bool{false, true} {
			file, err := Parse(keys, Place{Name: "f", Dir: "/d", Home: "/h", Project: project}, data)
			if err == nil && project {
				r := &Request{Keys: keys, Project: file}
				Widens(r)
				_, _ = Merge(r) // it does not panic
			}
		}
	})
}
