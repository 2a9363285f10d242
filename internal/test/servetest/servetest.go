// Package servetest serves sandboxes over HTTP on a loopback address, for tests.
package servetest

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"wolffia/internal/host/probe"
	"wolffia/internal/test/leak"
	"wolffia/internal/test/shimtest"
	"wolffia/internal/test/suite"
	"wolffia/internal/test/testbin"
	"wolffia/internal/test/testenv"
	"wolffia/local"
	"wolffia/mcp"
	"wolffia/ops/stream"
	"wolffia/perm"
	"wolffia/runtime"
	"wolffia/runtime/bwrap"
	"wolffia/service"
	"wolffia/service/agent"
	"wolffia/service/console"
	"wolffia/service/e2b"
	"wolffia/service/gate"
	"wolffia/service/meter"
	"wolffia/service/opensandbox"
	"wolffia/service/server"
	"wolffia/service/swerex"
	"wolffia/volume"
)

// A World is a state directory with a codebase, and a service on a loopback address.
type World struct {
	suite.T
	State, Codebase string
	Address         string // HOST:PORT
	Service         *service.Service
	Gate            *gate.Gate
	Log             suite.Buffer
	Client          *http.Client
	NoVolumes       bool // set it before a request

	keys   string // the content of the key file; empty: none
	agents *mcp.HandlerOptions
	limit  time.Duration // of a request's body, and of reading its reply; 0: the default
	stop   func()
	server *server.Server
	opts   []func(*service.Options)
}

// New serves until the test ends. Its sandboxes see a codebase that they may change, but for
// the file secret, which they do not see. keys is the content of a key file; empty: no keys.
// opts change the options of its service.
func New(t testing.TB, keys string, opts ...func(*service.Options)) *World {
	t.Helper()
	w := prepare(t)
	w.opts = opts
	w.serve(keys)
	return w
}

// NewWith is New without keys, with the limits of agents' sessions.
func NewWith(t testing.TB, agents *mcp.HandlerOptions) *World {
	t.Helper()
	w := prepare(t)
	w.agents = agents
	w.serve("")
	return w
}

// NewLimited is New with a limit for what a client takes to send a request's body, and to read its reply.
func NewLimited(t testing.TB, limit time.Duration) *World {
	t.Helper()
	w := prepare(t)
	w.limit = limit
	w.serve("")
	return w
}

// prepare makes a World that does not serve yet.
func prepare(t testing.TB) *World {
	t.Helper()
	testenv.Need(t, probe.UserNamespaces, probe.Bubblewrap, probe.Fuse)
	leak.Check(t)
	dir := t.TempDir()
	w := &World{T: suite.New(t), State: filepath.Join(dir, "state"), Codebase: filepath.Join(dir, "codebase")}
	for _, d := range []string{filepath.Dir(dir), dir} { // the user that root drops to must get here
		w.OK(os.Chmod(d, 0o755))
	}
	w.OK(os.Mkdir(w.Codebase, 0o777))
	w.OK(os.Chmod(w.Codebase, 0o777))
	t.Cleanup(func() { shimtest.DestroyAll(t, w.open()) })
	transport := &http.Transport{MaxIdleConnsPerHost: 100}
	w.Client = &http.Client{Transport: transport}
	t.Cleanup(transport.CloseIdleConnections)
	return w
}

// open returns a runtime as another process has it.
func (w *World) open() *local.Runtime {
	w.Helper()
	rt, err := local.New(&local.Options{StateDir: w.State, Binary: filepath.Join(testbin.Dir(w.TB), "wolffia")}, bwrap.Backend())
	w.OK(err)
	w.Cleanup(func() { _ = rt.Close() })
	return rt
}

// configOf returns a function that returns the configuration of a sandbox.
func configOf(rt *local.Runtime) func(context.Context, string) (*runtime.SandboxConfig, error) {
	return func(ctx context.Context, id string) (*runtime.SandboxConfig, error) {
		d, err := rt.Inspect(ctx, id)
		if err != nil {
			return nil, err
		}
		return &d.Config, nil
	}
}

