package engineapi_test

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"wolffia/internal/host/probe"
	"wolffia/internal/test/packaged"
	"wolffia/internal/test/servetest"
	"wolffia/internal/test/testbin"
	"wolffia/internal/test/testenv"
	"wolffia/internal/test/testimage"
	"wolffia/internal/test/wait"
)

func TestMain(m *testing.M) {
	syscall.Umask(0o077)
	m.Run()
	testbin.Remove()
}

const image = "busybox:1"

// limit is a guard against a hang.
const limit = 2 * time.Minute

// A world is a service with docker's socket, and an image.
type world struct {
	*servetest.Process
	socket string
}

func newWorld(t *testing.T, flags ...string) *world {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "docker.sock")
	w := &world{servetest.NewProcess(t, "", append(flags, "--docker-socket", socket)...), socket}
	w.ImportBusybox(image)
	return w
}

// run runs a program, which is to end with an exit code, and returns its output.
func (w *world) run(t *testing.T, code int, stdin string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Stdin = strings.NewReader(stdin)
	cmd.Env = append(os.Environ(), "DOCKER_HOST=unix://"+w.socket, "DOCKER_CONFIG="+w.State, "DOCKER_BUILDKIT=0")
	text, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != code {
		t.Fatalf("%q: %v, want exit code %d\n%s", args, err, code, text)
	}
	return string(text)
}

// The head of a stream and the stream are two reads, however late the client is: docker for Python
// drops what comes with the head.
func TestHeadApart(t *testing.T) {
	testenv.Tools(t, "docker")
	testenv.Busybox(t)
	w := newWorld(t)
	w.run(t, 0, "", "docker", "run", "-d", "--name", "box", image, "sleep", "600")
	conn, err := net.Dial("unix", w.socket)
	w.OK(err)
	defer conn.Close()
	w.OK(conn.SetDeadline(time.Now().Add(limit)))
	from := bufio.NewReader(conn)
	post := func(path, body string) {
		_, err := fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: d\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", path, len(body), body)
		w.OK(err)
	}
	post("/v1.41/containers/box/exec", `{"Cmd":["echo","out"],"AttachStdout":true}`)
	reply, err := http.ReadResponse(from, nil)
	w.OK(err)
	var made struct{ ID string }
	text, err := io.ReadAll(reply.Body)
	w.OK(err)
	w.OK(json.Unmarshal(text, &made))
	post("/v1.41/exec/"+made.ID+"/start", `{"Detach":false}`)
	wait.Until(t, "the command's end", func() bool {
		return strings.Contains(w.run(t, 0, "", "curl", "-sS", "--unix-socket", w.socket, "http://d/v1.41/exec/"+made.ID+"/json"), `"ExitCode":0`)
	})
	piece := make([]byte, 1<<16)
	n, err := conn.Read(piece)
	w.OK(err)
	if head := string(piece[:n]); !strings.HasSuffix(head, "\r\n\r\n") {
		t.Errorf("the first read: %q", head)
	}
	rest, err := io.ReadAll(conn)
	w.OK(err)
	if want := "\x01\x00\x00\x00\x00\x00\x00\x04out\n"; string(rest) != want {
		t.Errorf("the stream: %q, want %q", rest, want)
	}
}

// A step is a command line of docker's.
type step struct {
	command string
	code    int
	want    string // a pattern of the whole output
}

