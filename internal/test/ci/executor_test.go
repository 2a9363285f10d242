package ci

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"wolffia/internal/host/probe"
	"wolffia/internal/test/testbin"
	"wolffia/internal/test/testenv"
)

// An executor is the custom executor of integrations/gitlab, called as GitLab Runner calls it.
type executor struct {
	t   *testing.T
	dir string
	env []string
}

const (
	buildFailure  = 101
	systemFailure = 102
	jobToken      = "glcbt-64_secret"
)

// newExecutor makes a runner, and a job on it. response is what GitLab sent of the job.
func newExecutor(t *testing.T, response string, variables ...string) *executor {
	t.Helper()
	testenv.Unprivileged(t)
	testenv.Need(t, probe.UserNamespaces, probe.Bubblewrap, probe.Fuse)
	testenv.Tools(t, "bash", "git")
	e := &executor{t: t, dir: t.TempDir()}
	settings := "BUILDS=" + e.dir + "/builds CACHE=" + e.dir + "/cache SOURCES='' FLAGS='' NAMES='MODE LEVEL'\n"
	err := errors.Join(
		os.WriteFile(filepath.Join(e.dir, "settings"), []byte(settings), 0o644),
		os.WriteFile(filepath.Join(e.dir, "response.json"), []byte(response), 0o600))
	if err != nil {
		t.Fatal(err)
	}
	e.env = append([]string{
		"PATH=" + testbin.Dir(t) + ":" + os.Getenv("PATH"), "HOME=" + e.dir, "TMPDIR=" + e.dir, "WOLFFIA_STATE_DIR=" + e.dir + "/state",
		fmt.Sprint("BUILD_FAILURE_EXIT_CODE=", buildFailure), fmt.Sprint("SYSTEM_FAILURE_EXIT_CODE=", systemFailure),
		"JOB_RESPONSE_FILE=" + e.dir + "/response.json", "BUILD_EXIT_CODE_FILE=" + e.dir + "/code",
		"CUSTOM_ENV_CI_JOB_TOKEN=" + jobToken, "CUSTOM_ENV_CI_PROJECT_DIR=" + e.project(),
	}, variables...)
	return e
}

func (e *executor) project() string { return filepath.Join(e.dir, "builds/42/acme/web") }

