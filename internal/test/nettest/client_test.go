package nettest

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"wolffia/internal/host/probe"
	"wolffia/internal/test/testenv"
	"wolffia/runtime"
)

// ports are those that the rule for *.ok.example has.
const ports = "22,80,443,7007,8080"

// A client is a program that people use, with a script that has it reach the server $NAME. The script
// starts in an empty directory and prints "fine" at its end.
type client struct {
	name   string
	needs  []string // programs; the client is left out without them
	module string   // of Python, which it needs too
	ssh    bool     // needs the SSH server
	port   int
	script string
	// blind clients take no notice of proxy variables: they connect as without.
	blind bool
	// sample clients also run with the other backends in every run, without variables for a proxy.
	sample bool
	// bwrap clients work with bubblewrap only.
	bwrap bool
}

// python is that of the distribution, which sandboxes have.
const python = "/usr/bin/python3"

// clients are in the order of the issue.
var clients = []client{
	{name: "curl", needs: []string{"curl"}, port: 443, sample: true, script: `
curl -sS --max-time 60 https://$NAME/hello | grep -q "hello from $NAME"`},
	{name: "curl-http", needs: []string{"curl"}, port: 80, script: `
curl -sS --fail --max-time 60 http://$NAME/hello http://$NAME/hello | grep -c "hello from $NAME" | grep -qx 2`},
	{name: "curl-port", needs: []string{"curl"}, port: 8080, script: `
curl -sS --fail --max-time 60 http://$NAME:8080/hello | grep -q "hello from $NAME"`},
	{name: "curl-upload", needs: []string{"curl"}, port: 443, script: `
head -c 3000000 /dev/zero >zeros
curl -sS --fail --max-time 60 --http1.1 -H Expect: --data-binary @zeros https://$NAME/count | grep -qx "3000000 <nil>"
curl -sS --fail --max-time 60 https://$NAME/big | wc -c | grep -qx 8388608`},
	{name: "wget", needs: []string{"wget"}, port: 443, script: `
wget -q -t 1 -T 60 --ca-certificate=/conf/ca -O- https://$NAME/hello | grep -q "hello from $NAME"`},
	{name: "git-https", needs: []string{"git"}, port: 443, sample: true, script: `
git clone -q https://$NAME/git/repo.git
grep -qx cloned repo/README`},
	{name: "git-ssh", needs: []string{"git", "ssh"}, ssh: true, port: 22, blind: true, script: `
cp /conf/user key && chmod 600 key
export GIT_SSH_COMMAND="ssh -F /dev/null -o BatchMode=yes -o ConnectTimeout=60 -o UserKnownHostsFile=/conf/known_hosts -i $PWD/key"
git clone -q ssh://$LOGIN@$NAME$REPO repo
grep -qx cloned repo/README`},
	{name: "npm-ci", needs: []string{"npm", "node"}, port: 443, sample: true, script: `
cp /conf/package.json . && cp /conf/package-lock.json .
npm ci --cafile=/conf/ca --loglevel=error --no-audit --no-fund --no-update-notifier --fetch-retries=0 --registry=https://$NAME/npm/ --cache="$PWD/cache"
test "$(node -p 'require("dep").name')" = dep`},
	{name: "pip", needs: []string{python}, module: "pip", port: 443, script: `
/usr/bin/python3 -m pip -q --isolated --disable-pip-version-check --retries 0 --timeout 60 --no-cache-dir --cert /conf/ca install --target there --index-url https://$NAME/pip/ dep 2>&1
grep -q dep there/dep.py`},
	{name: "go", needs: []string{"go"}, port: 443, script: `
printf 'module x\n\ngo 1.19\n\nrequire dep.example/dep v1.0.0\n' >go.mod
export GOPROXY=https://$NAME/go GONOSUMDB='*' GOFLAGS=-mod=mod GOTOOLCHAIN=local GOMODCACHE="$PWD/cache" GOCACHE="$PWD/build"
go mod download dep.example/dep
test -f cache/dep.example/dep@v1.0.0/dep.go`},
	{name: "cargo", needs: []string{"cargo"}, port: 443, script: `
mkdir -p src .cargo && echo 'fn main() {}' >src/main.rs
printf '[package]\nname = "x"\nversion = "0.1.0"\nedition = "2021"\n\n[dependencies]\ndep = "1"\n' >Cargo.toml
printf '[source.crates-io]\nreplace-with = "test"\n[source.test]\nregistry = "sparse+https://%s/cargo/"\n[net]\nretry = 0\n' "$NAME" >.cargo/config.toml
export CARGO_HOME="$PWD/home" RUSTC_BOOTSTRAP=1 CARGO_UNSTABLE_SPARSE_REGISTRY=true # before cargo 1.68 sparse+ was unstable
cargo fetch -q
test -n "$(find home -name 'dep-1.0.0.crate')"`},
	{name: "apt", needs: []string{"apt-get"}, port: 80, script: `
mkdir -p state/lists/partial cache/archives/partial etc && : >status
echo "deb [trusted=yes] http://$NAME/debian ./" >sources
apt-get -q -o Dir::Etc::SourceList="$PWD/sources" -o Dir::Etc::SourceParts=/nonexistent -o Dir::Etc::Parts=/nonexistent -o Dir::Etc::Main=/nonexistent \
	-o Dir::State="$PWD/state" -o Dir::State::status="$PWD/status" -o Dir::Cache="$PWD/cache" -o Dir::Etc::Trusted=/nonexistent -o Dir::Etc::TrustedParts=/nonexistent \
	-o APT::Sandbox::User= -o Acquire::Retries=0 -o Debug::NoLocking=1 -o APT::Update::Error-Mode=any update
ls state/lists | grep -q Packages`},
	{name: "node-fetch", needs: []string{"node"}, port: 443, blind: true, script: `
node -e 'fetch("https://" + process.env.NAME + "/hello").then(r => r.text()).then(t => { if (t !== "hello from " + process.env.NAME + "\n") throw t }).catch(e => { console.error(e); process.exit(1) })'`},
	{name: "urllib", needs: []string{python}, port: 443, script: `
/usr/bin/python3 -c 'import os, urllib.request as u; n = os.environ["NAME"]; assert u.urlopen("https://" + n + "/hello", timeout=60).read().decode() == "hello from " + n + "\n"'`},
	{name: "requests", needs: []string{python}, module: "pip", port: 443, script: `
/usr/bin/python3 -c '
import os
try: import requests
except ImportError: from pip._vendor import requests
n = os.environ["NAME"]
s = requests.Session()
for i in range(3): assert s.get("https://" + n + "/hello", timeout=60, verify="/conf/ca").text == "hello from " + n + "\n"
for i in range(3): assert s.get("http://" + n + "/hello", timeout=60).text == "hello from " + n + "\n"'`},
	{name: "java", needs: []string{"java", "keytool"}, port: 443, blind: true, script: `
keytool -J-XX:TieredStopAtLevel=1 -J-XX:+UseSerialGC -importcert -noprompt -alias ca -file /conf/ca -keystore trust -storetype PKCS12 -storepass secret >/dev/null 2>&1
cp /conf/Fetch.java . && java -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Djavax.net.ssl.trustStore="$PWD/trust" -Djavax.net.ssl.trustStorePassword=secret Fetch.java "$NAME"`},
	{name: "raw", needs: []string{python}, port: echoPort, blind: true, sample: true, script: `
/usr/bin/python3 /conf/raw.py "$NAME" 7007`},
	{name: "addrconfig", needs: []string{python}, port: 443, blind: true, bwrap: true, script: `
/usr/bin/python3 -c 'import os, socket as s; s.getaddrinfo(os.environ["NAME"], 443, s.AF_INET, s.SOCK_STREAM, 0, s.AI_ADDRCONFIG)'`},
	{name: "websocket", needs: []string{python}, port: 80, blind: true, script: `
/usr/bin/python3 /conf/websocket.py "$NAME" 80`},
	{name: "websocket-tls", needs: []string{python}, port: 443, blind: true, script: `
/usr/bin/python3 /conf/websocket.py "$NAME" 443`},
}