// Docker's own command line over the socket, and wolffia docker, do the same.
func TestCommandLine(t *testing.T) {
	testenv.Busybox(t)
	both := func(shown, ctx string) []step {
		return []step{
			{"version --format {{.Server.APIVersion}}", 0, `1\.41\n`},
			{"run --rm busybox:1 echo hi", 0, `hi\n`},
			{"run --rm -i busybox:1 cat", 0, `input`},
			{"run --rm busybox:1 sh -c exit${IFS}7", 7, `(?s).*`},
			{"run --rm busybox:1 nonsense", 127, `(?s).*executable file not found.*`},
			{"ps -aq", 0, ``},
			{"run -d --name box -w /made -e A=1 -p 8080 busybox:1 sleep 1h", 0, `[0-9a-f]{64}\n`},
			{"run --name box busybox:1 true", 125, `(?s).*container name "/box" is already in use.*`},
			{"ps --format {{.Names}}:{{.Image}}:{{.State}}", 0, `box:busybox:1:running\n`},
			{"ps", 0, `CONTAINER ID +IMAGE +COMMAND +CREATED +STATUS +PORTS +NAMES\n[0-9a-f]{12} +busybox:1 .*8080/tcp +box\n`},
			{"port box 8080", 0, `127\.0\.0\.1:[0-9]+\n`},
			{"exec -e B=2 box sh -c pwd;echo${IFS}$A$B", 0, `/made\n12\n`},
			{"exec -i box cat", 0, `input`},
			{"exec box sh -c exit${IFS}3", 3, `(?s).*`},
			{"exec box nonsense", 127, `(?s).*executable file not found.*`},
			{"cp " + shown + " box:/in", 0, `(?s).*`},
			{"exec box cat /in", 0, `shown\n`},
			{"cp box:/in -", 0, `(?s).*shown\n.*`},
			{"inspect -f {{.State.Status}}:{{.Config.Image}}:{{.Config.User}}:{{.HostConfig.Memory}} box", 0, `running:busybox:1::0\n`},
			{"image inspect -f {{.Os}} busybox:1", 0, `linux\n`},
			{"image inspect box", 1, `(?s).*No such image: box.*`},
			{"stop -t 1 box", 0, `box\n`},
			{"wait box", 0, `143\n`},
			{"exec box true", 1, `(?s).*is not running.*`},
			{"rm box", 0, `box\n`},
			{"run -d --name out busybox:1 sh -c echo${IFS}to-out;echo${IFS}to-err>&2", 0, `[0-9a-f]{64}\n`},
			{"wait out", 0, `0\n`},
			{"logs out", 0, `(?s)(to-out\nto-err\n|to-err\nto-out\n)`},
			{"start -a out", 0, `(?s).*to-out\n.*`},
			{"rm -f out", 0, `out\n`},
			{"run --cidfile " + shown + " busybox:1 true", 125, `(?s).*container ID file found.*`},
			{"build -q -t built:1 " + ctx, 0, `(?s).*sha256:[0-9a-f]{64}\n`},
			{"run --rm built:1 /file", 0, `built\n`},
			{"rmi built:1", 0, `Untagged: built:1\n`},
			{"images --format {{.Repository}}:{{.Tag}}", 0, `busybox:1\n`},
			{"run --network host busybox:1 true", 125, `(?s).*--network host: containers have network "none" here.*`},
			{"ps -aq", 0, ``},
		}
	}
	own := map[string][]step{
		"docker": {
			{"run --privileged busybox:1 true", 125, `(?s).*HostConfig\.Privileged: wolffia does not have this option.*`},
			{"run -v /etc:/x busybox:1 true", 125, `(?s).*the service shows no directory there.*`},
			{"network create n", 1, `(?s).*wolffia does not have this call.*`},
		},
		"wolffia": {
			{"run --privileged busybox:1 true", 125, `(?s).*unknown flag: --privileged.*`},
			{"run --rm -v /etc/hostname:/x busybox:1 sh -c test${IFS}-s${IFS}/x", 0, ``},
			{"network ls", 1, `(?s).*'network' is not a docker command.*`},
		},
	}
	for name, more := range own {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			program := []string{"docker"}
			if name == "wolffia" {
				program = []string{filepath.Join(testbin.Dir(t), "wolffia"), "--state-dir", w.State, "docker"}
			} else {
				testenv.Tools(t, "docker")
			}
			ctx := t.TempDir()
			shown := filepath.Join(ctx, "file")
			w.OK(os.WriteFile(shown, []byte("shown\n"), 0o600))
			w.OK(os.WriteFile(filepath.Join(ctx, "Dockerfile"), []byte("FROM "+image+"\nRUN echo built >/file\nENTRYPOINT [\"cat\"]\n"), 0o600))
			for _, s := range append(both(shown, ctx), more...) {
				got := w.run(t, s.code, "input", append(program, strings.Split(s.command, " ")...)...)
				if !regexp.MustCompile(`^` + s.want + `$`).MatchString(got) {
					t.Errorf("docker %s: got %q, want %s", s.command, got, s.want)
				}
			}
		})
	}
}

