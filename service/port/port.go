// Package port passes HTTP requests on to servers inside sandboxes.
package port

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"syscall"
	"time"

	"wolffia/internal/urlpath"
	"wolffia/ops/stream"
	"wolffia/runtime"
	"wolffia/service"
	"wolffia/service/gate"
)

// pagePolicy has a browser treat what a server inside sends as pages of no origin: as pages of the
// service's, their scripts could call the service as the user.
const pagePolicy = "sandbox allow-forms allow-popups allow-scripts"

// ofOrigin are the headers of a reply by which it would set or clear something for all of the
// service's pages and requests.
var ofOrigin = []string{"Set-Cookie", "Service-Worker-Allowed", "Clear-Site-Data", "Strict-Transport-Security", "Alt-Svc", "NEL", "Report-To"}

// ofFrontEnd are the headers of a reply by which a front end before the service, such as nginx,
// Apache or lighttpd, serves a file or an address of its own in place of the reply. Others of
// X-Accel and X-LIGHTTPD change how it passes the reply on.
var ofFrontEnd = []string{"X-Sendfile", "X-Sendfile2", "X-Reproxy-Url", "X-Reproxy-File", "X-Accel-", "X-Lighttpd-"}

// commands reports whether a header of a reply is one of ofFrontEnd; a name that ends in "-" stands
// for all that begin so.
func commands(header string) bool {
	name := http.CanonicalHeaderKey(strings.ReplaceAll(header, "_", "-"))
	return slices.ContainsFunc(ofFrontEnd, func(h string) bool {
		return name == h || h[len(h)-1] == '-' && strings.HasPrefix(name, h)
	})
}

// A final transport gives the last reply to a request only. What a server sends before (status 103)
// would be passed on with headers that nothing has checked.
type final struct {
	http.RoundTripper
	ctx context.Context // of the request, without the hooks of [httputil.ReverseProxy] for such replies
}

// RoundTrip implements [http.RoundTripper].
func (f final) RoundTrip(r *http.Request) (*http.Response, error) {
	return f.RoundTripper.RoundTrip(r.WithContext(f.ctx))
}

// A Request says where a request goes.
type Request struct {
	Inside *service.Inside
	Port   int    // from 1 to 65535
	Path   string // at the server inside, encoded, with its slash; empty: as it was sent
	// BodyLimit is how long each part of the request's body may take to arrive, WriteLimit how long
	// the client may take to read a part of the reply.
	BodyLimit, WriteLimit time.Duration
	// Fail answers instead of the server inside, which has not answered: the error is an
	// [*Unreachable].
	Fail func(w http.ResponseWriter, r *http.Request, err error)
}

// Unreachable is the error for a server inside that has not answered.
type Unreachable struct {
	Port    int
	Refused bool // no server listens
}

func (u *Unreachable) Error() string {
	if u.Refused {
		return fmt.Sprintf("port %d: no server listens there inside", u.Port)
	}
	return fmt.Sprintf("port %d: the server inside did not answer", u.Port)
}

// Serve passes a request on to the server at a port inside, also one that changes to WebSocket. A
// sandbox with the network of the host is [runtime.ErrUnsupported].
func Serve(w http.ResponseWriter, r *http.Request, to *Request) error {
	if to.Inside.Sandbox().Network == runtime.NetworkHost {
		return runtime.Errorf(runtime.ErrUnsupported, "port %d: the sandbox has the network of the host: connect to the port of the host", to.Port)
	}
	urlpath.Keep(r.URL)
	path := cmp.Or(to.Path, r.URL.EscapedPath())
	transport := &http.Transport{
		DisableCompression: true,
		DisableKeepAlives:  true, // the connection is this request's
		DialContext:        func(ctx context.Context, _, _ string) (net.Conn, error) { return to.Inside.DialPort(ctx, to.Port) },
	}
	proxy := &httputil.ReverseProxy{
		Transport:     final{transport, r.Context()},
		FlushInterval: -1, // at once
		ErrorLog:      log.New(io.Discard, "", 0),
		Rewrite:       func(p *httputil.ProxyRequest) { rewrite(p, to.Port, path) },
		ModifyResponse: func(reply *http.Response) error {
			reply.Header.Add("Content-Security-Policy", pagePolicy)
			for _, name := range ofOrigin {
				reply.Header.Del(name)
			}
			maps.DeleteFunc(reply.Header, func(name string, _ []string) bool { return commands(name) })
			maps.DeleteFunc(reply.Trailer, func(name string, _ []string) bool { return commands(name) })
			return nil
		},
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			to.Fail(w, r, &Unreachable{to.Port, errors.Is(err, syscall.ECONNREFUSED)})
		},
	}
	// Else the service would read the rest of the request, and close its body, before it passes on
	// the beginning of the reply: the transport hangs up if it looks for the end of the body after
	// that, and the reply is cut.
	control := http.NewResponseController(w)
	_ = control.EnableFullDuplex() // always supported
	if r.Body != http.NoBody {
		r.Body = &stream.Body{ReadCloser: r.Body, Control: control, Limit: to.BodyLimit}
	}
	proxy.ServeHTTP(&stream.Patient{ResponseWriter: w, Limit: to.WriteLimit}, r)
	return nil
}

// rewrite makes the request to the server inside. What the client sent to the service itself
// does not get there: its key and tokens, and the service's address.
func rewrite(p *httputil.ProxyRequest, port int, path string) {
	p.Out.URL.Scheme, p.Out.URL.Host = "http", fmt.Sprintf("localhost:%d", port)
	p.Out.URL.RawPath = path
	p.Out.URL.Path, _ = url.PathUnescape(p.Out.URL.RawPath) // a part of what was parsed
	p.Out.URL.RawQuery = p.In.URL.RawQuery                  // as it is
	p.Out.Host = p.Out.URL.Host
	gate.Strip(p.Out.Header)
	for _, name := range []string{"Cookie", "Origin", "Referer"} {
		p.Out.Header.Del(name)
	}
}
