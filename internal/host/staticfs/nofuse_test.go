package staticfs_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"wolffia/internal/host/probe"
	"wolffia/internal/test/testbin"
	"wolffia/internal/test/testenv"
)

func TestMain(m *testing.M) {
	m.Run()
	testbin.Remove()
}

// Without FUSE a codebase is shown natively if the rules grant everything, or the user has
// asked for it; else the error says what there is.
func TestWithoutFuse(t *testing.T) {
	testenv.Need(t, probe.UserNamespaces, probe.Bubblewrap)
	if !testenv.InNamespace(t) {
		return
	}
	top := t.TempDir()
	code, empty := filepath.Join(top, "code"), filepath.Join(top, "empty")
	err := errors.Join(os.WriteFile(empty, nil, 0o666), unix.Mount(empty, "/dev/fuse", "", unix.MS_BIND, ""), os.MkdirAll(code+"/.git", 0o755))
	for name, content := range map[string]string{".env": "secret", "file": "text", ".git/config": "[core]\n"} {
		err = errors.Join(err, os.WriteFile(filepath.Join(code, name), []byte(content), 0o644))
	}
	if err != nil {
		t.Fatal(err)
	}
	wolffia := func(args ...string) (out, says string, code int) {
		cmd := exec.CommandContext(t.Context(), filepath.Join(testbin.Dir(t), "wolffia"), args...)
		var stdout, stderr strings.Builder
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		cmd.Env = append(os.Environ(), "WOLFFIA_STATE_DIR="+top+"/state", "HOME="+top)
		if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
			t.Fatal(err)
		}
		return stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()
	}
	const script = "cat file .env 2>/dev/null; echo x 2>/dev/null >.git/config && echo written; exit 0"
	for name, test := range map[string]struct {
		flags string
		out   string
		says  string // a part of standard error; empty: no output
	}{
		"auto":               {"", "", "--filter static masks"},
		"auto with all":      {"--preset full-access", "textsecretwritten\n", "the host's own .git"},
		"auto with a limit":  {"--preset full-access --disk 1g", "", "cannot be enforced without FUSE"},
		"fuse":               {"--filter fuse --preset full-access", "", "is not the device of FUSE"},
		"static":             {"--filter static", "textwritten\n", "1 hidden, 0 read-only; the sandbox has its own copy of each .git that there was (1)"},
		"static with a rule": {"--filter static --reveal .env=read", "textsecretwritten\n", "0 hidden, 1 read-only"},
		"static without git": {"--filter static --rule .git=read", "text", "1 hidden, 1 read-only; git directories that stay the host's, read-only, so that git commit does not work there: 1"},
		"static with all":    {"--filter static --preset full-access", "textsecretwritten\n", "0 hidden"},
		"static with disk":   {"--filter static --disk 1g", "", "cannot enforce a limit of disk"},
		"none":               {"--filter none", "", "(\".env=none\" of preset agent-safe), and nothing would enforce them"},
		"none with all":      {"--filter none --preset full-access", "textsecretwritten\n", "the host's own .git"},
		"another":            {"--filter some", "", `filter "some": it can be fuse, static or none`},
	} {
		args := append(append([]string{"run"}, strings.Fields(test.flags)...), "--codebase", code, "--", "sh", "-c", script)
		out, says, exit := wolffia(args...)
		if failed := exit != 0; out != test.out || failed != (test.out == "") || !strings.Contains(says, test.says) || test.says == "" && says != "" {
			t.Errorf(`%s: got exit %d, out %q, says %q; want out == %q and failed == test.out == "" and says contains %q and (test.says != "" or says == "")`,
				name, exit, out, says, test.out, test.says)
		}
		own := strings.Contains(test.flags, "static") && !strings.Contains(test.flags, "full-access")
		if config, err := os.ReadFile(code + "/.git/config"); err != nil || own && string(config) != "[core]\n" {
			t.Errorf("%s: the host's configuration is %q, %v", name, config, err)
		}
		if err := os.WriteFile(code+"/.git/config", []byte("[core]\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if out, says, _ := wolffia("run", "--no-codebase", "--", "pwd"); out != "/workspace\n" {
		t.Errorf("without a codebase: %q, %q", out, says)
	}
	if out, says, _ := wolffia("run", "--no-codebase", "--mount", code+":/src", "--cwd", "/src", "--", "cat", "file"); out != "text" {
		t.Errorf("with a mount: %q, %q", out, says)
	}
	if out, says, _ := wolffia("run", "--no-codebase", "--filter", "static", "--", "pwd"); out != "" || !strings.Contains(says, "the sandbox has none") {
		t.Errorf("a filter without a codebase: %q, %q", out, says)
	}
	if out, _, exit := wolffia("doctor"); exit != 125 || !strings.Contains(out, "What works without FUSE") {
		t.Errorf("doctor: %d, %s", exit, out)
	}
}