// proxied are clients that speak to the proxies by themselves.
var proxied = []client{
	{name: "socks-curl", needs: []string{"curl"}, port: 443, sample: true, script: `
curl -sS --max-time 60 --noproxy '' --socks5-hostname 127.64.0.1:1080 https://$NAME/hello | grep -q "hello from $NAME"`},
	{name: "proxy-http", needs: []string{"curl"}, port: 80, script: `
curl -sS --fail --max-time 60 --noproxy '' --proxy http://127.64.0.1:3128 http://$NAME/hello | grep -q "hello from $NAME"`},
	{name: "proxy-websocket", needs: []string{"curl", python}, port: 80, script: `
/usr/bin/python3 /conf/websocket.py "$NAME" 80 127.64.0.1 3128`},
}

// clientFiles are files of the clients, for /conf.
func clientFiles(integrity npmIntegrity) map[string]string {
	files := map[string]string{
		"package.json": `{"name":"x","version":"1.0.0","dependencies":{"dep":"1.0.0"}}`,
		"package-lock.json": fmt.Sprintf(`{"name":"x","version":"1.0.0","lockfileVersion":3,"requires":true,"packages":{
"":{"name":"x","version":"1.0.0","dependencies":{"dep":"1.0.0"}},
"node_modules/dep":{"version":"1.0.0","integrity":%q}}}`, integrity),
	}
	for _, name := range []string{"raw.py", "websocket.py", "Fetch.java", "attack.py", "own.py"} {
		text, err := os.ReadFile("testdata/" + name)
		if err != nil {
			panic(err)
		}
		files[name] = string(text)
	}
	return files
}

