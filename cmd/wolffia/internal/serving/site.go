//go:build !small

package serving

import (
	"context"
	"log/slog"
	"net"
	"path/filepath"
	"slices"

	"github.com/coreos/go-systemd/v22/activation"

	"wolffia/internal/host/rootfs"
	"wolffia/internal/sys/hostpath"
	"wolffia/runtime"
	"wolffia/service/gate"
	"wolffia/service/server"
)

// A site is where a service listens.
type site struct {
	socket  string     // path; empty: address
	address string     // HOST:PORT
	keys    *gate.Keys // nil: none
}

// newSite returns the site that the flags name, for sandboxes like template.
func newSite(f *serveFlags, stateDir string, template *runtime.SandboxConfig) (*site, error) {
	listen, keys := f.Text("listen"), f.Text("api-keys")
	path, err := socketPath(listen, stateDir)
	if err != nil {
		return nil, err
	}
	p := &site{socket: path, address: listen}
	if path != "" {
		if keys != "" {
			return nil, runtime.Errorf(runtime.ErrInvalid, "--api-keys: a unix socket admits your own processes and those of root, without keys: leave --api-keys out, or add --listen HOST:PORT")
		}
		return p, socketApart(path, template)
	}
	if keys != "" {
		file, err := filepath.Abs(keys)
		if err != nil {
			return nil, err
		}
		if p.keys, err = gate.ReadKeys(file); err != nil {
			return nil, err
		}
		if err := keysApart(file, stateDir, template); err != nil {
			return nil, err
		}
	} else if template.Network == runtime.NetworkHost || len(template.Expose) > 0 || template.Egress != nil && (len(template.Egress.Hosts)+len(template.Egress.Private) > 0 || template.Egress.Upstream != "") { // what is in there is the same user, and could ask for everything
		return nil, runtime.Errorf(runtime.ErrInvalid, "--listen %s: sandboxes with --network host, --add-host, --upstream-proxy or --expose can reach it: add --api-keys FILE, or use --listen unix:PATH", listen)
	}
	return p, nil
}

// passedListener returns the socket that systemd has passed (sd_listen_fds(3)), which the caller
// closes; nil: none.
func passedListener() (net.Listener, error) {
	passed, err := activation.Listeners()
	switch {
	case err != nil:
		return nil, runtime.Errorf(runtime.ErrUnavailable, "the socket that systemd has passed: %w", err)
	case len(passed) == 0:
		return nil, nil
	case len(passed) > 1 || passed[0] == nil:
		return nil, runtime.Errorf(runtime.ErrInvalid, "systemd has passed %d sockets: the unit needs one ListenStream= with a path or an address", len(passed))
	}
	return passed[0], nil
}

// listenOf returns --listen for the address of l.
func listenOf(l net.Listener) string {
	if u, is := l.(*net.UnixListener); is {
		return "unix:" + u.Addr().String()
	}
	return l.Addr().String()
}

// open listens, on passed if that is not nil. The server closes the listener.
func (p *site) open(ctx context.Context, passed net.Listener) (net.Listener, *gate.Gate, error) {
	if u, is := passed.(*net.UnixListener); is {
		return server.Own(u), gate.New(nil, false), nil
	}
	if passed == nil && p.socket != "" {
		l, err := server.Listen(p.socket)
		if err != nil {
			return nil, nil, err // not a nil *Listener
		}
		return l, gate.New(nil, false), nil
	}
	listen := func() (net.Listener, bool, error) { return gate.Listen(ctx, p.address, p.keys != nil) }
	if passed != nil {
		listen = func() (net.Listener, bool, error) { return gate.Own(passed, p.keys != nil) }
	}
	l, loopback, err := listen()
	if err != nil {
		return nil, nil, err
	}
	return l, gate.New(p.keys, loopback), nil
}

// attr is where the service listens, for the log.
func (p *site) attr(l net.Listener) slog.Attr {
	if p.socket != "" {
		return slog.String("socket", p.socket)
	}
	return slog.String("address", l.Addr().String())
}

// remote reports whether other machines can reach the listener.
func (p *site) remote(l net.Listener) bool {
	tcp, is := l.Addr().(*net.TCPAddr)
	return is && !tcp.IP.IsLoopback()
}

// socketApart refuses a socket that the sandboxes would be shown: what is in there
// is the same user, and could ask for everything.
func socketApart(path string, c *runtime.SandboxConfig) error {
	dir, err := filepath.EvalSymlinks(filepath.Dir(path))
	if err != nil { // it is not there yet; its own directory is
		if dir, err = filepath.EvalSymlinks(filepath.Dir(filepath.Dir(path))); err != nil {
			return runtime.Errorf(runtime.ErrInvalid, "socket %s: %w", path, err)
		}
	}
	for _, s := range c.Sockets {
		if given, err := filepath.EvalSymlinks(s.Source); err == nil && given == filepath.Join(dir, filepath.Base(path)) {
			return runtime.Errorf(runtime.ErrInvalid, "--socket %s is the service's own: sandboxes could ask it for everything; leave it out", s.Source)
		}
	}
	place, err := hostpath.Holder(dir, shownOf(c))
	if err == nil && place != "" {
		err = runtime.Errorf(runtime.ErrInvalid, "socket %s is in %s, which the sandboxes are shown: choose another with --listen unix:PATH", path, place)
	}
	return err
}

// keysApart refuses a key file that the sandboxes would be shown: what is in there is the same
// user, and could read it.
func keysApart(path, stateDir string, c *runtime.SandboxConfig) error {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return runtime.Errorf(runtime.ErrInvalid, "API keys %s: %w", path, err)
	}
	shown := append(shownOf(c), stateDir) // with volumes and images
	if c.Image == "" && c.Rootfs == "" {
		shown = append(shown, rootfs.HostDirs()...)
	}
	place, err := hostpath.Holder(real, shown)
	if err == nil && place != "" {
		err = runtime.Errorf(runtime.ErrInvalid, "--api-keys %s is in %s, which the sandboxes are shown, or which has their volumes: they could use the keys; move the file elsewhere, such as to ~/.config/wolffia", path, place)
	}
	return err
}

// shownOf returns the files and directories of the host that a configuration names to show.
func shownOf(c *runtime.SandboxConfig) []string {
	shown := []string{c.CodebasePath, c.Rootfs}
	for _, m := range c.Mounts {
		shown = append(shown, m.Source)
	}
	return slices.DeleteFunc(shown, func(s string) bool { return s == "" })
}
