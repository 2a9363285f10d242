package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
)

// ci compares a job's step as a CI service runs it on the host with the same step by what is in
// integrations: the action of GitHub's, without its installation, and the executor of GitLab's.
func (b *bench) ci() error {
	const step = "go version >/dev/null 2>&1 || true; test -e README; echo done >out.txt"
	dir, err := os.MkdirTemp("", "wolffia-bench-ci")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	project := filepath.Join(dir, "builds/1/web")
	err = os.MkdirAll(project, 0o755)
	for name, text := range map[string]string{
		"builds/1/web/README": "hello\n", "response": `{"id":1,"token":"x"}`,
		"settings": "BUILDS=" + dir + "/builds CACHE=" + dir + "/cache FLAGS=''\n",
		"script":   fmt.Sprintf("(eval $'cd %s\\n%s\\n') < /dev/null\nexit 0\n", project, step),
	} {
		err = errors.Join(err, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	if err != nil {
		return err
	}
	if err := outputError(exec.Command("git", "init", "-q", project)); err != nil {
		return err
	}
	env := append(os.Environ(), "PATH="+filepath.Dir(b.wolffia)+":"+os.Getenv("PATH"), "WOLFFIA_STATE_DIR="+b.state, "RUNNER_TEMP="+dir, "GITHUB_OUTPUT="+dir+"/output",
		"INPUT_RUN="+step, "INPUT_NAMES=", "INPUT_HOSTS=", "INPUT_FLAGS=", "INPUT_REPORTS=", "JOB_RESPONSE_FILE="+dir+"/response", "CUSTOM_ENV_CI_PROJECT_DIR="+project)
	here, err := filepath.Abs("integrations")
	if err != nil {
		return err
	}
	ways := []struct {
		name    string
		command []string
		t       times
	}{
		{name: "a step of a job: bash", command: []string{"bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step}},
		{name: "the same, by the action for GitHub", command: []string{here + "/github-action/run"}},
		{name: "the same, by the executor for GitLab", command: []string{"bash", here + "/gitlab/executor", dir + "/settings", "run", dir + "/script", "step_script"}},
	}
	for i := range peerTurns + 2 { // two warm up
		for j := range ways {
			w := &ways[j]
			cmd := exec.Command(w.command[0], w.command[1:]...)
			cmd.Dir, cmd.Env = project, env
			d, err := took(func() error { return outputError(cmd) })
			if err != nil {
				return fmt.Errorf("%s: %w", w.name, err)
			}
			if i >= 2 {
				w.t = append(w.t, d)
			}
		}
	}
	slices.Sort(ways[0].t)
	for i, w := range ways {
		bar := ""
		if i > 0 {
			slices.Sort(w.t)
			bar = "adds " + ms(w.t.at(0.5)-ways[0].t.at(0.5))
		}
		b.row(w.name, w.t, bar)
	}
	return nil
}
