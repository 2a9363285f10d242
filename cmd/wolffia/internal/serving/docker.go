//go:build !small

package serving

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"wolffia/cmd/wolffia/internal/build"
	"wolffia/cmd/wolffia/internal/console"
	"wolffia/cmd/wolffia/internal/host"
	"wolffia/image/puller"
	"wolffia/image/store"
	"wolffia/local/defaults"
	"wolffia/ops/stream"
	"wolffia/runtime"
	"wolffia/service/container"
	"wolffia/service/engineapi"
	"wolffia/service/server"
)

// A dockerSocket serves docker's API. nil serves nothing.
type dockerSocket struct {
	engine  *container.Engine
	handler *engineapi.Handler
	server  *http.Server
}

// openDocker serves docker's API on the socket of --docker-socket, if there is one.
func (i *instance) openDocker(ctx context.Context) (*dockerSocket, error) {
	path := i.now.Text("docker-socket")
	if path == "" {
		return nil, nil
	}
	path, err := filepath.Abs(path)
	if err == nil {
		err = socketApart(path, i.now.shown(i.now.template))
	}
	if err != nil {
		return nil, err
	}
	listener, err := server.Listen(path)
	if err != nil {
		return nil, err
	}
	d := &dockerSocket{}
	d.engine = container.New(i.service, &container.Options{
		Images: store.Open(i.rt.StateDir()), Root: defaults.RootInside() == nil,
		Given: func() (runtime.Network, time.Duration) {
			t := i.current.Load().template
			return t.Network, t.TTL
		},
	})
	d.handler = engineapi.New(d.engine, &engineapi.Options{
		Options: stream.Options{Log: i.log}, Version: i.Version, Pull: i.pullForDocker, Build: i.buildFor,
		Temp: filepath.Join(i.rt.StateDir(), "service", "builds"),
	})
	const headerLimit = 10 * time.Second
	d.server = &http.Server{Handler: d.handler, ReadHeaderTimeout: headerLimit}
	go func() { // ends with close
		if err := d.server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			i.log.Error("docker's API is not served any more", "error", err.Error())
		}
	}()
	if err := d.engine.Watch(ctx); err != nil {
		i.log.Warn("cannot watch the containers that run", "error", err.Error())
	}
	return d, nil
}

func (d *dockerSocket) close() error {
	if d == nil {
		return nil
	}
	d.handler.Close()
	err := d.server.Close()
	d.engine.Close()
	return err
}

// silent returns a host whose output goes to a file.
func (i *instance) silent(to *os.File) *host.Host {
	return &host.Host{Console: console.New(i.In, &console.Output{File: i.null}, &console.Output{File: to}), StateDir: i.StateDir}
}

// pullForDocker pulls an image, as a request may.
func (i *instance) pullForDocker(ctx context.Context, name string, login []byte) (err error) {
	public, err := ofRegistry(name, i.current.Load().List("allow-registry"))
	if err != nil {
		return err
	}
	h := i.silent(i.null)
	defer func() { err = errors.Join(err, h.Close()) }()
	_, err = h.Pull(ctx, &puller.Request{Name: name, Public: public, Login: login})
	return err
}

// buildFor builds an image for a request, with the service's network and limits.
func (i *instance) buildFor(ctx context.Context, q *engineapi.BuildRequest, w io.Writer) (id string, err error) {
	r, to, err := os.Pipe()
	if err != nil {
		return "", err
	}
	shown := make(chan struct{})
	go func() { // ends with the build
		_, _ = io.Copy(w, r)
		_, _ = io.Copy(io.Discard, r) // the client has gone
		close(shown)
	}()
	h := i.silent(to)
	t := i.current.Load().template
	o := &build.Options{
		Dir: q.Dir, File: q.File, Shown: filepath.Base(q.File), Names: q.Names, Args: q.Args, Target: q.Target, NoCache: q.NoCache, Pull: host.PullMissing,
		Config: &runtime.SandboxConfig{Network: t.Network, Egress: t.Egress, Resources: t.Resources},
		Public: func(name string) (public bool, login []byte, err error) {
			public, err = ofRegistry(name, i.current.Load().List("allow-registry"))
			return public, q.Login(name), err
		},
	}
	if q.Offline {
		o.Config.Network, o.Config.Egress = runtime.NetworkNone, nil
	}
	if q.Pull {
		o.Pull = host.PullAlways
	}
	id, err = build.Image(ctx, h, i.rt, o)
	err = errors.Join(err, h.Close(), to.Close())
	<-shown
	return id, errors.Join(err, r.Close())
}
