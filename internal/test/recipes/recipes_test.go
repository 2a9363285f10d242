// Package recipes runs the commands of the pages in docs/recipes.
package recipes

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"

	"wolffia/internal/host/probe"
	"wolffia/internal/test/testbin"
	"wolffia/internal/test/testenv"
)

const (
	pages = "../../../docs/recipes"
	// bareVariable is set where the machine has what a page says to install, and no more.
	bareVariable = "WOLFFIA_TEST_RECIPES"
	limit        = 10 * time.Minute // of a page: a guard against a hang
)

func TestMain(m *testing.M) {
	m.Run()
	testbin.Remove()
}

// TestRecipes: each page does what it says, for a user with a small project, in the order of
// the page. The project and its set-up are in testdata.
func TestRecipes(t *testing.T) {
	files, err := filepath.Glob(pages + "/*.md")
	if err != nil || len(files) < 2 {
		t.Fatal("no pages", err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".md")
		if name == "README" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			steps, err := parse(string(text))
			if err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			try(t, file, name, steps)
		})
	}
}

// TestIndex: the index has a line for each page.
func TestIndex(t *testing.T) {
	index, err := os.ReadFile(pages + "/README.md")
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(pages + "/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if name := filepath.Base(file); name != "README.md" && !strings.Contains(string(index), "]("+name+")") {
			t.Errorf("docs/recipes/README.md has no link to %s", name)
		}
	}
}

// try runs the steps of a page in one shell, as a person would.
func try(t *testing.T, page, name string, steps []step) {
	testenv.Unprivileged(t)
	testenv.Need(t, probe.UserNamespaces, probe.Bubblewrap, probe.Fuse)
	testenv.Tools(t, "bash", "git")
	bare := os.Getenv(bareVariable) == "bare"
	if name == "go" && !bare {
		testenv.Soak(t, "compiles Go's standard library")
	}
	home := t.TempDir()
	project, log := filepath.Join(home, "src", name), filepath.Join(home, ".steps")
	env := environment(t, home)
	archive, err := txtar.ParseFile("testdata/" + name + ".txtar")
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(log, "x"), nil)
	write(t, filepath.Join(project, "x"), nil)
	os.Remove(filepath.Join(project, "x"))
	for _, f := range archive.Files {
		place := filepath.Join(project, f.Name)
		if rest, is := strings.CutPrefix(f.Name, "~/"); is {
			place = filepath.Join(home, rest)
		}
		write(t, place, f.Data)
	}
	// Registries on the loopback take the place of those in the internet: what follows says so
	// to the tools in all sandboxes.
	registries := serve(t)
	write(t, filepath.Join(home, ".config/wolffia/config.yaml"), registries)

	var left []string
	script := "set -e\n" + string(archive.Comment) + "\nset +e\n"
	for i, s := range steps {
		what := ""
		for _, program := range s.needs {
			if _, err := exec.LookPath(program); err != nil {
				what = "the program " + program
			}
		}
		if s.admin && !bare {
			what = "a machine to change"
		}
		if what != "" {
			if bare {
				t.Errorf("%s:%d: the page does not install %s", page, s.line, what)
			}
			left = append(left, fmt.Sprintf("line %d needs %s", s.line, what))
			continue
		}
		if s.file != "" {
			write(t, filepath.Join(log, fmt.Sprint(i)), []byte(s.text))
			script += fmt.Sprintf("mkdir -p \"$(dirname '%[1]s')\" && cp '%[2]s/%[3]d' '%[1]s'\n", s.file, log, i)
			continue
		}
		// A block of several lines ends where one fails.
		text := s.text
		if !s.check {
			text = "set -e\n" + text
		}
		write(t, filepath.Join(log, fmt.Sprint(i)), []byte(text))
		source := fmt.Sprintf(". '%s/%d'", log, i)
		if !s.check {
			source = "( " + source + " )"
		}
		if s.root && bare {
			source = fmt.Sprintf("sudo CI=true WOLFFIA_DEB=\"$WOLFFIA_DEB\" bash '%s/%d'", log, i)
		}
		script += fmt.Sprintf("(exit ${code:-0}); %[1]s >'%[2]s/%[3]d.out' 2>'%[2]s/%[3]d.err'; code=$?; echo $code >'%[2]s/%[3]d.code'\n", source, log, i)
	}
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "--noprofile", "--norc", "-c", script)
	cmd.Dir, cmd.Env, cmd.WaitDelay = project, env, time.Minute
	defer destroyAll(t, project, env)
	if out, err := cmd.CombinedOutput(); err != nil && !errors.As(err, new(*exec.ExitError)) || len(out) > 0 {
		t.Fatalf("%s: got err %v, out %s; want (err == nil or errors.As(err, new(*exec.ExitError))) and len(out) <= 0", page, err, out)
	}
	for i, s := range steps {
		code, err := os.ReadFile(filepath.Join(log, fmt.Sprintf("%d.code", i)))
		if err != nil {
			continue
		}
		out, complaints := read(t, log, i, "out"), read(t, log, i, "err")
		n, err := strconv.Atoi(strings.TrimSpace(string(code)))
		if err != nil {
			t.Fatal(err)
		}
		if (n != 0) != s.fails || s.check && !matches(s.says, out+complaints) && !matches(s.says, complaints+out) {
			t.Errorf("%s:%d: %s: exit code %d, prints\n%s\nand on standard error\n%s\nwant\n%s", page, s.line, strings.TrimSpace(s.text), n, out, complaints, s.says)
		} else {
			t.Logf("%s:%d: %s: %d: %s%s", page, s.line, strings.TrimSpace(s.text), n, out, complaints)
		}
	}
	if len(left) > 0 && !t.Failed() {
		t.Skipf("LEFT OUT, sudo scripts/recipes %s tries it: %s", name, strings.Join(left, "; "))
	}
}

// read returns what a step has printed on one of its streams, which are two pipes: the order
// of a line on one and a line on the other is chance.
func read(t *testing.T, log string, step int, stream string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(log, fmt.Sprintf("%d.%s", step, stream)))
	if err != nil {
		t.Fatal(err)
	}
	if len(text) > 0 && !strings.HasSuffix(string(text), "\n") {
		text = append(text, '\n')
	}
	return string(text)
}

// environment is that of a person at a terminal.
func environment(t *testing.T, home string) []string {
	t.Helper()
	path := os.Getenv("PATH")
	if os.Getenv(bareVariable) != "bare" { // there a package has installed it
		path = testbin.Dir(t) + ":" + path
	}
	env := []string{"HOME=" + home, "PATH=" + home + "/.local/bin:" + path, "LANG=C.UTF-8", "USER=user", "LOGNAME=user"}
	for _, name := range []string{"WOLFFIA_DEB", "DEBIAN_FRONTEND"} {
		if v := os.Getenv(name); v != "" {
			env = append(env, name+"="+v)
		}
	}
	return env
}

func write(t *testing.T, file string, text []byte) {
	t.Helper()
	mode := os.FileMode(0o644)
	if strings.HasPrefix(string(text), "#!") {
		mode = 0o755
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, text, mode); err != nil {
		t.Fatal(err)
	}
}

// destroyAll ends what a page has left, which one that fails does.
func destroyAll(t *testing.T, dir string, env []string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-c", `for box in $(wolffia ls -q); do wolffia rm -f "$box"; done; chmod -R u+rwx "$HOME"`)
	cmd.Dir, cmd.Env = dir, env
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("destroy what a page has left: %v: %s", err, out)
	}
}