// stage calls a stage, and returns its output and exit code.
func (e *executor) stage(args ...string) (string, int) {
	e.t.Helper()
	cmd := exec.Command("bash", append([]string{integrations + "/gitlab/executor", e.dir + "/settings"}, args...)...)
	cmd.Env = e.env
	out, err := cmd.CombinedOutput()
	if err != nil && cmd.ProcessState == nil {
		e.t.Fatal(err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

// quoted returns text as GitLab Runner writes it in a script (helpers.ShellEscape).
func quoted(text string) string {
	return "$'" + strings.NewReplacer(`\`, `\\`, "'", `\'`, "\n", `\n`, "\x1b", `\x1b`).Replace(text) + "'"
}

// run calls the stage run with a script of GitLab Runner 19, or 15 if old.
func (e *executor) run(step string, old bool, lines ...string) (string, int) {
	e.t.Helper()
	text := strings.Join(lines, "\n") + "\n"
	script := "#!/usr/bin/env bash\n\ntrap exit 1 TERM\n\ncase \"$(set -o)\" in *\"pipefail\"*) set -o pipefail;; esac; set -o errexit\nset +o noclobber\n"
	if old {
		text = strings.ReplaceAll(text, "\ncd ", "\n$'cd' ")
		script += ": | eval " + quoted(text) + "\nexit 0\n"
	} else {
		script += "(trap exit 1 TERM; eval " + quoted(text) + ") < /dev/null\nexit 0\n"
	}
	file := filepath.Join(e.dir, "script")
	if err := os.WriteFile(file, []byte(script), 0o600); err != nil {
		e.t.Fatal(err)
	}
	return e.stage("run", file, step)
}

// set returns the lines that set the variables of a job, as GitLab Runner writes them.
func (e *executor) set() []string {
	return []string{
		"export CI_JOB_TOKEN=" + jobToken, "export CI_COMMIT_SHA=0123abcd", "export MODE=" + quoted("it's\nfast"), "export LEVEL=3", "export PATH=/nowhere",
		`mkdir -p "` + e.project() + `.tmp"`, "printf '%s' " + quoted("file secret") + ` > "` + e.project() + `.tmp/KEY"`, `export KEY="` + e.project() + `.tmp/KEY"`,
		"export DEPLOY_KEY=deploy_secret",
	}
}

// TestExecutor: the four stages do a job; its commands get no token, no variable that the settings do not name, no
// hidden file, and the exit code of what fails arrives.
func TestExecutor(t *testing.T) {
	for _, old := range []bool{false, true} {
		t.Run(fmt.Sprint("old=", old), func(t *testing.T) {
			e := newExecutor(t, `{"id":42,"token":"x"}`)
			out, code := e.stage("config")
			var config struct {
				Builds string `json:"builds_dir"`
			}
			if err := json.Unmarshal([]byte(out), &config); err != nil || code != 0 || config.Builds != e.dir+"/builds/42" {
				t.Fatalf("config: code %d, error %v, %s", code, err, out)
			}
			if out, code := e.stage("prepare"); code != 0 {
				t.Fatalf("prepare: code %d, %s", code, out)
			}
			out, code = e.run("get_sources", old, append(e.set(), "mkdir -p "+e.project(), "cd "+e.project(), "git init -q", "echo S=s3cret >.env", "echo $CI_JOB_TOKEN $DEPLOY_KEY $MODE; type git >/dev/null")...)
			if code != 0 || out != jobToken+"\n" {
				t.Fatalf("get_sources: code %d, %q; want the token and no variable that a job can choose", code, out)
			}
			out, code = e.run("step_script", old, append(e.set(), "cd "+e.project(), `echo $'\x1b[32;1m$ make\x1b[0;m'`, "export OWN=own", "env", "cat", "cat .env || true",
				"ls -A ..", "echo '<testsuites/>' >junit.xml", "(exit 3)", "echo no")...)
			if code != buildFailure {
				t.Errorf("step_script: code %d, want that of a failed build", code)
			}
			for _, want := range []string{"CI_COMMIT_SHA=0123abcd\n", "MODE=it's\nfast\n", "LEVEL=3\n", "OWN=own\n", "\x1b[32;1m$ make\x1b[0;m\n"} {
				if !strings.Contains(out, want) {
					t.Errorf("step_script has no %q", want)
				}
			}
			for _, secret := range []string{"secret", jobToken, "KEY", "s3cret", "web.tmp", "no\n"} {
				if strings.Contains(out, secret) {
					t.Errorf("step_script has %q", secret)
				}
			}
			if t.Failed() {
				t.Log(out)
			}
			if b, err := os.ReadFile(filepath.Join(e.dir, "code")); string(b) != "3\n" {
				t.Errorf("BUILD_EXIT_CODE_FILE has %q, %v", b, err)
			}
			out, code = e.run("upload_artifacts_on_success", old, append(e.set(), "cd "+e.project(), "cat junit.xml .env")...)
			if code != 0 || out != "<testsuites/>\nS=s3cret\n" {
				t.Errorf("upload_artifacts_on_success: code %d, %q", code, out)
			}
			if out, code := e.stage("cleanup"); code != 0 {
				t.Errorf("cleanup: code %d, %s", code, out)
			}
			if _, err := os.Lstat(e.dir + "/builds/42"); err == nil {
				t.Error("cleanup leaves the job's directory")
			}
		})
	}
}

// TestExecutorRefuses: what the executor cannot judge fails as the system's failure, and runs nothing.
func TestExecutorRefuses(t *testing.T) {
	start := func(t *testing.T, response string, variables ...string) *executor {
		e := newExecutor(t, response, variables...)
		if err := os.MkdirAll(e.project(), 0o755); err != nil {
			t.Fatal(err)
		}
		return e
	}
	check := func(t *testing.T, out string, code int, want string) {
		t.Helper()
		if code != systemFailure || !strings.Contains(out, want) || strings.Contains(out, "ran") {
			t.Errorf("code %d, %q; want a failure of the system with %q", code, out, want)
		}
	}
	t.Run("hooks", func(t *testing.T) {
		e := start(t, `{"id":42,"hooks":[{"name":"pre_get_sources_script","script":["id"]}]}`)
		out, code := e.stage("prepare")
		check(t, out, code, "hooks would run beside the job's token")
	})
	t.Run("number", func(t *testing.T) {
		e := start(t, `{"id":"../..","token":"x"}`)
		out, code := e.stage("cleanup")
		check(t, out, code, "no number of the job")
	})
	t.Run("other directory", func(t *testing.T) {
		e := start(t, `{"id":42,"token":"x"}`)
		e.env = append(e.env, "CUSTOM_ENV_CI_PROJECT_DIR="+e.project()+"/../../../..")
		out, code := e.run("step_script", false, "cd "+e.project(), "echo ran")
		check(t, out, code, "CI_PROJECT_DIR is not below")
	})
	t.Run("no directory", func(t *testing.T) {
		e := start(t, `{"id":42,"token":"x"}`)
		out, code := e.run("step_script", false, "export A=1", "echo ran")
		check(t, out, code, "does not go to the checkout")
	})
	t.Run("token", func(t *testing.T) {
		e := start(t, `{"id":42,"token":"x"}`)
		out, code := e.run("step_script", false, "cd "+e.project(), "export CI_JOB_TOKEN="+jobToken, "echo ran")
		check(t, out, code, "contain the job's token")
	})
	for name, script := range map[string]string{"empty": "", "plain": "eval echo ran\nexit 0\n", "two": ": | eval $'echo ran'; echo $'ran'\nexit 0\n", "posix": ": | eval \"echo ran\"\nexit 0\n"} {
		t.Run("form "+name, func(t *testing.T) {
			e := start(t, `{"id":42,"token":"x"}`)
			file := filepath.Join(e.dir, "script")
			if err := os.WriteFile(file, []byte(script), 0o600); err != nil {
				t.Fatal(err)
			}
			for _, step := range []string{"step_script", "get_sources"} {
				out, code := e.stage("run", file, step)
				check(t, out, code, "has another form than expected")
			}
		})
	}
}
