package image

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"syscall"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"wolffia/network"
	"wolffia/runtime"
)

// A registry reads an image from a registry.
type registry struct {
	ref    name.Reference
	base   *transports
	public bool // see Options, as login
	login  []byte

	puller *remote.Puller    // of manifests
	client http.RoundTripper // for blobs; both are authenticated by connect
}

// newRegistry does not connect yet.
func newRegistry(canonical string, opts *Options) (*registry, error) {
	ref, err := name.ParseReference(canonical)
	if err != nil {
		return nil, runtime.WithClass(runtime.ErrInvalid, err)
	}
	return &registry{ref: ref, base: newTransports(opts.Public), public: opts.Public, login: opts.Login}, nil
}

func (r *registry) close() { r.base.close() }

// connect authenticates to the registry.
func (r *registry) connect(ctx context.Context) error {
	repo := r.ref.Context()
	auth, err := r.account(ctx)
	if err != nil {
		return runtime.Errorf(runtime.ErrUnavailable, "credentials for %s: %w", repo.RegistryStr(), err)
	}
	guard := &guarded{next: r.base}
	if !r.public {
		guard.plain = plainHost(repo.RegistryStr())
	}
	r.client, err = transport.NewWithContext(ctx, repo.Registry, auth,
		transport.NewUserAgent(transport.NewRetry(guard), "wolffia"), []string{repo.Scope(transport.PullScope)})
	if err == nil {
		r.puller, err = remote.NewPuller(remote.WithTransport(r.client))
	}
	return err
}

// account returns the credentials: those of the request, or the user's.
func (r *registry) account(ctx context.Context) (authn.Authenticator, error) {
	if len(r.login) == 0 {
		return authn.Resolve(ctx, authn.DefaultKeychain, r.ref.Context().Registry)
	}
	var own authn.AuthConfig
	err := json.Unmarshal(r.login, &own)
	return authn.FromConfig(own), err
}

func (r *registry) top(ctx context.Context) ([]byte, string, error) {
	if err := r.connect(ctx); err != nil {
		return nil, "", r.failure(err)
	}
	d, err := r.puller.Get(ctx, r.ref)
	if err != nil {
		return nil, "", r.failure(err)
	}
	if len(d.Manifest) > maxDocument {
		return nil, "", runtime.Errorf(runtime.ErrInvalid, "manifest has %d bytes: at most %d are allowed", len(d.Manifest), maxDocument)
	}
	return d.Manifest, string(d.MediaType), nil
}

func (r *registry) manifest(ctx context.Context, d v1.Descriptor) ([]byte, error) {
	m, err := r.puller.Get(ctx, r.ref.Context().Digest(d.Digest.String()))
	if err != nil {
		return nil, r.failure(err)
	}
	return m.Manifest, nil
}

// blob opens a blob without checks (OCI distribution specification, pulling blobs). The
// library's own function checks it too, with less clear errors.
func (r *registry) blob(ctx context.Context, d v1.Descriptor) (io.ReadCloser, error) {
	repo := r.ref.Context()
	u := url.URL{Scheme: repo.Scheme(), Host: repo.RegistryStr(), Path: "/v2/" + repo.RepositoryStr() + "/blobs/" + d.Digest.String()}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, runtime.WithClass(runtime.ErrInvalid, err)
	}
	resp, err := (&http.Client{Transport: r.client}).Do(req)
	if err != nil {
		return nil, r.failure(err)
	}
	if err := transport.CheckError(resp, http.StatusOK); err != nil {
		_ = resp.Body.Close()
		return nil, r.failure(err)
	}
	return resp.Body, nil
}

