// Package ci tests what runs wolffia for CI services, by the entry points that the services call.
package ci

import (
	"bytes"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"wolffia/internal/host/probe"
	"wolffia/internal/test/testbin"
	"wolffia/internal/test/testenv"
)

func TestMain(m *testing.M) {
	m.Run()
	testbin.Remove()
}

const integrations = "../../../integrations"

// An action is a composite action of GitHub's.
type action struct {
	Inputs map[string]struct{ Default string }
	Runs   struct {
		Steps []struct {
			Name, Run, Uses, If, Shell string
			WorkingDirectory           string `yaml:"working-directory"`
			Env                        map[string]string
		}
	}
}

// A job is one that uses the action, on a runner whose files are below dir.
type job struct {
	dir, checkout string
	env           []string
	log           string
	code          int
	denied        string
}

// use runs those steps of action.yml that are scripts, as a runner does.
func (j *job) use(t *testing.T, inputs map[string]string) {
	t.Helper()
	text, err := os.ReadFile(integrations + "/github-action/action.yml")
	if err != nil {
		t.Fatal(err)
	}
	var a action
	if err := yaml.Unmarshal(text, &a); err != nil {
		t.Fatal(err)
	}
	place, err := filepath.Abs(integrations + "/github-action")
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]string{"github.action_path": place, "github.action_repository": "acme/wolffia"}
	for name, in := range a.Inputs {
		known["inputs."+name] = in.Default
	}
	for name, value := range inputs {
		known["inputs."+name] = value
	}
	expression := regexp.MustCompile(`\$\{\{ *([\w.-]+) *\}\}`)
	value := func(s string) string {
		return expression.ReplaceAllStringFunc(s, func(e string) string {
			v, has := known[expression.FindStringSubmatch(e)[1]]
			if !has {
				t.Errorf("action.yml: %s is not known", e)
			}
			return v
		})
	}
	j.log, j.code = "", 0
	ran := 0
	for _, s := range a.Runs.Steps {
		if s.Run != "" {
			ran++
		}
		if s.Run == "" || j.code != 0 {
			continue
		}
		if s.Shell != "bash" || s.If != "" {
			t.Errorf("step %q: this test runs steps with shell: bash and no condition", s.Name)
		}
		script := filepath.Join(j.dir, "step.sh")
		if err := os.WriteFile(script, []byte(value(s.Run)), 0o644); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command("bash", "--noprofile", "--norc", "-e", "-o", "pipefail", script)
		cmd.Dir = filepath.Join(j.checkout, value(s.WorkingDirectory))
		cmd.Env = j.env
		for name, v := range s.Env {
			cmd.Env = append(cmd.Env, name+"="+value(v))
		}
		out, err := cmd.CombinedOutput()
		j.log += string(out)
		var exit *exec.ExitError
		switch {
		case errors.As(err, &exit):
			j.code = exit.ExitCode()
		case err != nil:
			t.Fatal(err)
		}
	}
	if ran != 2 {
		t.Errorf("action.yml has %d steps with a script, want 2", ran)
	}
	b, err := os.ReadFile(filepath.Join(j.dir, "output"))
	if err != nil {
		return // the first step has failed
	}
	j.denied = strings.TrimPrefix(string(bytes.TrimSpace(b[bytes.LastIndex(b, []byte("denied=")):])), "denied=")
}

