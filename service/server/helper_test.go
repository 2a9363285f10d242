package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"wolffia/internal/host/probe"
	"wolffia/internal/test/leak"
	"wolffia/internal/test/shimtest"
	"wolffia/internal/test/suite"
	"wolffia/internal/test/testbin"
	"wolffia/internal/test/testenv"
	"wolffia/local"
	"wolffia/perm"
	"wolffia/runtime"
	"wolffia/runtime/bwrap"
	"wolffia/service"
	"wolffia/service/registry"
	"wolffia/service/server"
)

func TestMain(m *testing.M) {
	syscall.Umask(0o077)
	if path := os.Getenv(dialPath); path != "" {
		dialAndLeave(path)
	}
	m.Run()
	testbin.Remove()
}

// A world is a state directory with a codebase, and a server on a real socket.
type world struct {
	suite.T
	dir, state, codebase, socket string
	service                      *service.Service
	server                       *server.Server
	ended                        chan error // what Serve has returned
	log                          suite.Buffer
	client                       *http.Client
}

func newWorld(t testing.TB, opts *server.Options) *world {
	t.Helper()
	testenv.Need(t, probe.UserNamespaces, probe.Bubblewrap, probe.Fuse)
	leak.Check(t)
	dir := t.TempDir()
	w := &world{T: suite.New(t), dir: dir, state: filepath.Join(dir, "state"), codebase: filepath.Join(dir, "codebase")}
	for _, d := range []string{filepath.Dir(dir), dir} { // the user that root drops to must get here
		w.OK(os.Chmod(d, 0o755))
	}
	w.OK(os.Mkdir(w.codebase, 0o777))
	w.OK(os.Chmod(w.codebase, 0o777))
	rt := w.open()
	t.Cleanup(func() { shimtest.DestroyAll(t, w.open()) })
	w.serve(rt, &service.Options{
		Configure: func(context.Context, *service.Params) (*runtime.SandboxConfig, error) {
			return &runtime.SandboxConfig{CodebasePath: w.codebase, Permissions: []perm.Rule{
				{Pattern: "**", Level: perm.Write}, {Pattern: "secret", Level: perm.None, Priority: 10},
			}}, nil
		},
	}, opts)
	return w
}

// open returns a runtime as another process has it.
func (w *world) open() *local.Runtime {
	w.Helper()
	rt, err := local.New(&local.Options{StateDir: w.state, Binary: filepath.Join(testbin.Dir(w.TB), "wolffia")}, bwrap.Backend())
	w.OK(err)
	w.Cleanup(func() { _ = rt.Close() })
	return rt
}

// serve serves a runtime, with the limits of opts.
func (w *world) serve(rt service.Runtime, of *service.Options, opts *server.Options) {
	w.Helper()
	if opts == nil {
		opts = &server.Options{}
	}
	opts.Log = slog.New(slog.NewJSONHandler(&w.log, nil))
	var err error
	of.Log = opts.Log
	w.service, err = service.Open(w.Ctx, rt, w.state, of)
	w.OK(err)
	w.Cleanup(func() { _ = w.service.Close() })
	w.socket = filepath.Join(w.dir, "s", "sock")
	l, err := server.Listen(w.socket)
	w.OK(err)
	w.server = server.New(w.service, opts)
	w.ended = make(chan error, 1)
	go func() { w.ended <- w.server.Serve(l) }() // ends with Close
	w.Cleanup(func() {
		_ = w.server.Close()
		w.client.CloseIdleConnections()
	})
	w.client = &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", w.socket)
		},
		MaxIdleConnsPerHost: 100,
	}}
}

// A reply is what a request was answered with.
type reply struct {
	status int
	header http.Header
	body   string
	err    error // there was no answer

	Error *struct{ Code, Message, RequestID, SandboxID string }
	// What successes say.
	SandboxID, ContainerName    string
	Created, Destroyed          bool
	Stdout, Stderr, Cwd         string
	StdoutBytes                 []byte
	ExitCode                    int
	Truncated, SessionEnded     bool
	Encoding, Content, Restored string
	Updated                     int
	Sandboxes                   []registry.Metadata
	Result                      *reply
}

// m is a request.
type m map[string]any

// by is m with an owner in it.
func by(o registry.Owner, more m) m {
	all := m{"organizationId": o.OrganizationID, "projectId": o.ProjectID, "userId": o.UserID}
	maps.Copy(all, more)
	return all
}

// call makes a call.
func (w *world) call(ctx context.Context, name string, request m) *reply {
	w.Helper()
	b, err := json.Marshal(request)
	w.OK(err)
	return w.post(ctx, name, string(b), nil)
}

// post sends a body as it is.
func (w *world) post(ctx context.Context, name, body string, header http.Header) *reply {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://wolffia/api/v1/"+name, bytes.NewReader([]byte(body)))
	if err != nil {
		return &reply{err: err}
	}
	req.Header.Set("Content-Type", "application/json")
	maps.Copy(req.Header, header)
	return do(w.client, req)
}

func do(client *http.Client, req *http.Request) *reply {
	res, err := client.Do(req)
	if err != nil {
		return &reply{err: err}
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	r := &reply{}
	if uerr := json.Unmarshal(b, r); err == nil {
		err = uerr
	}
	r.status, r.header, r.body, r.err = res.StatusCode, res.Header, string(b), err
	return r
}

// is checks a reply's status.
func (w *world) is(what string, r *reply, status int, code string) {
	w.Helper()
	got := ""
	if r.Error != nil {
		got = r.Error.Code
	}
	if r.err != nil || r.status != status || got != code {
		w.Fatalf("%s: %d %q (%v): %s, want %d %q", what, r.status, got, r.err, r.body, status, code)
	}
}

// box makes an owner's sandbox.
func (w *world) box(o registry.Owner) string {
	w.Helper()
	r := w.call(w.Ctx, "createSandbox", by(o, nil))
	w.is("createSandbox", r, http.StatusCreated, "")
	return r.SandboxID
}

// bash runs a command that must end with 0.
func (w *world) bash(o registry.Owner, id, command string) string {
	w.Helper()
	r := w.call(w.Ctx, "executeBash", by(o, m{"sandboxId": id, "command": command}))
	w.is(command, r, http.StatusOK, "")
	if r.ExitCode != 0 {
		w.Fatalf("%s: got r.body %s; want r.ExitCode == 0", command, r.body)
	}
	return r.Stdout
}

// No random id can hold yán, as it could "yan": the answers must not tell of them.
var (
	zoe = registry.Owner{OrganizationID: "acme", ProjectID: "web shop", UserID: "zoë"}
	yan = registry.Owner{OrganizationID: "rival", ProjectID: "hidden-project", UserID: "yán"}
)

func owner(n int) registry.Owner {
	return registry.Owner{OrganizationID: "o", ProjectID: "p", UserID: strconv.Itoa(n)}
}
