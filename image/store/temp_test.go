package store_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"wolffia/image/store"
)

// What a process that was killed has left in a stage's directory elsewhere goes with the next
// sweep, and not before the process has ended.
func TestTemp(t *testing.T) {
	const variable = "TEMP_TEST_STATE"
	if state := os.Getenv(variable); state != "" {
		st, err := store.Open(state).Stage(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		dir, err := st.Temp()
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, "secret"), []byte("x"), 0o400)
		}
		fmt.Println(dir, err)
		_, _ = io.Copy(io.Discard, os.Stdin) // until it is killed
		return
	}
	s, state := fresh(t)
	cmd := exec.Command(os.Args[0], "-test.run=^TestTemp$")
	cmd.Env = append(os.Environ(), variable+"="+state.Path(), "TMPDIR="+t.TempDir())
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, _ := bufio.NewReader(out).ReadString('\n')
	dir, said, _ := strings.Cut(strings.TrimSpace(line), " ")
	secret := filepath.Join(dir, "secret")
	there := func(when string, want bool) {
		t.Helper()
		if err := s.Sweep(); err != nil {
			t.Error(when, err)
		}
		if _, err := os.Lstat(secret); (err == nil) != want {
			t.Errorf("%s: the secret is %v, want there: %v", when, err, want)
		}
	}
	if said != "<nil>" {
		t.Errorf("the process said %q", line)
	}
	there("while it runs", true)
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	there("when it was killed", false)
	if _, err := os.Lstat(dir); err == nil {
		t.Error(dir, "is left")
	}
}