// A paused container stands still, and is shown, unpaused, stopped and removed as docker does.
func TestPause(t *testing.T) {
	testenv.Busybox(t)
	for name, with := range map[string]struct {
		feature probe.Feature
		flag    string
	}{"docker": {probe.Runsc, ""}, "wolffia": {probe.Cgroups, "--pids-limit 1000 "}} {
		t.Run(name, func(t *testing.T) {
			if with.feature == probe.Cgroups {
				testenv.Cgroups(t)
			} else {
				testenv.Need(t, with.feature)
			}
			socket := filepath.Join(t.TempDir(), "docker.sock")
			w := &world{servetest.NewProcess(t, "", "--docker-socket", socket, "--runtime", "gvisor"), socket}
			w.ImportBusybox(image)
			program := []string{"docker"}
			if name == "wolffia" {
				program = []string{filepath.Join(testbin.Dir(t), "wolffia"), "--state-dir", w.State, "docker"}
			} else {
				testenv.Tools(t, "docker")
			}
			const counts = "i=0;while\t:;do\ti=$((i+1));echo\t$i>/count;done"
			for _, s := range []step{
				{"run -d --name box " + with.flag + "busybox:1 sh -c " + counts, 0, `[0-9a-f]{64}\n`},
				{"unpause box", 1, `(?s).*is not paused.*`},
				{"pause box", 0, `box\n`},
				{"pause box", 1, `(?s).*is paused.*`},
				{"ps --format {{.Names}}:{{.State}}:{{.Status}}", 0, `box:paused:Up .* \(Paused\)\n`},
				{"inspect -f {{.State.Status}}:{{.State.Running}}:{{.State.Paused}} box", 0, `paused:true:true\n`},
				{"exec box true", 1, `(?s).*is paused.*`},
				{"start box", 1, `(?s).*is paused.*`},
				{"rm box", 1, `(?s).*container is paused.*`},
				{"unpause box", 0, `box\n`},
				{"exec box sh -c a=$(cat\t/count);while\t[\t\"$(cat\t/count)\"\t=\t\"$a\"\t];do\t:;done", 0, ``},
				{"pause box", 0, `box\n`},
				{"stop -t 1 box", 0, `box\n`},
				{"inspect -f {{.State.Status}}:{{.State.ExitCode}} box", 0, `exited:(143|137)\n`},
				{"start box", 0, `box\n`},
				{"pause box", 0, `box\n`},
				{"rm -f box", 0, `box\n`},
			} {
				got := w.run(t, s.code, "", append(program, strings.Split(s.command, " ")...)...)
				if !regexp.MustCompile(`^` + s.want + `$`).MatchString(got) {
					t.Errorf("docker %s: got %q, want %s", s.command, got, s.want)
				}
			}
		})
	}
}

// A Dockerfile reaches no image but of public registries: not the host's files, and not its
// network.
func TestBuildFrom(t *testing.T) {
	testenv.Tools(t, "docker")
	testenv.Busybox(t)
	w := newWorld(t)
	for from, want := range map[string]string{
		"oci:" + w.State:            "a request can name an image of a registry only",
		"docker-archive:/etc/hosts": "a request can name an image of a registry only",
		"127.0.0.1:9/x:1":           "the service lets requests name public registries only",
	} {
		ctx := t.TempDir()
		w.OK(os.WriteFile(filepath.Join(ctx, "Dockerfile"), []byte("FROM "+from+"\nCOPY . /\n"), 0o600))
		if got := w.run(t, 1, "", "docker", "build", ctx); !strings.Contains(got, want) {
			t.Errorf("FROM %s: got %s, want %q", from, got, want)
		}
	}
}

// A pull and a build have the credentials of the client, for the registry that they are of.
func TestCredentials(t *testing.T) {
	testenv.Tools(t, "docker")
	testenv.Busybox(t)
	images := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, password, _ := r.BasicAuth(); user != "zoe" || password != "secret" {
			w.Header().Set("WWW-Authenticate", "Basic")
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		images.ServeHTTP(w, r)
	}))
	host := s.Listener.Addr().String()
	w := newWorld(t, "--allow-registry", host)
	s.Start()
	t.Cleanup(s.Close)
	ref, err := name.ParseReference(host + "/private:1")
	w.OK(err)
	img := mutate.MediaType(empty.Image, types.OCIManifestSchema1)
	layer := testimage.Layer(t, append(testimage.Busybox(t), testimage.File{Name: "tag", Body: "private"})...)
	img, err = mutate.AppendLayers(img, static.NewLayer(layer, types.OCIUncompressedLayer))
	w.OK(err)
	c, err := img.ConfigFile()
	w.OK(err)
	c = c.DeepCopy()
	c.OS, c.Architecture = "linux", runtime.GOARCH
	img, err = mutate.ConfigFile(img, c)
	w.OK(err)
	w.OK(remote.Write(ref, img, remote.WithTransport(s.Client().Transport),
		remote.WithAuth(&authn.Basic{Username: "zoe", Password: "secret"})))

	ctx := t.TempDir()
	w.OK(os.WriteFile(filepath.Join(ctx, "Dockerfile"), []byte("FROM "+ref.Name()+"\nCOPY Dockerfile /\n"), 0o600))
	for _, c := range []struct {
		password string
		code     int
		command  []string
	}{
		{"wrong", 1, []string{"pull", ref.Name()}},
		{"wrong", 1, []string{"build", ctx}},
		{"secret", 0, []string{"build", ctx}},
		{"secret", 0, []string{"pull", ref.Name()}},
	} {
		auth := base64.StdEncoding.EncodeToString([]byte("zoe:" + c.password))
		file := filepath.Join(w.State, "config.json") // docker's, by DOCKER_CONFIG; not that of the service
		w.OK(os.WriteFile(file, []byte(`{"auths":{"`+host+`":{"auth":"`+auth+`"}}}`), 0o600))
		got := w.run(t, c.code, "", append([]string{"docker"}, c.command...)...)
		if c.code != 0 && !strings.Contains(got, "credentials") {
			t.Errorf("%s: %s", c.command, got)
		}
	}
}