const (
	unset = "unset http_proxy https_proxy HTTP_PROXY HTTPS_PROXY no_proxy NO_PROXY all_proxy ALL_PROXY\n"
	set   = unset + "export http_proxy=http://127.64.0.1:3128 https_proxy=http://127.64.0.1:3128 HTTP_PROXY=http://127.64.0.1:3128 HTTPS_PROXY=http://127.64.0.1:3128\n"
)

// run runs a client in the sandbox, in a directory of its own.
func (s *sandbox) run(t *testing.T, c *client, before, name string) *result {
	t.Helper()
	return s.sh(t, "set -eu\n"+before+"cd \"$(mktemp -d)\"\n"+strings.TrimSpace(c.script)+"\necho fine\n", "NAME="+name, "REPO="+s.repo)
}

// missing returns what a client needs and the sandbox lacks, as this host does, "" if nothing.
func (s *sandbox) missing(t *testing.T, c *client) string {
	t.Helper()
	for _, program := range c.needs {
		if r := s.sh(t, `command -v "$PROGRAM"`, "PROGRAM="+program); r.ExitCode != 0 {
			return "the program " + program
		}
	}
	if c.module != "" && s.sh(t, python+` -c "import $MODULE"`, "MODULE="+c.module).ExitCode != 0 {
		return "Python's module " + c.module
	}
	if c.ssh && s.ssh == "" {
		return "an SSH server that a user can run (Debian: openssh-server)"
	}
	return ""
}

// TestControl: with the host's network, each client works, also for names that no rule has. What
// fails in the other tests fails because of the filter.
func TestControl(t *testing.T) {
	testenv.Soak(t, "it tries the test itself")
	testenv.Need(t, probe.UserNamespaces, probe.Bubblewrap, probe.Fuse)
	if !alone(t) {
		return
	}
	w := newWorld(t)
	s := w.create(t, "bwrap", "--network", "host")
	for i := range clients {
		c := &clients[i]
		t.Run(c.name, func(t *testing.T) {
			if what := s.missing(t, c); what != "" {
				t.Skipf("%s%s needs %s", leftOut, c.name, what)
			}
			for _, name := range []string{c.name + ".ok.example", c.name + ".no.example"} {
				if r := s.run(t, c, unset, name); r.ExitCode != 0 || !strings.Contains(r.Stdout, "fine") {
					t.Errorf(`%s: got r %v; want r.ExitCode == 0 and r.Stdout contains "fine"`, name, r)
				}
			}
		})
	}
}

// TestClients: each client reaches a name that a rule has, with and without variables for a
// proxy, and no other, which wolffia reports with the flag that allows it.
func TestClients(t *testing.T) {
	testenv.Need(t, probe.UserNamespaces, probe.Bubblewrap, probe.Fuse)
	if alone(t) {
		tryClients(t, "bwrap")
	}
}

