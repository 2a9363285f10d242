package ci

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"wolffia/internal/test/suite"
)

// A gitlab serves one job to a runner, and the job's repository.
type gitlab struct {
	http.Handler
	mu                     sync.Mutex
	job                    map[string]any // nil: it was taken
	trace, state, artifact string
}

func (g *gitlab) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	g.mu.Lock()
	defer g.mu.Unlock()
	body, _ := io.ReadAll(r.Body)
	if strings.HasPrefix(r.URL.Path, "/api/") {
		w.Header().Set("Content-Type", "application/json")
	}
	switch {
	case strings.HasPrefix(r.URL.Path, "/acme/"):
		r.Body = io.NopCloser(bytes.NewReader(body))
		if user, password, _ := r.BasicAuth(); user != "gitlab-ci-token" || password != jobToken {
			w.Header().Set("WWW-Authenticate", "Basic")
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		g.Handler.ServeHTTP(w, r)
	case r.URL.Path == "/api/v4/jobs/request" && g.job != nil:
		w.WriteHeader(http.StatusCreated)
		json.NewEncoder(w).Encode(g.job)
		g.job = nil
	case r.URL.Path == "/api/v4/jobs/request":
		w.WriteHeader(http.StatusNoContent)
	case strings.HasSuffix(r.URL.Path, "/trace"):
		g.trace += string(body)
		w.Header().Set("Range", fmt.Sprint("0-", len(g.trace)))
		w.WriteHeader(http.StatusAccepted)
	case strings.HasSuffix(r.URL.Path, "/artifacts"):
		r.Body = io.NopCloser(bytes.NewReader(body))
		if file, _, err := r.FormFile("file"); err == nil {
			b, _ := io.ReadAll(file)
			g.artifact = string(b)
		}
		w.WriteHeader(http.StatusCreated)
	case r.Method == http.MethodPut:
		var update struct{ State string }
		json.Unmarshal(body, &update)
		g.state = update.State
	default:
		http.NotFound(w, r)
	}
}

// TestGitLabRunner: GitLab Runner itself, if it is in PATH, does a job with the executor.
func TestGitLabRunner(t *testing.T) {
	runner, err := exec.LookPath("gitlab-runner")
	if err != nil {
		t.Skip("gitlab-runner is not in PATH; no distribution that the tests know has a package of it")
	}
	e := newExecutor(t, "")
	origin := filepath.Join(e.dir, "origin/acme/web.git")
	suite.Git(t, e.dir, "init", "-q", origin)
	if err := os.WriteFile(filepath.Join(origin, "main.txt"), []byte("text\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	suite.Git(t, origin, "add", ".")
	suite.Git(t, origin, "commit", "-qm", "one")
	sha := strings.TrimSpace(suite.Git(t, origin, "rev-parse", "HEAD"))
	git, err := exec.LookPath("git")
	if err != nil {
		t.Fatal(err)
	}
	g := &gitlab{Handler: &cgi.Handler{Path: git, Args: []string{"http-backend"}, Env: []string{"GIT_PROJECT_ROOT=" + e.dir + "/origin", "GIT_HTTP_EXPORT_ALL=1"}}}
	server := httptest.NewServer(g)
	defer server.Close()
	_, port, _ := net.SplitHostPort(server.Listener.Addr().String())
	variable := func(key, value string) map[string]any {
		return map[string]any{"key": key, "value": value, "public": true}
	}
	g.job = map[string]any{
		"id": 42, "token": jobToken, "job_info": map[string]any{"name": "test", "stage": "test", "project_id": 1, "project_name": "web"},
		"git_info": map[string]any{
			"repo_url": "http://gitlab-ci-token:" + jobToken + "@127.0.0.1:" + port + "/acme/web.git",
			"ref":      "main", "sha": sha, "ref_type": "branch", "refspecs": []string{"+HEAD:refs/heads/main"},
		},
		"runner_info": map[string]any{"timeout": 600},
		"variables": []any{
			variable("CI_JOB_TOKEN", jobToken), variable("CI_COMMIT_SHA", sha), variable("CI_PROJECT_PATH", "acme/web"), variable("CI_SERVER_URL", server.URL),
			variable("MODE", "it's\nfast"), variable("DEPLOY_KEY", "deploy_secret"), variable("LD_PRELOAD", "/nowhere/evil.so"), variable("GIT_SSH_COMMAND", "evil"),
			map[string]any{"key": "KEY", "value": "file_secret", "file": true},
		},
		"steps": []any{
			map[string]any{"name": "script", "script": []string{"env", "cat main.txt; git remote -v; ls -A ..", "git log --format=%s", "echo '<testsuites/>' >junit.xml", "exit 3"}, "timeout": 600, "when": "on_success"},
			map[string]any{"name": "after_script", "script": []string{"echo after; ls"}, "timeout": 60, "when": "always", "allow_failure": true},
		},
		"artifacts": []any{map[string]any{"name": "reports", "paths": []string{"junit.xml"}, "when": "always", "artifact_type": "archive", "artifact_format": "zip"}},
	}
	settings := fmt.Sprintf("BUILDS=%[1]s/builds CACHE=%[1]s/cache FLAGS='' NAMES=MODE\nSOURCES='--expose %[2]s --mount %[3]s:/opt/runner -e PATH=/opt/runner:/usr/bin:/bin'\n",
		e.dir, port, filepath.Dir(runner))
	if err := os.WriteFile(filepath.Join(e.dir, "settings"), []byte(settings), 0o644); err != nil {
		t.Fatal(err)
	}
	program, err := filepath.Abs(integrations + "/gitlab/executor")
	if err != nil {
		t.Fatal(err)
	}
	args := []string{
		"run-single", "--url", server.URL, "--token", "t", "--max-builds", "1", "--executor", "custom", "--shell", "bash",
		"--builds-dir", e.dir + "/builds", "--cache-dir", e.dir + "/cache",
	}
	for _, stage := range []string{"config", "prepare", "run", "cleanup"} {
		args = append(args, "--custom-"+stage+"-exec", "/bin/bash")
		for _, arg := range []string{program, e.dir + "/settings", stage} {
			args = append(args, "--custom-"+stage+"-args", arg)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second) // a guard against a hang
	defer cancel()
	cmd := exec.CommandContext(ctx, runner, args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.Env = e.env
	out, err := cmd.CombinedOutput()
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.state != "failed" {
		t.Errorf("the job's state is %q, want failed, by exit 3", g.state)
	}
	for _, want := range []string{"MODE=it's\nfast\n", "CI_COMMIT_SHA=" + sha, "\ntext\n", "\none\n", "\nafter\n"} {
		if !strings.Contains(g.trace, want) {
			t.Errorf("the log has no %q", want)
		}
	}
	for _, secret := range []string{jobToken, "secret", "evil"} {
		if strings.Contains(strings.ReplaceAll(g.trace, "[MASKED]", ""), secret) {
			t.Errorf("the log has %q", secret)
		}
	}
	archive, zipErr := zip.NewReader(strings.NewReader(g.artifact), int64(len(g.artifact)))
	if zipErr != nil || len(archive.File) != 1 || archive.File[0].Name != "junit.xml" {
		t.Errorf("no junit.xml among the artifacts: %v", zipErr)
	}
	if left, _ := os.ReadDir(e.dir + "/builds"); len(left) > 0 {
		t.Errorf("cleanup leaves %v", left)
	}
	if t.Failed() {
		t.Logf("gitlab-runner: %v, %s\nlog: %s", err, out, g.trace)
	}
}
