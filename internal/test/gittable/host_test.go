package gittable_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"wolffia/internal/test/gittable"
	"wolffia/internal/test/testenv"
)

// hookNames are the hooks of githooks(5) that commands of this test's tables run.
var hookNames = []string{
	"applypatch-msg", "commit-msg", "fsmonitor-watchman", "post-applypatch", "post-checkout", "post-commit", "post-index-change",
	"post-merge", "post-receive", "post-rewrite", "post-update", "pre-applypatch", "pre-auto-gc", "pre-commit", "pre-merge-commit",
	"pre-push", "pre-rebase", "pre-receive", "prepare-commit-msg", "proc-receive", "push-to-checkout", "reference-transaction",
	"sendemail-validate", "update",
}

// marks are programs that leave a mark in a file when they are run, each by another
// name. What is theirs is in a directory of their own.
type marks struct{ dir string }

// newMarks makes a directory of marks in dir, which the caller removes.
func newMarks(t testing.TB, dir string) marks {
	t.Helper()
	m := marks{dir}
	script := "#!/bin/sh\necho \"${0##*/} in $PWD: $*\" >>" + m.log() + "\nexit 1\n"
	for name, mode := range map[string]os.FileMode{"bin": 0o755, "file": 0o755, "outside": 0o755} {
		if err := os.MkdirAll(filepath.Join(dir, name), mode); err != nil {
			t.Fatal(err)
		}
	}
	writeFile(t, filepath.Join(dir, "mark"), script, 0o755)
	writeFile(t, m.log(), "", 0o644)
	for _, s := range gittable.Settings {
		m.program(t, s.Key)
		writeFile(t, filepath.Join(dir, "file", base(s.Key)), gittable.Lines("core.fsmonitor="+m.program(t, s.Key)), 0o644)
		if strings.Contains(s.Value, "{hooks}") {
			for _, hook := range hookNames {
				link(t, "../mark", filepath.Join(dir, "hooks "+base(s.Key), hook))
			}
		}
	}
	return m
}

// base returns a name for a file.
func base(key string) string {
	return strings.NewReplacer("/", "_", "{", "", "}", "", "<", "", ">", "", "*", "_", " ", "_").Replace(key)
}

func (m marks) log() string { return filepath.Join(m.dir, "log") }

// program returns the path of a program that leaves a mark with that name.
func (m marks) program(t testing.TB, name string) string {
	t.Helper()
	path := filepath.Join(m.dir, "bin", base(name))
	if _, err := os.Lstat(path); err != nil {
		link(t, "../mark", path)
	}
	return path
}

// fill puts paths in the place of the names in braces of a setting.
func (m marks) fill(key string) func(string) string {
	r := strings.NewReplacer(
		"{mark}", filepath.Join(m.dir, "bin", base(key)),
		"{file}", filepath.Join(m.dir, "file", base(key)),
		"{hooks}", filepath.Join(m.dir, "hooks "+base(key)),
		"{outside}", filepath.Join(m.dir, "outside"),
	)
	return r.Replace
}

// take returns the marks that were left, and forgets them.
func (m marks) take(t testing.TB) string {
	t.Helper()
	text, err := os.ReadFile(m.log())
	if err == nil && len(text) > 0 {
		err = os.Truncate(m.log(), 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func writeFile(t testing.TB, path, text string, mode os.FileMode) {
	t.Helper()
	err := os.MkdirAll(filepath.Dir(path), 0o755)
	if err == nil {
		err = os.WriteFile(path, []byte(text), mode)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func link(t testing.TB, target, path string) {
	t.Helper()
	err := os.MkdirAll(filepath.Dir(path), 0o755)
	if err == nil {
		err = os.Symlink(target, path)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// sh runs a shell script in dir as a user without any configuration of git, and returns
// what it prints. What fails does not end it.
func sh(t testing.TB, dir, script string, env ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-c", script)
	cmd.Dir = dir
	cmd.Env = append([]string{
		"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "GIT_CONFIG_NOSYSTEM=1", "LC_ALL=C", "GIT_TERMINAL_PROMPT=0",
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b",
		"TERM=xterm", "TMPDIR=" + os.TempDir(),
	}, env...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.WaitDelay = time.Minute
	if err := cmd.Run(); err != nil {
		fmt.Fprintf(&out, "(%v)\n", err)
	}
	return out.String()
}

// setUp is a script that makes, in the directory where it runs, the repository "repo"
// on which the table is tried: with a branch that conflicts, attributes that name
// drivers, a remote beside it and a submodule.
const setUp = `set -e
git init -q -b main other
cd other
echo 1 >x; git add x; git commit -q -m 1
echo 2 >x; git commit -q -a -m 2
cd ..
git init -q -b main repo
cd repo
echo '*.f filter=mark diff=mark merge=mark' >.gitattributes
echo 1 >a; echo 1 >a.f; echo 1 >.mailmap
git add .
git commit -q -m 1
git checkout -q -b side
echo side >a.f; echo side >a; git commit -q -a -m side
git checkout -q main
git -c protocol.file.allow=always submodule -q add ../other sub
echo 2 >a.f; echo 2 >a; git add .; git commit -q -m 2
cd ..
git clone -q --bare repo remote.git
cd repo
git remote add origin ../remote.git
git fetch -q
git branch -q -u origin/main
`

// TestSettings tries the table itself: where it says so, git runs the program.
func TestSettings(t *testing.T) {
	testenv.Tools(t, "git")
	dir := t.TempDir()
	m := newMarks(t, filepath.Join(dir, "marks"))
	if out := sh(t, dir, setUp); strings.Contains(out, "(exit") {
		t.Fatal(out)
	}
	for i, s := range gittable.Settings {
		t.Run(fmt.Sprint(s.Key, i), func(t *testing.T) {
			text := s.Text(m.fill(s.Key))
			file := filepath.Join(dir, "text")
			writeFile(t, file, text, 0o644)
			if out := sh(t, dir, "git config -f text -l"); !strings.Contains(strings.ToLower(out), strings.ToLower(m.fill(s.Key)(strings.NewReplacer("<", "", ">", "").Replace(s.Key)))+"=") {
				t.Fatalf("git reads %s\nas %s", text, out)
			}
			if s.Use == "" {
				return
			}
			t.Parallel()
			mine := fmt.Sprintf("%s/%d", dir, i)
			out := sh(t, dir, fmt.Sprintf("mkdir %d && cp -a repo other remote.git %d/ && cat >>%d/repo/.git/config <<'EOF'\n%sEOF\n", i, i, i, text))
			out += sh(t, filepath.Join(mine, "repo"), s.Use)
			log, err := os.ReadFile(m.log())
			if err != nil || !strings.Contains(string(log), " in "+mine+"/") {
				t.Errorf("%s\ngives no mark with %s\n%s", text, s.Use, out)
			}
		})
	}
}

// TestSpellings: git takes all spellings for the same.
func TestSpellings(t *testing.T) {
	testenv.Tools(t, "git")
	dir := t.TempDir()
	for what, text := range gittable.Spellings("core", "fsmonitor", "/some/program") {
		writeFile(t, filepath.Join(dir, "text"), text, 0o644)
		if out := sh(t, dir, "git config -f text core.fsmonitor"); out != "/some/program\n" {
			t.Errorf("%s: %q", what, out)
		}
	}
}
