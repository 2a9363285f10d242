package gituser

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"wolffia/internal/git/gitconfig"
	"wolffia/internal/test/suite"
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

// dir is Place.Dir where no git reads it.
const dir = "/d"

// read is Read with variables alone.
func read(place *Place, env map[string]string) (*Config, error) {
	return Read(func(name string) string { return env[name] }, place)
}

// An inside is a git that reads what is passed in, and nothing else, as one in a sandbox does.
type inside struct{ dir, repo string }

func pass(t *testing.T, repo string, place *Place, env map[string]string) inside {
	t.Helper()
	in := inside{dir: t.TempDir(), repo: repo}
	place.Dir = in.dir
	got, err := read(place, env)
	if err != nil {
		t.Fatal(err)
	}
	write(t, in.dir, got.Files)
	write(t, in.dir, map[string]string{"config": gitconfig.Format(got.Settings)})
	return in
}

func (in inside) git(args ...string) (string, error) {
	cmd := exec.Command("git", append([]string{"-C", in.repo}, args...)...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "GIT_CONFIG_SYSTEM=" + in.dir + "/config", "GIT_CONFIG_GLOBAL=/dev/null"}
	out, err := cmd.CombinedOutput()
	return strings.TrimSuffix(string(out), "\n"), err
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
		"onbranch":             {files: include("onbranch:work/**")},
		"onbranch other":       {files: include("onbranch:play/**")},
		"hasconfig":            {files: include("hasconfig:remote.*.url:git@work.example:*/**")},
		"hasconfig other":      {files: include("hasconfig:remote.*.url:git@play.example:*/**")},
		"nested conditions":    {files: map[string]string{".gitconfig": "[includeIf \"gitdir:~/work/\"]\n\tpath = a\n", "a": "[user]\n\tname = A\n[includeIf \"onbranch:work/\"]\n\tpath = sub/b\n", "sub/b": "[user]\n\temail = b@x\n[include]\n\tpath = c\n", "sub/c": "[user]\n\tname = C\n"}},
	} {
		t.Run(what, func(t *testing.T) {
			home, err := filepath.EvalSymlinks(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			repo := filepath.Join(home, "work", "repo")
			suite.Git(t, home, "init", "-q", repo)
			suite.Git(t, repo, "symbolic-ref", "HEAD", "refs/heads/work/x")
			suite.Git(t, repo, "remote", "add", "origin", "git@work.example:a/b.git")
			write(t, home, c.files)
			env := map[string]string{"HOME": home, "GIT_CONFIG_SYSTEM": "/dev/null"}
			maps.Copy(env, c.env)
			var list []string
			for k, v := range env {
				env[k] = strings.ReplaceAll(v, "HOME", home)
				list = append(list, k+"="+env[k])
			}
			in := pass(t, repo, &Place{Names: []string{repo}, Inside: repo}, env)
			for _, name := range []string{"user.name", "user.email"} {
				cmd := exec.Command("git", "-C", repo, "config", name)
				cmd.Env = append(list, "PATH="+os.Getenv("PATH"))
				out, _ := cmd.Output()
				if got, _ := in.git("config", name); got != strings.TrimSuffix(string(out), "\n") {
					t.Errorf("%s is %q, for git on the host %q", name, got, out)
				}
			}
		})
	}
}

