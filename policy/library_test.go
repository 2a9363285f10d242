package policy_test

import (
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"wolffia/internal/host/probe"
	"wolffia/internal/test/shimtest"
	"wolffia/internal/test/testbin"
	"wolffia/internal/test/testenv"
)

func TestMain(m *testing.M) {
	m.Run()
	testbin.Remove()
}

// libraryPage returns docs/library.md, and the output that it shows for its Go program.
func libraryPage(t *testing.T) (text, output string) {
	t.Helper()
	b, err := os.ReadFile("../docs/library.md")
	if err != nil {
		t.Fatal(err)
	}
	text = string(b)
	m := regexp.MustCompile("(?s)```go\npackage main\n.*?\n```\n\n```\n(.*?)```\n").FindStringSubmatch(text)
	if m == nil {
		t.Fatal("docs/library.md has no Go program with an output below it")
	}
	return text, m[1]
}

// TestLibraryPage: the program in docs/library.md is the example, as a program.
func TestLibraryPage(t *testing.T) {
	text, _ := libraryPage(t)
	source, err := os.ReadFile("example_test.go")
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Replace(string(source), "package policy_test\n", "package main\n", 1)
	want = regexp.MustCompile(`(?m)(^//.*\n)+func Example\(\)`).ReplaceAllString(want, "func main()")
	if !strings.Contains(text, "```go\n"+want+"```\n") {
		t.Errorf("docs/library.md does not have the example:\n%s", want)
	}
}

// TestLibraryPageOutput: the example prints what docs/library.md says.
func TestLibraryPageOutput(t *testing.T) {
	testenv.Need(t, probe.UserNamespaces, probe.Bubblewrap, probe.Fuse, probe.Seccomp)
	_, want := libraryPage(t)
	t.Setenv("PATH", testbin.Dir(t)+":"+os.Getenv("PATH"))
	t.Setenv("WOLFFIA_STATE_DIR", shimtest.PublicDir(t))
	t.Chdir(shimtest.PublicDir(t))
	for name, content := range map[string]string{".env": "TOKEN=x\n", "notes.txt": ""} {
		if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got := printed(t, Example); got != want {
		t.Errorf("the example prints\n%s\ndocs/library.md says\n%s", got, want)
	}
	if notes, err := os.ReadFile("notes.txt"); err != nil || string(notes) != "edited\n" {
		t.Errorf("notes.txt has %q (%v)", notes, err)
	}
}

// printed returns what f writes to standard output.
func printed(t *testing.T, f func()) string {
	t.Helper()
	out, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	real := os.Stdout
	os.Stdout = out
	defer func() { os.Stdout = real }()
	f()
	if _, err := out.Seek(0, io.SeekStart); err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(out)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
