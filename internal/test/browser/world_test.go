package browser

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"wolffia/internal/host/probe"
	"wolffia/internal/test/leak"
	"wolffia/internal/test/packaged"
	"wolffia/internal/test/shimtest"
	"wolffia/internal/test/suite"
	"wolffia/internal/test/testbin"
	"wolffia/internal/test/testenv"
	"wolffia/local"
	"wolffia/runtime/bwrap"
)

func TestMain(m *testing.M) {
	code := m.Run()
	testbin.Remove()
	os.Exit(code)
}

// A world is a state directory with a codebase, and what wolffia console shows of it.
type world struct {
	suite.T
	state, codebase string
	address         string // of the page, with its token
	server          int    // the process of wolffia console
}

// newWorld makes a world whose codebase has files by name.
func newWorld(t *testing.T, files map[string]string) *world {
	t.Helper()
	testenv.Need(t, probe.UserNamespaces, probe.Bubblewrap, probe.Fuse)
	testenv.Tools(t, "git")
	leak.Check(t)
	dir := t.TempDir()
	w := &world{T: suite.New(t), state: filepath.Join(dir, "state"), codebase: filepath.Join(dir, "web-shop")}
	for _, d := range []string{filepath.Dir(dir), dir} { // the user that root drops to must get here
		w.OK(os.Chmod(d, 0o755))
	}
	w.OK(os.Mkdir(w.codebase, 0o777))
	w.OK(os.Chmod(w.codebase, 0o777))
	for name, text := range files {
		file := filepath.Join(w.codebase, name)
		w.OK(os.MkdirAll(filepath.Dir(file), 0o777))
		w.OK(os.WriteFile(file, []byte(text), 0o666))
	}
	t.Cleanup(func() {
		rt, err := local.New(&local.Options{StateDir: w.state, Binary: w.program()}, bwrap.Backend())
		w.OK(err)
		shimtest.DestroyAll(t, rt)
		w.OK(rt.Close())
	})
	return w
}

func (w *world) program() string { return filepath.Join(testbin.Dir(w.TB), "wolffia") }

// command returns a command of wolffia's.
func (w *world) command(args ...string) *exec.Cmd {
	cmd := exec.CommandContext(w.Ctx, w.program(), append([]string{"--state-dir", w.state}, args...)...)
	cmd.Dir = w.codebase
	return cmd
}

// wolffia runs a command of wolffia's and returns what it prints, without the end of the line.
func (w *world) wolffia(args ...string) string {
	w.Helper()
	var log strings.Builder
	cmd := w.command(args...)
	cmd.Stderr = &log
	out, err := cmd.Output()
	if err != nil {
		w.Fatalf("wolffia %s: %v\n%s%s", strings.Join(args, " "), err, out, log.String())
	}
	return strings.TrimSuffix(string(out), "\n")
}

// inside runs a script in a sandbox, whatever its exit code is.
func (w *world) inside(id, script string) {
	w.Helper()
	cmd := w.command("exec", id, "--", "sh", "-c", script)
	if out, err := cmd.CombinedOutput(); err != nil {
		w.Fatalf("exec %s: %v\n%s", id, err, out)
	}
}

// serve starts wolffia console, which ends with the test.
func (w *world) serve() {
	w.Helper()
	cmd := w.command("console", "--no-open")
	var log suite.Buffer
	cmd.Stderr = &log
	out, err := cmd.StdoutPipe()
	w.OK(err)
	w.OK(cmd.Start())
	w.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		if err := cmd.Wait(); err != nil {
			w.Errorf("wolffia console: %v\n%s", err, log.String())
		}
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		w.Fatalf("wolffia console: %v\n%s", err, log.String())
	}
	w.address, w.server = strings.TrimSpace(line), cmd.Process.Pid
}

// place returns the fragment of a part of a sandbox.
func place(parts ...string) string { return "#/" + strings.Join(parts, "/") }

// web has the sources of the page, and pins axe-core.
const web = "../../../service/console/web"

// axe returns the script of axe-core.
func axe(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(packaged.Node(t, web), "node_modules", "axe-core", "axe.min.js"))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