// A condition for a directory holds inside where the codebase is shown at another path, or is
// reached on the host by another name.
func TestConditionElsewhere(t *testing.T) {
	testenv.Tools(t, "git")
	for what, c := range map[string]struct {
		condition   string
		top, nested bool // where it holds
	}{
		"above": {"gitdir:~/work/", true, true}, "exact": {"gitdir:~/work/repo/.git", true, false},
		"another": {"gitdir:~/play/", false, false}, "case": {"gitdir/i:~/WORK/", true, true}, "both": {"gitdir:repo*/", true, true},
	} {
		t.Run(what, func(t *testing.T) {
			home, elsewhere := t.TempDir(), filepath.Join(t.TempDir(), "repo[1]")
			suite.Git(t, home, "init", "-q", elsewhere)
			suite.Git(t, home, "init", "-q", elsewhere+"/a/nested")
			write(t, home, map[string]string{".gitconfig": "[includeIf \"" + c.condition + "\"]\n\tpath = other\n", "other": "[user]\n\tname = O\n"})
			in := pass(t, elsewhere, &Place{Names: []string{"/data/repo", home + "/work/repo"}, Inside: real(elsewhere)}, map[string]string{"HOME": home, "GIT_CONFIG_NOSYSTEM": "1"})
			for repo, holds := range map[string]bool{elsewhere: c.top, elsewhere + "/a/nested": c.nested} {
				in.repo = repo
				if name, _ := in.git("config", "user.name"); (name == "O") != holds {
					t.Errorf("%s: user.name is %q; the condition must hold: %t", repo, name, holds)
				}
			}
		})
	}
}

// What changes results is passed in. What has a secret, is of the host or waits for a person is
// not, in no spelling.
func TestPassed(t *testing.T) {
	for text, want := range map[string]bool{
		"[user]\n name = N": true, "[CORE]\n autocrlf = input": true, "[init]\n defaultBranch = m": true, "[core]\n commentChar = auto": true,
		"[alias]\n st = !x": true, "[filter \"lfs\"]\n required = true": true, "[merge \"ours\"]\n driver = true": true, "[diff \"x\"]\n textconv = cat": true, "[diff]\n external = x": true,
		"[submodule]\n recurse = true": true, "[protocol \"file\"]\n allow = always": true, "[trailer \"x\"]\n cmd = x": true, "[color \"diff\"]\n meta = red": true, "[safe]\n directory = *": true,
		"[url \"https://a/\"]\n insteadOf = a:": true, "[url \"git@a:\"]\n insteadOf = https://a/": false, "[url \"ssh://a/\"]\n pushInsteadOf = https://a/": false, "[url \"https://u:p@a/\"]\n insteadOf = a:": false,
		"[credential]\n helper = x": false, "[credential \"https://x\"]\n helper = x": false, "[http]\n extraHeader = x": false, "[http \"https://a\"]\n proxy = x": false, "[github]\n token = x": false, "[sendemail]\n smtpUser = x": false,
		"[core]\n Editor = x": false, "[core]\n pager = x": false, "[core]\n sshCommand = x": false, "[core]\n hooksPath = x": false, "[core]\n askPass = x": false, "[core]\n fsmonitor = x": false, "[sequence]\n editor = x": false, "[pager]\n log = x": false,
		"[init]\n templateDir = /x": false, "[gpg]\n program = x": false, "[gpg \"ssh\"]\n defaultKeyCommand = x": false, "[rerere]\n enabled = true": true, "[maintenance]\n repo = /x": false, "[extensions]\n worktreeConfig = true": false,
		"[branch \"b\"]\n remote = x": false, "[branch]\n autoSetupRebase = always": true, "[remote \"o\"]\n url = https://x": false, "[remote]\n pushDefault = o": true, "[core]\n checkStat = default": false, "[user]\n password = x": false,
	} {
		home := t.TempDir()
		write(t, home, map[string]string{".gitconfig": text + "\n"})
		got, err := read(&Place{Dir: dir}, map[string]string{"HOME": home, "GIT_CONFIG_NOSYSTEM": "1"})
		if err != nil || len(got.Settings) > 0 != want {
			t.Errorf("%q: %v, %v, want it passed: %t", text, got.Settings, err, want)
		}
	}
	for text, want := range map[string]bool{
		"[url \"git@a:\"]\n insteadOf = https://a/": true, "[gpg \"ssh\"]\n defaultKeyCommand = ssh-add -L": true,
	} {
		home := t.TempDir()
		write(t, home, map[string]string{".gitconfig": text + "\n"})
		if got, err := read(&Place{Dir: dir, Agent: true}, map[string]string{"HOME": home, "GIT_CONFIG_NOSYSTEM": "1"}); err != nil || len(got.Settings) > 0 != want {
			t.Errorf("with an agent, %q: %v, %v", text, got.Settings, err)
		}
	}
}

