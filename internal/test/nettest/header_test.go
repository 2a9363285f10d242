package nettest

import (
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"wolffia/internal/host/probe"
	"wolffia/internal/test/testenv"
)

// sealed is a host that serves only requests with the secret, which stays outside.
const (
	sealed = "sealed.ok.example"
	secret = "Bearer 5c3e-that-stays-outside"
)

// sealing refuses requests to sealed without the secret.
func sealing(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host := r.Host
		if name, _, err := net.SplitHostPort(host); err == nil {
			host = name
		}
		if host == sealed && (r.Header.Get("Authorization") != secret || r.TLS == nil) {
			http.Error(w, "not authorized", http.StatusUnauthorized)
			return
		}
		handler.ServeHTTP(w, r)
	})
}

// sealedClients use the secret through http://NAME.wolffia, as docs/network.md has them do.
var sealedClients = []client{
	{name: "curl", needs: []string{"curl"}, sample: true, script: `
curl -sS --fail --max-time 60 http://$NAME.wolffia/hello | grep -q "hello from $NAME"`},
	{name: "git", needs: []string{"git"}, sample: true, script: `
export HOME="$PWD"
git config --global url.http://$NAME.wolffia/.insteadOf https://$NAME/
git clone -q https://$NAME/git/repo.git
grep -qx cloned repo/README`},
	{name: "npm", needs: []string{"npm", "node"}, script: `
export HOME="$PWD"
export npm_config_update_notifier=false # each command of npm may ask for a newer npm
npm config set registry http://$NAME.wolffia/npm/
npm config set replace-registry-host always
cp /conf/package.json .
npm install --loglevel=error --no-audit --no-fund --fetch-retries=0 --cache="$PWD/cache"
test "$(node -p 'require("dep").name')" = dep`},
	{name: "pip", needs: []string{python}, module: "pip", script: `
export HOME="$PWD" XDG_CONFIG_HOME="$PWD/config"
/usr/bin/python3 -m pip config --user set global.index-url http://$NAME.wolffia/pip/ >config.log
/usr/bin/python3 -m pip config --user set global.trusted-host $NAME.wolffia >config.log
/usr/bin/python3 -m pip -q --disable-pip-version-check --retries 0 --timeout 60 --no-cache-dir install --target there dep 2>&1
grep -q dep there/dep.py`},
	{name: "go", needs: []string{"go"}, script: `
printf 'module x\n\ngo 1.19\n\nrequire dep.example/dep v1.0.0\n' >go.mod
export GOPROXY=http://$NAME.wolffia/go GONOSUMDB='*' GOFLAGS=-mod=mod GOTOOLCHAIN=local GOMODCACHE="$PWD/cache" GOCACHE="$PWD/build"
go mod download dep.example/dep
test -f cache/dep.example/dep@v1.0.0/dep.go`},
}

// TestHeaders: tools use a secret that no file, variable or process inside has, and no log.
func TestHeaders(t *testing.T) {
	testenv.Need(t, probe.UserNamespaces, probe.Bubblewrap, probe.Fuse)
	if alone(t) {
		tryHeaders(t, "bwrap")
	}
}

// TestHeadersInGvisor is TestHeaders with another kernel.
func TestHeadersInGvisor(t *testing.T) {
	testenv.Need(t, probe.UserNamespaces, probe.Fuse, probe.Runsc)
	if alone(t) {
		tryHeaders(t, "gvisor")
	}
}

func tryHeaders(t *testing.T, backend string) {
	t.Helper()
	w := newWorld(t)
	w.env = append(w.env, "SSL_CERT_FILE="+filepath.Join(w.conf, "ca")) // for the shim, which connects
	token := filepath.Join(filepath.Dir(w.conf), "keys", "token")
	if err := os.WriteFile(token, []byte(secret+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() == 0 { // the shim is the owner of the codebase
		if err := os.Chown(token, 65534, 65534); err != nil {
			t.Fatal(err)
		}
	}
	s := w.create(t, backend, "--header", sealed+":Authorization=@"+token)
	for i := range sealedClients {
		c := &sealedClients[i]
		t.Run(c.name, func(t *testing.T) {
			if backend != "bwrap" && !c.sample && !testenv.Full() {
				t.Skip("SOAK: the sample is enough")
			}
			if what := s.missing(t, c); what != "" {
				t.Skipf("%s%s needs %s", leftOut, c.name, what)
			}
			if r := s.run(t, c, "", sealed); r.ExitCode != 0 || !strings.Contains(r.Stdout, "fine") || len(r.Refused) > 0 {
				t.Errorf(`run: got r %v; want r.ExitCode == 0 and r.Stdout contains "fine" and len(r.Refused) <= 0`, r)
			}
		})
	}
	// The host itself is not allowed, and another name has no secret.
	for url, flag := range map[string]string{"https://" + sealed + "/hello": "--allow-host " + sealed, "http://a.ok.example.wolffia/hello": "--header a.ok.example:HEADER=@FILE"} {
		if r := s.sh(t, "curl -sS --fail --max-time 60 "+url); r.ExitCode == 0 || len(r.Refused) == 0 || r.Refused[0].Allow != flag {
			t.Errorf("%s: want %s: %v", url, flag, r)
		}
	}
	part := strings.TrimPrefix(secret, "Bearer ")
	// The pattern is in no process's arguments, and the search's own memory is not searched.
	r := s.sh(t, `printf '%s-%s' "$A" "$B" >/tmp/pattern
cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline 2>/dev/null | grep -caFf /tmp/pattern
rm -rf /tmp/tmp.*/cache
grep -rlsFf /tmp/pattern /etc /run /conf /home /tmp /workspace --exclude=pattern
test -r "$FILE" && echo readable
true`, "A="+part[:4], "B="+part[5:], "FILE="+token)
	if r.ExitCode != 0 || strings.TrimSpace(r.Stdout) != "0" {
		t.Errorf("inside: %v", r)
	}
	if log := s.must(t, "audit", "--json", s.id) + s.must(t, "logs", s.id) + s.must(t, "network", "show", "--json", s.id) + s.must(t, "inspect", s.id); strings.Contains(log, part) {
		t.Errorf("a log has the secret: %s", log)
	}
	state := filepath.Join(filepath.Dir(w.conf), "state")
	if err := filepath.WalkDir(state, func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(path)
		if strings.Contains(string(text), part) {
			t.Errorf("%s has the secret", path)
		}
		return err
	}); err != nil {
		t.Error(err)
	}
}