// serve serves, on another address each time.
func (w *World) serve(keys string) {
	w.Helper()
	w.keys = keys
	log := slog.New(slog.NewJSONHandler(&w.Log, nil))
	rt := w.open()
	configure := func() *runtime.SandboxConfig {
		return &runtime.SandboxConfig{CodebasePath: w.Codebase, Permissions: []perm.Rule{
			{Pattern: "**", Level: perm.Write, Source: "preset full-access"}, {Pattern: "secret", Level: perm.None, Priority: 10, Source: "--rule"},
		}}
	}
	meter := new(meter.Meter)
	opts := &service.Options{
		Log: log, Meter: meter, Config: configOf(rt),
		Configure: func(_ context.Context, p *service.Params) (*runtime.SandboxConfig, error) {
			c := configure()
			c.Image = p.Image
			return c, nil
		},
	}
	for _, set := range w.opts {
		set(opts)
	}
	var err error
	w.Service, err = service.Open(w.Ctx, rt, w.State, opts)
	w.OK(err)
	w.OK(w.Service.Recover(w.Ctx))
	var read *gate.Keys
	if keys != "" {
		file := filepath.Join(w.TempDir(), "keys")
		w.OK(os.WriteFile(file, []byte(keys), 0o600))
		read, err = gate.ReadKeys(file)
		w.OK(err)
	}
	l, loopback, err := gate.Listen(w.Ctx, "127.0.0.1:0", read != nil)
	w.OK(err)
	w.Gate = gate.New(read, loopback)
	w.Address = l.Addr().String()
	agents := agent.New(&agent.Options{
		Runtime: rt, Service: w.Service, Limits: w.agents, Version: "test",
		Allow: func(id string) string { return "wolffia policy add " + id + " " },
	})
	rex := swerex.New(w.Service, &swerex.Options{Log: log, BodyLimit: w.limit, WriteLimit: w.limit})
	page := console.New(&console.Options{Service: w.Service, Version: "test", Mode: "serve", Asker: rt, Log: log})
	s := server.New(w.Service, &server.Options{
		SWEReX: rex, Console: page,
		Log: log, Gate: w.Gate, Meter: meter, Metrics: true, Agents: agents, BodyLimit: w.limit, WriteLimit: w.limit,
		OpenSandbox: opensandbox.New(w.Service, &opensandbox.Options{Log: log, BodyLimit: w.limit, WriteLimit: w.limit}),
		E2B:         e2b.New(w.Service, read != nil, w.forE2B(rt, configure(), log)),
	})
	w.server = s
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(l) }() // ends with stop
	stopped := false
	w.stop = func() {
		if stopped {
			return
		}
		stopped = true
		w.Client.CloseIdleConnections()
		_ = s.Close()
		<-ended
		agents.Close()
		page.Close()
		rex.Close()
		_ = w.Service.Close()
		_ = rt.Close() // as the end of its process would
	}
	w.Cleanup(w.stop)
}

// forE2B returns the options of E2B's interface: requests may make volumes unless NoVolumes is set.
func (w *World) forE2B(rt *local.Runtime, config *runtime.SandboxConfig, log *slog.Logger) *e2b.Options {
	return &e2b.Options{
		Options: stream.Options{Log: log, BodyLimit: w.limit, WriteLimit: w.limit},
		Volumes: &e2b.Volumes{
			Store: volume.Open(w.State), Allowed: func() bool { return !w.NoVolumes },
			Make: func(ctx context.Context, name string) error { return rt.MakeVolume(ctx, config, name) },
		},
	}
}

// Cancel has the service end, and cancel the requests that run at once. It returns when they have ended.
func (w *World) Cancel() {
	w.Helper()
	w.OK(w.server.Stop(w.Ctx, 0))
}

// Restart stops the service at once, and serves again.
func (w *World) Restart() {
	w.Helper()
	w.stop()
	w.serve(w.keys)
}

// Do sends a request and returns the status, the headers and the body of the reply. Headers
// are pairs of a name and a value.
func (w *World) Do(method, path string, body io.Reader, headers ...string) (int, http.Header, string) {
	w.Helper()
	req, err := http.NewRequestWithContext(w.Ctx, method, "http://"+w.Address+path, body)
	w.OK(err)
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
		if headers[i] == "Host" {
			req.Host = headers[i+1]
		}
	}
	res, err := w.Client.Do(req)
	w.OK(err)
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	w.OK(err)
	return res.StatusCode, res.Header, string(text)
}