// failure gives an error of a registry or of the network its class.
func (r *registry) failure(err error) error {
	var te *transport.Error
	if errors.As(err, &te) && r.public {
		te = &transport.Error{StatusCode: te.StatusCode, Request: te.Request} // without the body
		err = te
	}
	switch {
	case runtime.Class(err) != nil || errors.Is(err, context.Canceled):
		return err
	case te != nil && te.StatusCode == http.StatusNotFound:
		return runtime.Errorf(runtime.ErrNotFound, "not found in the registry: %w", err)
	case te != nil && (te.StatusCode == http.StatusUnauthorized || te.StatusCode == http.StatusForbidden):
		return runtime.Errorf(runtime.ErrDenied, "the registry denied access, or has no such image: %w; credentials are read from ~/.docker/config.json: docker login adds them", err)
	}
	return runtime.WithClass(runtime.ErrUnavailable, err)
}

// silence bounds the time in which a registry sends nothing.
const silence = time.Minute

// transports are those of one pull: direct, and by the proxy that the environment names.
type transports struct {
	direct, proxied *http.Transport
	public          bool // see Options
}

func newTransports(public bool) *transports {
	t := &transports{direct: newTransport(silence, nil), proxied: newTransport(silence, nil), public: public}
	if public {
		t.direct = newTransport(silence, publicOnly)
	}
	t.proxied.Proxy = http.ProxyFromEnvironment
	return t
}

func (t *transports) RoundTrip(req *http.Request) (*http.Response, error) {
	if kind := network.ForbiddenHost(req.URL.Host); t.public && kind != "" {
		return nil, notPublic(req.URL.Host, kind)
	}
	proxy, err := t.proxied.Proxy(req)
	switch {
	case err != nil:
		return nil, err
	case proxy != nil: // which resolves the name, and decides
		return t.proxied.RoundTrip(req)
	}
	return t.direct.RoundTrip(req)
}

func (t *transports) close() {
	t.direct.CloseIdleConnections()
	t.proxied.CloseIdleConnections()
}

// publicOnly refuses a connection to an address that is not one of a public host. It is a
// net.Dialer's Control, so it sees the address that a name was resolved to.
func publicOnly(_, addr string, _ syscall.RawConn) error {
	to, err := netip.ParseAddrPort(addr)
	if err != nil {
		return err
	}
	if kind := network.Forbidden(to.Addr()); kind != "" {
		return notPublic(addr, kind)
	}
	return nil
}

func notPublic(host, kind string) error {
	return runtime.Errorf(runtime.ErrDenied, "%s is a %s address: a request can name an image of a public registry only; wolffia serve --allow-registry HOST[:PORT] lets it name those of another one", host, kind)
}

// newTransport returns an HTTP transport with a limit on every wait.
func newTransport(silence time.Duration, control func(network, addr string, c syscall.RawConn) error) *http.Transport {
	dial := &net.Dialer{Timeout: 30 * time.Second, Control: control}
	return &http.Transport{
		TLSHandshakeTimeout:   30 * time.Second,
		ResponseHeaderTimeout: silence,
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			c, err := dial.DialContext(ctx, network, addr)
			if err != nil {
				return nil, err
			}
			return &impatient{c, silence}, nil
		},
	}
}

// An impatient connection fails when it receives nothing for limit.
type impatient struct {
	net.Conn
	limit time.Duration
}

func (c *impatient) Read(b []byte) (int, error) {
	if err := c.SetReadDeadline(time.Now().Add(c.limit)); err != nil {
		return 0, err
	}
	return c.Conn.Read(b)
}

// guarded refuses plain HTTP to all hosts but one. The library would use it in private
// networks, and follow a redirection to it.
type guarded struct {
	next  http.RoundTripper
	plain string // host:port, or empty
}

func (g *guarded) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.URL.Scheme != "https" && req.URL.Host != g.plain {
		return nil, runtime.Errorf(runtime.ErrUnsupported, "%s without TLS is refused: only a registry on this host's loopback may be without", req.URL.Host)
	}
	return g.next.RoundTrip(req)
}

// plainHost returns registry if it is on this host's loopback, and else "".
func plainHost(registry string) string {
	host := registry
	if h, _, err := net.SplitHostPort(registry); err == nil {
		host = h
	}
	if ip := net.ParseIP(strings.Trim(host, "[]")); host == "localhost" || ip != nil && ip.IsLoopback() {
		return registry
	}
	return ""
}
