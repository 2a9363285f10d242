package service

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Whoever sends a file may be killed on the way: what did not arrive is not
// written, neither beside the file nor in its place.
func TestWriteScriptWantsAll(t *testing.T) {
	for what, beside := range map[string]string{"beside": ".new", "in place": "missing/.new"} {
		t.Setenv("TMPDIR", t.TempDir())
		dir := t.TempDir()
		file := filepath.Join(dir, "file")
		write := func(content, size string) (code int) {
			cmd := exec.Command("sh", "-c", writeScript, "sh", file, dir, size, filepath.Join(dir, beside))
			cmd.Stdin = strings.NewReader(content)
			var exit *exec.ExitError
			if out, err := cmd.CombinedOutput(); errors.As(err, &exit) {
				return exit.ExitCode()
			} else if err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			return 0
		}
		holds := func(want string) {
			t.Helper()
			if got, err := os.ReadFile(file); err != nil || string(got) != want {
				t.Errorf("%s: it holds %q, %v; want %q", what, got, err, want)
			}
			for _, d := range []string{dir, os.Getenv("TMPDIR")} {
				left, err := os.ReadDir(d)
				if err != nil || len(left) > 1 || len(left) == 1 && left[0].Name() != "file" {
					t.Errorf("%s: left: %v, %v", what, left, err)
				}
			}
		}
		if code := write("whole", "5"); code != 0 {
			t.Errorf("%s: exit code %d", what, code)
		}
		holds("whole")
		for _, cut := range []string{"", "newe"} {
			if code := write(cut, "5"); code != exitShort {
				t.Errorf("%s: %q of 5 bytes: exit code %d", what, cut, code)
			}
			holds("whole")
		}
	}
}