// Files that settings name are passed in by their contents.
func TestContents(t *testing.T) {
	const patterns, attributes = "core.excludesfile", "core.attributesfile"
	for what, c := range map[string]struct {
		files               map[string]string
		setting, path, text string
	}{
		"default":    {map[string]string{".config/git/ignore": "*.a\n"}, patterns, "/d/1", "*.a\n"},
		"attributes": {map[string]string{".config/git/attributes": "* text\n"}, attributes, "/d/1", "* text\n"},
		"named":      {map[string]string{".gitconfig": "[core]\n\texcludesFile = ~/mine\n", "mine": "*.b\n", ".config/git/ignore": "*.a\n"}, patterns, "/d/2", "*.b\n"},
		"none":       {map[string]string{".config/git/ignore": "*.a\n", ".gitconfig": "[core]\n\texcludesFile =\n"}, patterns, "/dev/null", ""},
		"missing":    {map[string]string{".gitconfig": "[core]\n\tattributesFile = ~/no\n"}, attributes, "/dev/null", ""},
		"relative":   {map[string]string{".gitconfig": "[blame]\n\tignoreRevsFile = .ignore-revs\n"}, "blame.ignorerevsfile", ".ignore-revs", ""},
	} {
		t.Run(what, func(t *testing.T) {
			home := t.TempDir()
			write(t, home, c.files)
			got, err := read(&Place{Dir: dir}, map[string]string{"HOME": home, "GIT_CONFIG_NOSYSTEM": "1"})
			value := ""
			for _, s := range got.Settings {
				if s.Name == c.setting {
					value = s.Value
				}
			}
			if err != nil || value != c.path || got.Files[filepath.Base(value)] != c.text {
				t.Errorf("%s is %q, %v, %v; want %q with %q", c.setting, value, got.Files, err, c.path, c.text)
			}
		})
	}
}

// Where the program of a driver is missing git fails, as on the host with required, and where
// only one direction has a program the other works.
func TestMissingDrivers(t *testing.T) {
	testenv.Tools(t, "git")
	home, repo := t.TempDir(), t.TempDir()
	write(t, home, map[string]string{".gitconfig": "[user]\n name = N\n email = e@x\n[filter \"clean\"]\n clean = nothing-here\n[filter \"smudge\"]\n smudge = nothing-here\n[filter \"process\"]\n process = nothing-here --x\n" +
		"[filter \"one\"]\n clean = sed s/a/b/\n[filter \"optional\"]\n clean = nothing-here\n required = false\n[merge \"m\"]\n driver = nothing-here %A %B\n[diff \"d\"]\n textconv = nothing-here\n"})
	write(t, repo, map[string]string{"clean": "a\n", "process": "a\n", "one": "a\n", "optional": "a\n", "m": "1\n", "d": "1\n", ".gitattributes": "clean filter=clean\nsmudge filter=smudge\nprocess filter=process\none filter=one\noptional filter=optional\nm merge=m\nd diff=d\n"})
	suite.Git(t, repo, "init", "-q")
	in := pass(t, repo, &Place{}, map[string]string{"HOME": home, "GIT_CONFIG_NOSYSTEM": "1"})
	says := func(fails bool, want string, args ...string) {
		t.Helper()
		if out, err := in.git(args...); (err != nil) != fails || !strings.Contains(out, want) {
			t.Errorf("git %q: %v: %q; want that it fails: %t, and says %q", args, err, out, fails, want)
		}
	}
	says(true, "clean filter 'clean' failed", "add", "clean")
	says(true, "nothing-here", "add", "process")
	says(false, "", "add", "one", "optional", ".gitattributes", "m", "d")
	says(false, "", "commit", "-qm", "one")
	says(false, "b", "show", "HEAD:one")
	write(t, repo, map[string]string{"smudge": "a\n", "d": "2\n"})
	says(false, "", "add", "smudge")
	if err := os.Remove(filepath.Join(repo, "smudge")); err != nil {
		t.Fatal(err)
	}
	says(true, "smudge filter smudge failed", "checkout", "smudge")
	says(true, "nothing-here", "diff", "d")
	says(false, "", "checkout", "-q", "one", "d")
	says(false, "", "checkout", "-q", "-b", "other")
	write(t, repo, map[string]string{"m": "2\n"})
	says(false, "", "commit", "-qm", "other", "m")
	says(false, "", "checkout", "-q", "-")
	write(t, repo, map[string]string{"m": "3\n"})
	says(false, "", "commit", "-qm", "mine", "m")
	says(true, "cannot run nothing-here", "merge", "-q", "other")
}

