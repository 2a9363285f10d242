package gituser

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"wolffia/internal/gitconfig"
	"wolffia/internal/test/testenv"
)

// write writes files below dir.
func write(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// last returns the value that is in force, as git shows it.
func last(settings []gitconfig.Setting, name string) string {
	value := ""
	for i := range settings {
		if settings[i].Name == name {
			value = settings[i].Value
		}
	}
	return value
}

// git itself says what each configuration means for a repository.
func TestReadIsWhatGitReads(t *testing.T) {
	testenv.Tools(t, "git")
	const tail = "[user]\n\temail = other@x\n"
	include := func(condition string) map[string]string {
		return map[string]string{".gitconfig": "[user]\n\tname = N\n\temail = default@x\n[includeIf \"" + condition + "\"]\n\tpath = other\n", "other": tail}
	}
	for what, c := range map[string]struct {
		files map[string]string
		env   map[string]string
	}{
		"nothing":              {},
		"plain":                {files: map[string]string{".gitconfig": "[user]\n\tname = A \"B # \\\" C\" ; D\n\temail=a@x\n"}},
		"both places":          {files: map[string]string{".gitconfig": "[user]\n\tname = A\n", ".config/git/config": "[user]\n\tname = X\n\temail = x@x\n"}},
		"XDG_CONFIG_HOME":      {files: map[string]string{"xdg/git/config": "[user]\n\tname = X\n"}, env: map[string]string{"XDG_CONFIG_HOME": "HOME/xdg"}},
		"GIT_CONFIG_GLOBAL":    {files: map[string]string{".gitconfig": "[user]\n\tname = A\n", "g": "[user]\n\tname = G\n"}, env: map[string]string{"GIT_CONFIG_GLOBAL": "HOME/g"}},
		"GIT_CONFIG_SYSTEM":    {files: map[string]string{".gitconfig": "[user]\n\tname = A\n", "s": "[user]\n\tname = S\n\temail = s@x\n"}, env: map[string]string{"GIT_CONFIG_SYSTEM": "HOME/s"}},
		"GIT_CONFIG_NOSYSTEM":  {files: map[string]string{"s": tail}, env: map[string]string{"GIT_CONFIG_SYSTEM": "HOME/s", "GIT_CONFIG_NOSYSTEM": "1"}},
		"include":              {files: map[string]string{".gitconfig": "[include]\n\tpath = sub/inc\n[user]\n\temail = z@x\n", "sub/inc": "[user]\n\tname = I\n\temail = i@x\n[include]\n\tpath = more\n", "sub/more": "[user]\n\tname = M\n"}},
		"include ~":            {files: map[string]string{".gitconfig": "[include]\n\tpath = ~/inc\n", "inc": tail}},
		"gitdir":               {files: include("gitdir:~/work/")},
		"gitdir other":         {files: include("gitdir:~/play/")},
		"gitdir exact":         {files: include("gitdir:~/work/repo/.git")},
		"gitdir name":          {files: include("gitdir:repo/.git")},
		"gitdir name/":         {files: include("gitdir:work/")},
		"gitdir ./":            {files: include("gitdir:./work/")},
		"gitdir star":          {files: include("gitdir:~/w*/re?o/.git")},
		"gitdir one star":      {files: include("gitdir:~/*/.git")},
		"gitdir two stars":     {files: include("gitdir:/**/repo/**")},
		"gitdir set":           {files: include("gitdir:~/[!a-v]ork/")},
		"gitdir set not":       {files: include("gitdir:~/[!w]ork/")},
		"gitdir upper":         {files: include("gitdir:~/WORK/")},
		"gitdir/i upper":       {files: include("gitdir/i:~/WORK/")},
		"gitdir of the parent": {files: include("gitdir:~/work")},
		"unknown":              {files: include("colour:red")},
	} {
		t.Run(what, func(t *testing.T) {
			home, err := filepath.EvalSymlinks(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			repo := filepath.Join(home, "work", "repo")
			if out, err := exec.Command("git", "init", "-q", repo).CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			write(t, home, c.files)
			env := map[string]string{"HOME": home, "GIT_CONFIG_SYSTEM": "/dev/null"}
			maps.Copy(env, c.env)
			var list []string
			for k, v := range env {
				env[k] = strings.ReplaceAll(v, "HOME", home)
				list = append(list, k+"="+env[k])
			}
			got, err := Read(func(name string) string { return env[name] }, repo)
			if err != nil {
				t.Fatal(err)
			}
			for _, name := range []string{"user.name", "user.email"} {
				cmd := exec.Command("git", "-C", repo, "config", name)
				cmd.Env = append(list, "PATH="+os.Getenv("PATH"))
				out, _ := cmd.Output()
				if want := strings.TrimSuffix(string(out), "\n"); last(got.Settings, name) != want {
					t.Errorf("%s is %q, for git %q", name, last(got.Settings, name), want)
				}
			}
		})
	}
}

// What names a program, a path, an address or a driver does not get in, in no spelling.
func TestReadLeavesOutWhatActs(t *testing.T) {
	home := t.TempDir()
	write(t, home, map[string]string{".gitconfig": `
[user]
	name = N
	signingKey = K
[CORE]
	Editor = evil
	pager = evil
	sshCommand = evil
	hooksPath = evil
	fsmonitor = evil
	attributesFile = evil
	autocrlf = input
[alias]
	st = !evil
[credential]
	helper = !evil
[credential "https://x"]
	helper = !evil
[url "https://evil/"]
	insteadOf = https://good/
[filter "lfs"]
	smudge = evil
[diff]
	external = evil
[gpg]
	program = evil
[commit]
	gpgSign = true
[include]
	path = inc
[merge "x"]
	driver = evil
[help]
	autocorrect = immediate
[safe]
	directory = *
[user "x"]
	name = sub
`, "inc": "[core]\n\teditor = evil\n[http]\n\tproxy = evil\n[init]\n\tdefaultBranch = main\n"})
	got, err := Read(func(name string) string { return map[string]string{"HOME": home, "GIT_CONFIG_NOSYSTEM": "1"}[name] }, "")
	if err != nil {
		t.Fatal(err)
	}
	const want = "[user]\n\tname = \"N\"\n[core]\n\tautocrlf = \"input\"\n[init]\n\tdefaultbranch = \"main\"\n"
	if text := gitconfig.Format(got.Settings); text != want {
		t.Errorf("got\n%swant\n%s", text, want)
	}
}

func TestIgnore(t *testing.T) {
	for what, c := range map[string]struct {
		files map[string]string
		want  string
	}{
		"default": {map[string]string{".config/git/ignore": "*.a\n"}, "*.a\n"},
		"named":   {map[string]string{".config/git/ignore": "*.a\n", ".gitconfig": "[core]\n\texcludesFile = ~/mine\n", "mine": "*.b\n"}, "*.b\n"},
		"none":    {map[string]string{".config/git/ignore": "*.a\n", ".gitconfig": "[core]\n\texcludesFile =\n"}, ""},
	} {
		t.Run(what, func(t *testing.T) {
			home := t.TempDir()
			write(t, home, c.files)
			got, err := Read(func(name string) string { return map[string]string{"HOME": home, "GIT_CONFIG_NOSYSTEM": "1"}[name] }, "")
			if err != nil || got.Ignore != c.want {
				t.Errorf("got %q, %v, want %q", got.Ignore, err, c.want)
			}
		})
	}
}

// A bad file is named, and does not keep the good ones from being used.
func TestReadOfBadFiles(t *testing.T) {
	for what, bad := range map[string]string{
		"syntax": "[user\n", "NUL": "[user]\n\tname = \x00\n", "long": strings.Repeat("# \n", maxFile), "itself": "[include]\n\tpath = bad\n",
	} {
		t.Run(what, func(t *testing.T) {
			home := t.TempDir()
			write(t, home, map[string]string{".gitconfig": "[user]\n\tname = N\n[include]\n\tpath = bad\n", "bad": bad})
			got, err := Read(func(name string) string { return map[string]string{"HOME": home, "GIT_CONFIG_NOSYSTEM": "1"}[name] }, "")
			if err == nil || !strings.Contains(err.Error(), filepath.Join(home, "bad")) || last(got.Settings, "user.name") != "N" {
				t.Errorf("got %v, %v", got, err)
			}
		})
	}
	if got, err := Read(func(string) string { return "" }, ""); err != nil && got == nil { // no home
		t.Error(err)
	}
}

// git reads what Format writes.
func TestFormat(t *testing.T) {
	testenv.Tools(t, "git")
	file := filepath.Join(t.TempDir(), "c")
	values := []string{"a", "", " a ", `"`, `\`, "#;", "a\tb\nc", "Zoë", "'$(x)`"}
	var all []gitconfig.Setting
	for _, v := range values {
		all = append(all, gitconfig.Setting{Name: "s.S u\"b\\.x.k", Value: v})
	}
	if err := os.WriteFile(file, []byte(gitconfig.Format(all)), 0o644); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("git", "config", "-f", file, "-z", "--get-all", "s.S u\"b\\.x.k").Output()
	if want := strings.Join(values, "\x00") + "\x00"; err != nil || string(out) != want {
		t.Errorf("git reads %q, %v, want %q", out, err, want)
	}
}
