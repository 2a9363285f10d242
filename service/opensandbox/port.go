package opensandbox

import (
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
	"strconv"
	"strings"
	"syscall"

	"wolffia/ops/stream"
	"wolffia/runtime"
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

// port passes a request on to the server at a port inside, also one that changes to WebSocket.
func (h *Handler) port(w http.ResponseWriter, r *http.Request) error {
	in, err := h.inside(r)
	if err != nil {
		return err
	}
	text := r.PathValue("port")
	if text == "" || text == execdPort || text == egressPort {
		return h.unknown(w, r)
	}
	port, err := strconv.Atoi(text)
	if err != nil || !runtime.IsPort(port) {
		return invalid("port %q: it must be a number from 1 to 65535", text)
	}
	if in.Sandbox().Network == runtime.NetworkHost {
		return unsupported("port %d: the sandbox has the network of the host: connect to the port of the host", port)
	}
	transport := &http.Transport{
		DisableCompression: true,
		DisableKeepAlives:  true, // the connection is this request's
		DialContext:        func(ctx context.Context, _, _ string) (net.Conn, error) { return in.DialPort(ctx, port) },
	}
	proxy := &httputil.ReverseProxy{
		Transport:     final{transport, r.Context()},
		FlushInterval: -1, // at once
		ErrorLog:      log.New(io.Discard, "", 0),
		Rewrite:       func(p *httputil.ProxyRequest) { rewritePort(p, port) },
		ModifyResponse: func(reply *http.Response) error {
			reply.Header.Add("Content-Security-Policy", pagePolicy)
			for _, name := range ofOrigin {
				reply.Header.Del(name)
			}
			maps.DeleteFunc(reply.Header, func(name string, _ []string) bool { return commands(name) })
			maps.DeleteFunc(reply.Trailer, func(name string, _ []string) bool { return commands(name) })
			return nil
		},
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) { h.fail(w, r, portFault(port, err)) },
	}
	// Else the service would read the rest of the request, and close its body, before it passes on
	// the beginning of the reply: the transport hangs up if it looks for the end of the body after
	// that, and the reply is cut.
	control := http.NewResponseController(w)
	_ = control.EnableFullDuplex() // always supported
	if r.Body != http.NoBody {
		r.Body = &stream.Body{ReadCloser: r.Body, Control: control, Limit: h.opts.BodyLimit}
	}
	proxy.ServeHTTP(h.patient(w), r)
	return nil
}

// portOf splits the path of a request to a port inside, as it was sent:
// /sandboxes/ID/port/PORT/REST, or /sandboxes/ID/port/44772/proxy/PORT/REST. REST is the path of
// the server inside, whatever it is. ok is false for other paths, those of the API among them.
func portOf(path string) (id, port, rest string, ok bool) {
	part := strings.SplitN(path, "/", 6)
	if len(part) < 6 || part[0] != "" || part[1] != "sandboxes" || part[3] != "port" {
		return "", "", "", false
	}
	id, port, rest = part[2], part[4], part[5]
	if port == execdPort {
		if rest, ok = strings.CutPrefix(rest, "proxy/"); !ok {
			return "", "", "", false
		}
		if port, rest, ok = strings.Cut(rest, "/"); !ok {
			return "", "", "", false
		}
	}
	id, errID := url.PathUnescape(id)
	port, errPort := url.PathUnescape(port)
	return id, port, rest, errID == nil && errPort == nil && id != "" && port != "" && port != execdPort && port != egressPort
}

// rewritePort makes the request to the server inside. What the client sent to the service itself
// does not get there: its key, and the service's address.
func rewritePort(p *httputil.ProxyRequest, port int) {
	_, _, rest, _ := portOf(p.In.URL.EscapedPath())
	p.Out.URL.Scheme, p.Out.URL.Host = "http", fmt.Sprintf("localhost:%d", port)
	p.Out.URL.RawPath = "/" + rest
	p.Out.URL.Path, _ = url.PathUnescape(p.Out.URL.RawPath) // a part of what was parsed
	p.Out.URL.RawQuery = p.In.URL.RawQuery                  // as it is
	p.Out.Host = p.Out.URL.Host
	gate.Strip(p.Out.Header)
	p.Out.Header.Del("Cookie")
	p.Out.Header.Del("Origin")
	p.Out.Header.Del("Referer")
}

// portFault returns the error for a request that the server inside did not answer.
func portFault(port int, err error) error {
	if errors.Is(err, syscall.ECONNREFUSED) {
		return &fault{http.StatusBadGateway, "PORT_UNREACHABLE", fmt.Sprintf("port %d: no server listens there inside", port)}
	}
	return &fault{http.StatusBadGateway, "PORT_UNREACHABLE", fmt.Sprintf("port %d: the server inside did not answer", port)}
}