// The keys of gpg are not passed in, and a public key for ssh is, in the place of its file.
func TestSigning(t *testing.T) {
	home := t.TempDir()
	write(t, home, map[string]string{"id.pub": "ssh-ed25519 AAAA zoe@host\n", "id": "-----BEGIN SECRET\n", "ec.pub": "ecdsa-sha2-nistp256 BBBB\n"})
	programs := gitconfig.Format([]gitconfig.Setting{{Name: "gpg.program", Value: "gpg" + noKey}, {Name: "gpg.x509.program", Value: "gpgsm" + noKey}})
	ssh := gitconfig.Format([]gitconfig.Setting{{Name: "gpg.ssh.defaultkeycommand", Value: "'ssh-agent" + noKey + "'"}})
	const sign = "[commit]\n\tgpgsign = \"true\"\n"
	for _, c := range []struct {
		text, want string
		agent      bool
	}{
		{sign, programs + ssh + sign, false},
		{sign, programs + sign, true},
		{"[commit]\n\tgpgsign = \"no\"\n", "[commit]\n\tgpgsign = \"no\"\n", false},
		{"[user]\n\tsigningkey = \"ABC\"\n", programs + ssh, false},
		{"[user]\n\tsigningkey = \"~/id\"\n", programs + "[user]\n\tsigningkey = \"ssh-ed25519 AAAA\"\n", true},
		{"[user]\n\tsigningkey = \"~/id.pub\"\n", programs + "[user]\n\tsigningkey = \"ssh-ed25519 AAAA\"\n", true},
		{"[user]\n\tsigningkey = \"~/ec\"\n", programs + "[user]\n\tsigningkey = \"key::ecdsa-sha2-nistp256 BBBB\"\n", true},
		{"[user]\n\tsigningkey = \"~/none\"\n", programs + "[user]\n\tsigningkey = \"~/none\"\n", true},
		{"[tag]\n\tgpgsign\n", programs + ssh + "[tag]\n\tgpgsign\n", false},
	} {
		write(t, home, map[string]string{".gitconfig": c.text})
		got, err := read(&Place{Dir: dir, Agent: c.agent}, map[string]string{"HOME": home, "GIT_CONFIG_NOSYSTEM": "1"})
		if text := gitconfig.Format(got.Settings); err != nil || text != c.want {
			t.Errorf("%q becomes %q, %v, want %q", c.text, text, err, c.want)
		}
	}
}

// A bad file is named, and does not keep the good ones from being used.
func TestReadOfBadFiles(t *testing.T) {
	for what, bad := range map[string]string{
		"syntax": "[user\n", "NUL": "[user]\n\tname = \x00\n", "long": strings.Repeat("# \n", maxText), "itself": "[include]\n\tpath = bad\n",
	} {
		t.Run(what, func(t *testing.T) {
			home := t.TempDir()
			write(t, home, map[string]string{".gitconfig": "[user]\n\tname = N\n[include]\n\tpath = bad\n", "bad": bad})
			got, err := read(&Place{Dir: dir}, map[string]string{"HOME": home, "GIT_CONFIG_NOSYSTEM": "1"})
			if err == nil || !strings.Contains(err.Error(), filepath.Join(home, "bad")) || len(got.Settings) == 0 || got.Settings[0].Value != "N" {
				t.Errorf("got %v, %v", got, err)
			}
		})
	}
	if got, err := read(&Place{Dir: dir}, nil); err != nil && got == nil { // no home
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