// newJob makes a runner with a checkout.
func newJob(t *testing.T) *job {
	t.Helper()
	testenv.Need(t, probe.UserNamespaces, probe.Bubblewrap, probe.Fuse)
	testenv.Tools(t, "bash", "git", "jq")
	dir := t.TempDir()
	j := &job{dir: dir, checkout: filepath.Join(dir, "work")}
	for name, text := range map[string]string{"work/.env": "TOKEN=s3cret\n", "work/main.txt": "text\n", "home/.ssh/id": "private\n"} {
		file := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := exec.Command("git", "init", "-q", j.checkout).CombinedOutput(); err != nil {
		t.Fatalf("git init: %v, %s", err, out)
	}
	j.env = []string{
		"PATH=" + testbin.Dir(t) + ":" + os.Getenv("PATH"), "HOME=" + dir + "/home", "WOLFFIA_STATE_DIR=" + dir + "/state",
		"RUNNER_TEMP=" + dir, "GITHUB_OUTPUT=" + dir + "/output", "GITHUB_PATH=" + dir + "/path", "GITHUB_SERVER_URL=https://github.example",
		"GITHUB_SHA=0123abcd", "GITHUB_TOKEN=ghs_token", "ACTIONS_RUNTIME_TOKEN=runtime_token", "MODE=fast", "OTHER=other",
	}
	return j
}

// TestAction: the action runs a script over the checkout, with the variables that it names only; what was
// denied is annotated, and reports come out.
func TestAction(t *testing.T) {
	testenv.Unprivileged(t)
	j := newJob(t)
	j.use(t, map[string]string{
		"env": "GITHUB_SHA MODE", "reports": "out\nmissing",
		"run": `env | sort
cat main.txt
mkdir -p out && echo '<testsuites/>' >out/junit.xml && ln -s /etc/passwd out/link
cat .env || true
false | true`,
	})
	if j.code != 1 {
		t.Errorf("exit code %d, want 1, of a pipe that fails; %s", j.code, j.log)
	}
	for _, want := range []string{"GITHUB_SHA=0123abcd\n", "MODE=fast\n", "CI=true\n", "text\n", "\n::warning title=wolffia::lookup .env was denied; to allow it: --reveal '/.env=read'\n"} {
		if !strings.Contains(j.log, want) {
			t.Errorf("the log does not have %q", want)
		}
	}
	for _, secret := range []string{"ghs_token", "runtime_token", "s3cret", "OTHER="} {
		if strings.Contains(j.log, secret) {
			t.Errorf("the script got %q", secret)
		}
	}
	if t.Failed() {
		t.Log(j.log)
	}
	if b, err := os.ReadFile(j.denied); err != nil || !bytes.Contains(b, []byte(`"path":".env"`)) {
		t.Errorf("the output denied: %v, %s", err, b)
	}
	if b, err := os.ReadFile(filepath.Join(j.dir, "wolffia-reports/out/junit.xml")); err != nil || string(b) != "<testsuites/>\n" {
		t.Errorf("the report: %v, %q", err, b)
	}
	if _, err := os.Lstat(filepath.Join(j.dir, "wolffia-reports/out/link")); err == nil {
		t.Error("a link to a file of the host is among the reports")
	}
}

// TestActionInstall: without a wolffia the action takes none that the key of this repository has not signed.
func TestActionInstall(t *testing.T) {
	testenv.Unprivileged(t)
	testenv.Tools(t, "openssl", "curl")
	j := newJob(t)
	j.env[0] = "PATH=" + os.Getenv("PATH")
	if program, err := exec.LookPath("wolffia"); err == nil {
		testenv.Lacks(t, "no wolffia", program+" is in PATH")
	}
	j.use(t, map[string]string{"run": "true"})
	if j.code != 1 || !strings.Contains(j.log, "::error::no wolffia in PATH: set the input version") {
		t.Errorf("without a version: exit code %d, %s", j.code, j.log)
	}
	server := httptest.NewServer(http.FileServer(http.Dir("../release/testdata")))
	defer server.Close()
	j.use(t, map[string]string{"run": "true", "version": "v1.0.0", "url": server.URL})
	if j.code != 1 || !strings.Contains(j.log, "sign") {
		t.Errorf("signed by another key: exit code %d, want an error about the signature; %s", j.code, j.log)
	}
	if _, err := os.Lstat(filepath.Join(j.dir, "wolffia")); err == nil {
		t.Error("it is installed")
	}
}

// TestActionHostile: what a script prints and makes neither commands the runner nor leads out of the checkout.
func TestActionHostile(t *testing.T) {
	testenv.Unprivileged(t)
	j := newJob(t)
	if err := os.Mkdir(filepath.Join(j.checkout, "\n::error::own"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(j.checkout, "\n::error::own/.env"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	j.use(t, map[string]string{"reports": "out", "run": `echo ::error::said; cat */.env || true; ln -s "` + j.dir + `/home" out; printf 'no newline'`})
	if j.code != 1 || !strings.Contains(j.log, "::error::reports: out leads out of ") {
		t.Errorf("exit code %d, want an error about a report that leads out", j.code)
	}
	if _, err := os.Lstat(filepath.Join(j.dir, "wolffia-reports")); err == nil {
		t.Error("a report was taken from outside of the checkout")
	}
	token := regexp.MustCompile(`(?m)^::stop-commands::([0-9a-f]{64})$`).FindStringSubmatch(j.log)
	if token == nil {
		t.Fatal("commands are not stopped: ", j.log)
	}
	stopped, after, ended := strings.Cut(j.log, "\n::"+token[1]+"::\n")
	if !ended || !strings.Contains(stopped, "::error::said") {
		t.Errorf("what the script printed is not between the stop and the token: %s", j.log)
	}
	if strings.Contains(after, "\n::error::own") || !strings.Contains(after, "%0A::error::own/.env was denied") {
		t.Errorf("a name from inside gives the runner a command: %s", after)
	}
}