// TestClientsInGvisor is TestClients with another kernel.
func TestClientsInGvisor(t *testing.T) {
	testenv.Need(t, probe.UserNamespaces, probe.Fuse, probe.Runsc)
	if alone(t) {
		tryClients(t, "gvisor")
	}
}

// TestClientsInDocker is TestClients in an engine.
func TestClientsInDocker(t *testing.T) {
	testenv.Root(t) // who may start an engine in a namespace
	testenv.Tools(t, "dockerd")
	if alone(t) {
		testenv.Need(t, probe.Docker)
		tryClients(t, "docker")
	}
}

func tryClients(t *testing.T, backend string) {
	t.Helper()
	w := newWorld(t)
	s := w.create(t, backend, "--allow-host", "*.ok.example:"+ports)
	s.ownPorts(t) // before names are looked up
	for i := range clients {
		c := &clients[i]
		if c.bwrap && backend != "bwrap" {
			continue
		}
		s.try(t, c, "", unset, backend == "bwrap" || c.sample)
		if !c.blind {
			s.try(t, c, "+proxy", set, backend == "bwrap")
		}
	}
	for i := range proxied {
		s.try(t, &proxied[i], "", unset, backend == "bwrap" || proxied[i].sample)
	}
	for _, v := range w.visits.astray() {
		t.Errorf("the sandbox has connected to %v", v)
	}
	if names := w.names.questions(func(name string) bool { return strings.HasSuffix(name, ".no.example") }); len(names) > 0 {
		t.Errorf("names that no rule has were asked for on the host: %q", names)
	}
}

// ownPorts: a server inside can have a port that a rule has, at all addresses until a name is looked
// up, and at the loopback always; beside the latter the name is reached.
func (s *sandbox) ownPorts(t *testing.T) {
	t.Helper()
	t.Run("own ports", func(t *testing.T) {
		testenv.Tools(t, python, "curl")
		const serve = `/usr/bin/python3 /conf/own.py `
		if r := s.sh(t, serve+"0.0.0.0 127.0.0.1"); r.ExitCode != 0 || r.Stdout != "own\n" {
			t.Errorf("at all addresses: %v", r)
		}
		const name = "http://own-port.ok.example:8080/hello"
		if r := s.sh(t, unset+serve+"127.0.0.1 127.0.0.1 && curl -sS --fail --max-time 60 "+name); r.ExitCode != 0 || r.Stdout != "own\nhello from own-port.ok.example:8080\n" {
			t.Errorf("at the loopback, then the name: %v", r)
		}
		if r := s.sh(t, serve+"127.0.0.1 127.0.0.1"); r.ExitCode != 0 || r.Stdout != "own\n" {
			t.Errorf("at the loopback, after the name: %v", r)
		}
	})
}

// try runs a client for a name that a rule has, and for another. Each name occurs once.
func (s *sandbox) try(t *testing.T, c *client, with, before string, all bool) {
	t.Helper()
	t.Run(c.name+with, func(t *testing.T) {
		if !all && !testenv.Full() {
			t.Skip("SOAK: the sample is enough")
		}
		if what := s.missing(t, c); what != "" {
			t.Skipf("%s%s needs %s", leftOut, c.name, what)
		}
		label := strings.ReplaceAll(c.name+with, "+", "-")
		r := s.run(t, c, before, label+".ok.example")
		if r.ExitCode != 0 || !strings.Contains(r.Stdout, "fine") {
			t.Errorf("allowed: %v", r)
		}
		if len(r.Refused) > 0 {
			t.Errorf("allowed, but something was refused: %v", r)
		}
		name := label + ".no.example"
		r = s.run(t, c, before, name)
		if r.ExitCode == 0 || strings.Contains(r.Stdout, "fine") {
			t.Errorf("refused: the client worked: %v", r)
		}
		refusal := r.refused(func(e *runtime.Refusal) bool { return e.Name == name })
		switch {
		case refusal == nil:
			t.Errorf("no event has the name %s: %v", name, r)
		case refusal.Allow != "--allow-host "+name && refusal.Allow != fmt.Sprintf("--allow-host %s:%d", name, c.port):
			t.Errorf("the event's flag is %q: %v", refusal.Allow, r)
		}
	})
}
