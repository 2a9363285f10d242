package engineapi

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"wolffia/runtime"
	"wolffia/service/container"
)

// What a client asks for and does not exist here is never dropped.
func TestDecode(t *testing.T) {
	for text, refused := range map[string]bool{
		`{"Image":"x","HostConfig":{"Privileged":false,"CapAdd":null,"Ulimits":[],"ConsoleSize":[0,0],"RestartPolicy":{"Name":"no","MaximumRetryCount":0}}}`: false,
		`{"Image":"x","NetworkingConfig":{"EndpointsConfig":{"default":{"Links":null,"IPAddress":""}}}}`:                                                     false,
		`{"Image":"x","HostConfig":{"MemorySwappiness":-1,"LogConfig":{"Type":"json-file"}}}`:                                                                false,
		`{"Image":"x","HostConfig":{"Privileged":true}}`:                                                                                                     true,
		`{"Image":"x","HostConfig":{"RestartPolicy":{"Name":"always"}}}`:                                                                                     true,
		`{"Image":"x","NetworkingConfig":{"EndpointsConfig":{"mine":{"Aliases":["db"]}}}}`:                                                                   true,
		`{"Image":"x","Hostname":"h"}`:                   true,
		`{"Image":"x","hostconfig":{"privileged":true}}`: true,
		`{"Image":"x","Future":{"Option":"on"}}`:         true,
		`{"Image":"x","HostConfig":{"Mounts":[{"Type":"bind","Source":"/a","Target":"/b","BindOptions":{"Propagation":"rshared"}}]}}`: true,
		`{"Image":"x","HostConfig":{"Mounts":[{"Type":"volume","Target":"/b","Consistency":""}]}}`:                                    false,
		`{"Image":"x","HostConfig":{"PortBindings":{"80/tcp":[{"HostIp":"","HostPort":"","Future":1}]}}}`:                             true,
		`{"Image":"x","HostConfig":{"Tmpfs":{"/run":""}}}`:                                                                            true,
		`{"Image":"x","HostConfig":{"Sysctls":{"net.ipv4.ip_forward":""}}}`:                                                           true,
		`{"Image":"x","NetworkingConfig":{"EndpointsConfig":{"mine":{}}}}`:                                                            true,
	} {
		err := decode([]byte(text), new(container.Config))
		if errors.Is(err, runtime.ErrUnsupported) != refused || !refused && err != nil {
			t.Errorf("%s: %v, want refused: %v", text, err, refused)
		}
	}
}

func TestFind(t *testing.T) {
	for path, want := range map[string][2]string{
		"/v1.41/containers/json":             {"GET containers/json", ""},
		"/containers/abc/json":               {"GET containers/*/json", "abc"},
		"/v1.24/images/host:5000/a/b:1/json": {"GET images/*/json", "host:5000/a/b:1"},
		"/v1.41/swarm":                       {"", ""},
		"/v1.41/containers/abc/top":          {"", ""},
		"/_ping":                             {"GET _ping", ""},
	} {
		c, pattern, ref := find("GET", path)
		if pattern != want[0] || ref != want[1] || (c == nil) != (pattern == "") {
			t.Errorf("%s: got %q %q, want %q", path, pattern, ref, want)
		}
	}
}

