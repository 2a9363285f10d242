package service_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"wolffia/internal/test/testenv"
	"wolffia/runtime"
	"wolffia/service"
)

// gitServer serves a bare repository to who has the password, over HTTP.
func gitServer(t *testing.T, user, password string) (url string) {
	t.Helper()
	root := t.TempDir()
	for _, args := range [][]string{{"init", "-q", "--bare", "repo.git"}, {"-C", "repo.git", "config", "http.receivepack", "true"}} {
		cmd := exec.Command("git", args...)
		cmd.Dir = root
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v: %s", args, err, out)
		}
	}
	libexec, err := exec.Command("git", "--exec-path").Output()
	if err != nil {
		t.Fatal(err)
	}
	backend := &cgi.Handler{
		Path: filepath.Join(strings.TrimSpace(string(libexec)), "git-http-backend"),
		Env:  []string{"GIT_PROJECT_ROOT=" + root, "GIT_HTTP_EXPORT_ALL=1", "REMOTE_USER=" + user},
	}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if u, p, ok := r.BasicAuth(); !ok || u != user || p != password {
			w.Header().Set("WWW-Authenticate", `Basic realm="git"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		backend.ServeHTTP(w, r)
	}))
	t.Cleanup(srv.Close)
	return srv.URL
}

// Git works for the owner, with the token, which is nowhere to be seen.
func TestGit(t *testing.T) {
	testenv.Tools(t, "git")
	const token = "ghp_7hJ2kQ9zXw4vB6nM1sD5fG8aLpR3tY0uEcIo" // made up
	url := gitServer(t, "zoe", token)
	w := newWorld(t)
	w.network = runtime.NetworkHost
	d := w.driver()
	config := &service.GitConfig{Username: "zoe", Email: "zoe@example.org", Token: token, URL: url}
	id := w.box(d, config)
	found, err := d.ScanRunningSandboxes(w.Ctx)
	w.OK(err)
	if len(found) != 1 || !found[0].GitConfigured {
		t.Errorf("found %+v", found)
	}
	commit := "export GIT_TERMINAL_PROMPT=0; cd /tmp && rm -rf c && git clone -q " + url + "/repo.git c && cd c && echo text >> file && git add file && git commit -qm one && git push -q origin HEAD"
	w.run(d, id, commit)
	if got := w.run(d, id, "git log -1 --format='%an %ae' origin/HEAD 2>/dev/null || git log -1 --format='%an %ae'"); got != "zoe zoe@example.org\n" {
		t.Errorf("the commit is %q", got)
	}
	unseen(w, id, token)

	// Not for any other place, and not for one that only looks like it.
	for _, other := range []string{"http://127.0.0.2:1", "https://" + strings.TrimPrefix(url, "http://"), "http://example.org"} {
		r, err := d.ExecuteBash(w.Ctx, id, &runtime.Command{Command: []string{"printf 'url=" + other + "\\n\\n' | git credential fill"}})
		if err != nil || r.ExitCode == 0 || strings.Contains(string(r.Stdout), token) {
			t.Errorf("%s is given %+v, %v", other, r, err)
		}
	}

	// Another token takes its place; the one that was there is gone.
	config.Token = "another"
	w.OK(d.ConfigureGit(w.Ctx, id, config))
	if got := w.run(d, id, "printf 'url="+url+"\\n\\n' | git credential fill"); strings.Contains(got, token) || !strings.Contains(got, "password=another\n") {
		t.Errorf("the cache has %q", got)
	}
	config.Username = "zoe2"
	w.OK(d.ConfigureGit(w.Ctx, id, config))
	config.Username = "zoe"
	if got := w.run(d, id, "printf 'url="+url+"\\nusername=zoe2\\n\\n' | git credential fill; printf 'url="+url+"\\nusername=zoe\\n\\n' | git credential fill 2>&1 || echo none"); strings.Count(got, "password=") != 1 || !strings.Contains(got, "none\n") {
		t.Errorf("the cache has both: %q", got)
	}
	if r, err := d.ExecuteBash(w.Ctx, id, &runtime.Command{Command: []string{commit}}); err != nil || r.ExitCode == 0 {
		t.Errorf("with a wrong token: %+v, %v", r, err)
	}
	// It ends with the sandbox, and not before: another service finds it.
	config.Token = token
	w.OK(d.ConfigureGit(w.Ctx, id, config))
	w.OK(w.rt.Close())
	w.rt = w.open()
	d = w.driver()
	w.run(d, id, commit)
	w.OK(w.rt.Stop(w.Ctx, id))
	unseen(w, "", token)
	w.OK(w.rt.Start(w.Ctx, id))
	if r, err := d.ExecuteBash(w.Ctx, id, &runtime.Command{Command: []string{commit}}); err != nil || r.ExitCode == 0 {
		t.Errorf("after stop and start: %+v, %v", r, err)
	}
}

// unseen looks for a secret: inside, in all files that can be changed and what
// /proc shows of every process; and outside, in the state directory, the
// codebase, and /proc.
func unseen(w *world, id, secret string) {
	w.Helper()
	if id != "" {
		// What to look for comes on standard input, which is no argument.
		look := `read -r s; p=$(mktemp -u); for f in /proc/[0-9]*/environ /proc/[0-9]*/cmdline; do
			while IFS= read -r -d "" a; do case $a in *"$s"*) echo "$f";; esac; done 2>/dev/null <"$f"; done
			printf '%s\n' "$s" | grep -rlsaF -f /dev/stdin "$HOME" /tmp /workspace /run /etc /dev/shm; true`
		r, err := w.rt.Exec(w.Ctx, id, &runtime.ExecRequest{Command: []string{"bash", "-c", look}, Stdin: strings.NewReader(secret + "\n")})
		w.OK(err)
		if r.ExitCode != 0 || len(r.Stdout) > 0 {
			w.Errorf("inside it is seen in %s (%d, %s)", r.Stdout, r.ExitCode, r.Stderr)
		}
		if got := w.run(w.driver(), id, "set; env; history; declare -p"); strings.Contains(got, secret) {
			w.Errorf("the shell has it: %s", got)
		}
	}
	shows := func(file string) {
		if b, err := os.ReadFile(file); err == nil && bytes.Contains(b, []byte(secret)) {
			w.Errorf("outside it is seen in %s", file)
		}
	}
	for _, dir := range []string{w.state, w.codebase} {
		_ = filepath.WalkDir(dir, func(file string, e fs.DirEntry, err error) error {
			if err == nil && e.Type().IsRegular() {
				shows(file)
			}
			return nil
		})
	}
	for _, what := range []string{"environ", "cmdline"} {
		files, err := filepath.Glob("/proc/[0-9]*/" + what)
		w.OK(err)
		for _, file := range files {
			shows(file)
		}
	}
}

// unseen must see, or it says nothing.
func TestUnseenSees(t *testing.T) {
	const secret = "sUp3r-s3cret-of-this-test"
	for what, leak := range map[string]string{
		"a file":       "printf '%s%s' sUp3r-s3cret- of-this-test > ~/f",
		"a variable":   "X=$(printf '%s%s' sUp3r-s3cret- of-this-test)",
		"environment":  "(X=$(printf '%s%s' sUp3r-s3cret- of-this-test) exec sleep 1000 >/dev/null 2>&1) &",
		"an argument":  "bash -c 'sleep 1000; :' $(printf '%s%s' sUp3r-s3cret- of-this-test) >/dev/null 2>&1 &",
		"the codebase": "printf '%s%s' sUp3r-s3cret- of-this-test > f",
	} {
		t.Run(what, func(t *testing.T) {
			w := newWorld(t)
			d := w.driver()
			id := w.box(d, nil)
			w.run(d, id, leak)
			w.Until("it is seen", func() bool {
				seen := &counter{TB: w.TB}
				look := *w
				look.TB = seen
				unseen(&look, id, secret)
				return seen.errors > 0
			})
		})
	}
}

// A counter counts errors instead of failing.
type counter struct {
	testing.TB
	errors int
}

func (c *counter) Errorf(string, ...any) { c.errors++ }

func TestGitConfigIsChecked(t *testing.T) {
	w := newWorld(t)
	d := w.driver()
	id := w.box(d, nil)
	good := service.GitConfig{Username: "-x --global 'a' $(b)", Email: "z\"#;\\@x"}
	w.OK(d.ConfigureGit(w.Ctx, id, &good))
	if got := w.run(d, id, "git config user.name; git config user.email"); got != good.Username+"\n"+good.Email+"\n" {
		t.Errorf("git has %q", got)
	}
	for what, change := range map[string]func(g *service.GitConfig){
		"no name":       func(g *service.GitConfig) { g.Username = "" },
		"no email":      func(g *service.GitConfig) { g.Email = "" },
		"lines":         func(g *service.GitConfig) { g.Username = "a\nhost=evil" },
		"a token of 2":  func(g *service.GitConfig) { g.Token = "secretly\nurl=http://evil" },
		"NUL":           func(g *service.GitConfig) { g.Token = "secretly\x00" },
		"no URL":        func(g *service.GitConfig) { g.URL = "secretly" },
		"a file":        func(g *service.GitConfig) { g.URL = "file:///secretly" },
		"a user":        func(g *service.GitConfig) { g.URL = "https://zoe:secretly@x" },
		"another place": func(g *service.GitConfig) { g.URL = "https://*" },
	} {
		g := service.GitConfig{Username: "z", Email: "z@x"}
		change(&g)
		err := d.ConfigureGit(w.Ctx, id, &g)
		w.Wrong(what, err, runtime.ErrInvalid)
		if err != nil && strings.Contains(err.Error(), "secretly") {
			t.Errorf("%s: the error shows it: %v", what, err)
		}
	}
}

func TestSecretIsNotShown(t *testing.T) {
	g := service.GitConfig{Username: "u", Email: "e", Token: "t0ken"}
	var log bytes.Buffer
	slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "config", g, "p", &g, "token", g.Token)
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "config", g, "p", &g, "token", g.Token)
	encoded, err := json.Marshal(&g)
	shown := fmt.Sprintf("%v %+v %#v %s %q %x %d", g, g, g, g.Token, g.Token, g.Token, g.Token) + fmt.Sprint(&g, g.Token) + log.String() + string(encoded)
	if err != nil || strings.Contains(shown, "t0ken") || strings.Contains(shown, fmt.Sprintf("%x", "t0ken")) {
		t.Errorf(`json.Marshal: got shown %s, err %v; want err == nil and shown does not contain t0ken and shown does not contain fmt.Sprintf(%q, "t0ken")`,
			shown, err, "%x")
	}
	var back service.GitConfig
	if err := json.Unmarshal([]byte(`{"username":"u","email":"e","token":"t0ken"}`), &back); err != nil || back != g {
		t.Errorf("json.Unmarshal: got %v, err %v; want err == nil and back == %v", back == g, err, g)
	}
}