// python has Python find packages beside those that it finds.
func python(t *testing.T, env []string) {
	t.Helper()
	testenv.Busybox(t)
	for _, v := range env {
		name, value, _ := strings.Cut(v, "=")
		if name == "PYTHONPATH" && os.Getenv(name) != "" {
			value += ":" + os.Getenv(name)
		}
		t.Setenv(name, value)
	}
}

// example runs an example of docs/docker.md: the one with a text in it.
func (w *world) example(t *testing.T, has string) string {
	t.Helper()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "docker.md"))
	w.OK(err)
	for _, block := range strings.Split(string(page), "```python\n")[1:] {
		if block, _, _ = strings.Cut(block, "```"); strings.Contains(block, has) {
			return w.run(t, 0, "", "python3", "-W", "ignore", "-c", block)
		}
	}
	t.Fatalf("docs/docker.md has no example with %q", has)
	return ""
}

// Python's client of docker drives it.
func TestPython(t *testing.T) {
	python(t, packaged.Python(t, filepath.Join("testdata", "requirements.txt")))
	w := newWorld(t)
	if got := w.run(t, 0, "", "python3", filepath.Join("testdata", "drive.py"), w.socket, image); got != "driven\n" {
		t.Errorf("drive.py: %s", got)
	}
	if got := w.example(t, "docker.from_env"); got != "inside\n\n" {
		t.Errorf("the example of docs/docker.md: %s", got)
	}
}

// Testcontainers starts a server, and reaches it at a port of the host.
func TestTestcontainers(t *testing.T) {
	testenv.Soak(t, "it installs testcontainers")
	python(t, packaged.Python(t, filepath.Join("testdata", "testcontainers.txt")))
	t.Setenv("TESTCONTAINERS_RYUK_DISABLED", "true")
	w := newWorld(t)
	if got := w.example(t, "testcontainers"); !regexp.MustCompile(`(?s)^.*inside\n\n127\.0\.0\.1 [0-9]+\n$`).MatchString(got) {
		t.Errorf("the example of docs/docker.md: %s", got)
	}
}

// mini-swe-agent and llm-sandbox work, which name docker their runtime.
func TestAgents(t *testing.T) {
	testenv.Soak(t, "it installs agents")
	python(t, packaged.Python(t, filepath.Join("testdata", "agents.txt")))
	python(t, packaged.Python(t, filepath.Join("testdata", "agents-alone.txt"), "--no-deps")) // without clients of models
	w := newWorld(t)
	program := filepath.Join(t.TempDir(), "docker")
	w.OK(os.WriteFile(program, []byte("#!/bin/sh\nexec "+filepath.Join(testbin.Dir(t), "wolffia")+" --state-dir "+w.State+" docker \"$@\"\n"), 0o700)) //nolint:gosec // a program
	t.Setenv("MSWEA_DOCKER_EXECUTABLE", program)
	t.Setenv("MSWEA_SILENT_STARTUP", "1")
	t.Setenv("MSWEA_GLOBAL_CONFIG_DIR", t.TempDir())
	if got := w.run(t, 0, "", "python3", filepath.Join("testdata", "agents.py"), image); !strings.HasSuffix(got, "ended\n") {
		t.Errorf("agents.py: %s", got)
	}
}