// A build reads only what its context has, and has what its client asks for.
func TestBuildRequest(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(outside, []byte("FROM x"), 0o600); err != nil {
		t.Fatal(err)
	}
	plain := tar.Header{Name: "Dockerfile", Typeflag: tar.TypeReg}
	for name, c := range map[string]struct {
		query   string
		entries []tar.Header
		want    int // status
	}{
		"plain":     {"", []tar.Header{plain}, 200},
		"inside":    {"?dockerfile=l", []tar.Header{plain, {Name: "l", Typeflag: tar.TypeSymlink, Linkname: "Dockerfile"}}, 200},
		"link":      {"", []tar.Header{{Name: "Dockerfile", Typeflag: tar.TypeSymlink, Linkname: outside}}, 400},
		"directory": {"?dockerfile=l/secret", []tar.Header{{Name: "l", Typeflag: tar.TypeSymlink, Linkname: filepath.Dir(outside)}}, 400},
		"ignore":    {"", []tar.Header{plain, {Name: "Dockerfile.dockerignore", Typeflag: tar.TypeSymlink, Linkname: outside}}, 400},
		"parent":    {"?dockerfile=../x", []tar.Header{plain}, 400},
		"none":      {"?dockerfile=none", []tar.Header{plain}, 400},
		"offline":   {"?networkmode=none", []tar.Header{plain}, 200},
		"online":    {"?networkmode=host", []tar.Header{plain}, 501},
	} {
		var got *BuildRequest
		h := New(nil, &Options{Temp: t.TempDir(), Build: func(_ context.Context, q *BuildRequest, _ io.Writer) (string, error) {
			got = q
			return "sha256:0", nil
		}})
		var archive bytes.Buffer
		w := tar.NewWriter(&archive)
		for i := range c.entries {
			if err := w.WriteHeader(&c.entries[i]); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		reply := httptest.NewRecorder()
		h.ServeHTTP(reply, httptest.NewRequest(http.MethodPost, "/build"+c.query, &archive))
		if reply.Code != c.want || (got != nil) != (c.want == 200) {
			t.Errorf("%s: status %d, want %d; built: %v", name, reply.Code, c.want, got != nil)
		}
		if got != nil && got.Offline != (name == "offline") {
			t.Errorf("%s: without a network: %v", name, got.Offline)
		}
	}
}

// What a killed service has left of its builds goes with the next one.
func TestLeftBuilds(t *testing.T) {
	temp := filepath.Join(t.TempDir(), "builds")
	New(nil, &Options{Temp: temp}) // without it
	if err := os.MkdirAll(filepath.Join(temp, "build-1", "x"), 0o700); err != nil {
		t.Fatal(err)
	}
	New(nil, &Options{Temp: temp})
	if _, err := os.Stat(temp); err == nil {
		t.Error("the contexts of builds stay")
	}
}

// A parameter that asks for what does not exist here is refused.
func TestParameters(t *testing.T) {
	h := New(nil, &Options{})
	for _, call := range []string{
		"POST /containers/create?platform=linux/none", "POST /images/create?fromImage=x&platform=linux/none",
	} {
		method, path, _ := strings.Cut(call, " ")
		reply := httptest.NewRecorder()
		h.ServeHTTP(reply, httptest.NewRequest(method, path, http.NoBody))
		if reply.Code != http.StatusNotImplemented {
			t.Errorf("%s: status %d, want 501", call, reply.Code)
		}
	}
}

// A build has the credentials of its client, each for one registry, and refuses those that it cannot
// read.
func TestLogins(t *testing.T) {
	for text, want := range map[string][3]string{
		`{"https://index.docker.io/v1/":{"username":"u","password":"p","email":"e"}}`: {"debian", `{"password":"p","username":"u"}`},
		`{"registry.example":{"auth":"dTpw"},"other.example":{}}`:                     {"registry.example/a:1", `{"auth":"dTpw"}`},
		`{"registry.example":1}`: {"", "", "error"},
	} {
		all, err := logins(base64.URLEncoding.EncodeToString([]byte(text)))
		q := &BuildRequest{logins: all}
		if got := string(q.Login(want[0])); got != want[1] || (err == nil) != (want[2] == "") {
			t.Errorf("%s: %s, %v; want %q", text, got, err, want)
		}
		if got := q.Login("other.example/x:1"); got != nil {
			t.Errorf("%s: another registry gets %s", text, got)
		}
	}
}

// What is kept of commands is bounded by all of their parts.
func TestExecutionsOfManyParts(t *testing.T) {
	var x executions
	for n := range 100 {
		e := &execution{id: strconv.Itoa(n)}
		e.ask.WorkingDir, e.ask.Cmd = strings.Repeat("x", 1<<19), make(container.Words, 1<<15)
		if err := x.add(e); err != nil {
			t.Fatal(err)
		}
	}
	if most := maxExecsSize >> 20; len(x.all) > most { // each takes a MiB
		t.Errorf("%d commands are kept, want at most %d", len(x.all), most)
	}
	e := x.all[0]
	if _, err := x.begin(e); err != nil || len(e.ask.Cmd) > maxShown/perText+1 || e.ask.WorkingDir != "" {
		t.Errorf("%d words of a command that was started are kept, %v", len(e.ask.Cmd), err)
	}
}

// What is kept of commands is bounded, and a command that runs is not forgotten.
func TestExecutions(t *testing.T) {
	var x executions
	for n := range 3 * maxExecs {
		e := &execution{id: strconv.Itoa(n)}
		if n%3 == 0 {
			e.ask.Cmd = container.Words{"sh", strings.Repeat("x", 1<<20)}
		}
		if n == 0 {
			if _, err := x.begin(e); err != nil {
				t.Fatal(err)
			}
		}
		if err := x.add(e); err != nil {
			t.Fatal(err)
		}
	}
	total := 0
	for _, e := range x.all {
		total += e.size()
	}
	if total > maxExecsSize || len(x.all) > maxExecs || len(x.all) < 10 {
		t.Errorf("%d commands of %d bytes are kept", len(x.all), total)
	}
	first, err := x.find("0")
	if err != nil {
		t.Fatal("a command that runs was forgotten")
	}
	if n := first.size(); n > maxShown {
		t.Errorf("%d bytes of a command that was started are kept", n)
	}
}
