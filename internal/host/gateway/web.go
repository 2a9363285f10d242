package gateway

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"strings"
	"sync"
	"time"

	"wolffia/internal/host/egress"
	"wolffia/internal/host/inside"
	"wolffia/internal/urlpath"
	"wolffia/network"
)

const (
	maxHeaders   = 64 << 10        // bytes of the headers of a request; of a response four times that
	idlePatience = 2 * time.Minute // of a connection between requests
)

// web passes HTTP on, request for request: for connections to port 80, whose requests must all
// be for the name that was dialled, and for the HTTP proxy. Requests are parsed and written
// anew by net/http, so that both ends see the same requests.
type web struct {
	g      *Gateway
	server *http.Server
	queue  *queue
	pass   *httputil.ReverseProxy
	plain  *http.Transport // to the targets of requests
	sealed *http.Transport // to the hosts of headers
}

// A passage is a request that may pass. It is in the request's context.
type passage struct {
	v      *inboundConn
	to     target
	values []headerValue // added, for a host of headers, which to names without LocalSuffix then
	// ctx is the request's, without the hook by which httputil.ReverseProxy passes on what comes
	// before the reply (status 103): its headers would go inside unchecked.
	ctx context.Context // of that one request
}

type (
	inboundKey struct{}
	passageKey struct{}
)

func newWeb(g *Gateway) *web {
	w := &web{g: g, queue: &queue{conns: make(chan net.Conn), done: g.ctx.Done()}}
	quiet := log.New(io.Discard, "", 0) // what a program inside provokes is not the host's log
	var http1 http.Protocols
	http1.SetHTTP1(true)
	w.plain = &http.Transport{
		DialContext:            w.dial(w.open),
		DisableCompression:     true,
		MaxIdleConns:           64,
		MaxIdleConnsPerHost:    16,
		IdleConnTimeout:        30 * time.Second,
		ExpectContinueTimeout:  time.Second,
		MaxResponseHeaderBytes: 4 * maxHeaders,
		Protocols:              &http1,
	}
	w.sealed = w.plain.Clone()
	w.sealed.DialTLSContext = w.dial(w.openSealed)
	w.pass = &httputil.ReverseProxy{
		Rewrite:        rewrite,
		ModifyResponse: modify,
		Transport:      w,
		FlushInterval:  -1, // at once
		BufferPool:     &buffers{},
		ErrorLog:       quiet,
		ErrorHandler:   w.failed,
	}
	w.server = &http.Server{
		Handler:                      w,
		DisableGeneralOptionsHandler: true,
		ReadHeaderTimeout:            g.options.patience,
		IdleTimeout:                  idlePatience,
		MaxHeaderBytes:               maxHeaders,
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(ctx, inboundKey{}, c)
		},
		ConnState: state,
		ErrorLog:  quiet,
		Protocols: &http1,
	}
	g.running.Go(func() { _ = w.server.Serve(w.queue) }) // it ends with the queue
	return w
}

// serve passes on the requests of a connection with a permitted target.
func (w *web) serve(v *inboundConn) {
	v.unhandled.Store(false)
	v.handled.Store(false)
	w.queue.put(v)
}

// close ends all connections, in use or not.
func (w *web) close() {
	_ = w.server.Close()
	w.forget()
}

// forget closes the connections to the outside that no request uses.
func (w *web) forget() {
	w.plain.CloseIdleConnections()
	w.sealed.CloseIdleConnections()
}

// ServeHTTP serves one request, of a connection with a target or to the proxy.
func (w *web) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	v, ok := r.Context().Value(inboundKey{}).(*inboundConn)
	if !ok {
		panic(http.ErrAbortHandler)
	}
	v.unhandled.Store(false)
	v.handled.Store(true)
	if v.to.name == "" {
		w.proxy(rw, r, v)
		return
	}
	to, reason := w.g.parseTarget(r.Host, 80)
	switch {
	case r.Method == http.MethodConnect || r.URL.Scheme != "" && r.URL.Scheme != "http":
		deny(rw, v, http.StatusMethodNotAllowed, egress.Event{Reason: egress.ReasonMethod})
	case reason != "" || to != v.to:
		deny(rw, v, http.StatusForbidden, egress.Event{Reason: egress.ReasonHost})
	default:
		w.admit(rw, r, v, to)
	}
}

// admit passes a request on if the policy permits its target now.
func (w *web) admit(rw http.ResponseWriter, r *http.Request, v *inboundConn, to target) {
	if reason := v.permit(r.Context(), to); reason != "" {
		deny(rw, v, http.StatusForbidden, egress.Event{Name: to.name, Port: int(to.port), Reason: reason})
		return
	}
	p := &passage{v: v, to: to}
	if host, is := localHost(to.name); is {
		if r.Method == http.MethodTrace { // its answer is the request, with the header
			deny(rw, v, http.StatusMethodNotAllowed, egress.Event{Name: to.name, Port: int(to.port), Reason: egress.ReasonMethod})
			return
		}
		var err error
		if p.values, err = readHeaders(w.g.policy.Load().Headers(host)); err != nil {
			deny(rw, v, http.StatusBadGateway, egress.Event{Name: to.name, Port: int(to.port), Reason: egress.ReasonHeader})
			return
		}
		p.to = target{host, 443}
	}
	// Else the server would read the rest of the request, and close its body, before it passes on
	// the beginning of the reply: the transport hangs up if it looks for the end of the body after
	// that, and the reply is cut.
	_ = http.NewResponseController(rw).EnableFullDuplex() // always supported
	p.ctx = context.WithValue(r.Context(), passageKey{}, p)
	defer cut(v)
	w.pass.ServeHTTP(rw, r.WithContext(p.ctx))
}

// cut, deferred, has a connection reset whose reply is cut, for which httputil.ReverseProxy
// panics: a reply without a length would look complete.
func cut(v *inboundConn) {
	if e := recover(); e != nil {
		inside.Reset(v.Conn)
		panic(e) // closes it
	}
}

// RoundTrip sends a request that may pass.
func (w *web) RoundTrip(r *http.Request) (*http.Response, error) {
	p, ok := r.Context().Value(passageKey{}).(*passage)
	if !ok {
		return nil, errRefused
	}
	if p.values != nil {
		return w.sealed.RoundTrip(r.WithContext(p.ctx))
	}
	return w.plain.RoundTrip(r)
}

// dial returns the function by which a transport connects. A transport may still connect after the
// end of the request that it connects for. open gets a context that ends with the request. Until
// open returns, the slot of the request's connection is held.
func (w *web) dial(open func(context.Context, *passage) (net.Conn, error)) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, _, _ string) (net.Conn, error) {
		p, ok := ctx.Value(passageKey{}).(*passage)
		if !ok || !p.v.hold() {
			return nil, errRefused
		}
		defer p.v.release()
		return open(p.ctx, p)
	}
}

// open connects to the target of a request.
func (w *web) open(ctx context.Context, p *passage) (net.Conn, error) {
	o, err := w.g.dial(ctx, p.v, p.to, p.v.modeOf(p.to))
	if err != nil {
		return nil, err
	}
	return o, nil
}

// openSealed connects to the host of a header, by TLS.
func (w *web) openSealed(ctx context.Context, p *passage) (net.Conn, error) {
	o, err := w.g.dial(ctx, p.v, p.to, header)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, w.g.options.patience)
	defer cancel()
	c := tls.Client(o, tlsConfig(w.g.options.Roots, p.to.name))
	if err := c.HandshakeContext(ctx); err != nil {
		_ = o.Close()
		return nil, err
	}
	return c, nil
}

// rewrite makes the request to the outside. Headers of the connection inside are removed
// already, those that its Connection header names too.
func rewrite(r *httputil.ProxyRequest) {
	p, ok := r.In.Context().Value(passageKey{}).(*passage)
	if !ok {
		panic(http.ErrAbortHandler)
	}
	r.Out.URL.Scheme = "http"
	r.Out.Host = authority(p.to, 80)
	r.Out.URL.Host = net.JoinHostPort(p.to.name, portText(p.to.port))
	urlpath.Keep(r.Out.URL)
	r.Out.URL.RawQuery = r.In.URL.RawQuery // as it is
	for _, name := range forwarded {
		if values := r.In.Header[name]; values != nil && !lists(r.In.Header["Connection"], name) {
			r.Out.Header[name] = values
		}
	}
	if p.values != nil {
		seal(r.Out, p)
	}
	if !strings.EqualFold(r.Out.Header.Get("Upgrade"), "websocket") { // another protocol, such as h2c, could carry requests for other hosts
		r.Out.Header.Del("Connection")
		r.Out.Header.Del("Upgrade")
	}
	if _, has := r.Out.Header["User-Agent"]; !has {
		r.Out.Header.Set("User-Agent", "") // no header, in place of Go's
	}
}

// forwarded are the headers that httputil.ReverseProxy removes for its own ones, which are not
// made here.
var forwarded = []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto"}

// lists reports whether the values of a header, which are lists, have a name.
func lists(values []string, name string) bool {
	for item := range strings.SplitSeq(strings.Join(values, ","), ",") {
		if strings.EqualFold(strings.TrimSpace(item), name) {
			return true
		}
	}
	return false
}

// modify changes a response of a host of headers.
func modify(r *http.Response) error {
	if p, ok := r.Request.Context().Value(passageKey{}).(*passage); ok && p.values != nil {
		unsealed(r, p)
	}
	return nil
}

// failed answers a request that could not be passed on.
func (w *web) failed(rw http.ResponseWriter, r *http.Request, err error) {
	p, ok := r.Context().Value(passageKey{}).(*passage)
	var refused *refusal
	switch {
	case !ok || !errors.As(err, &refused):
		rw.WriteHeader(http.StatusBadGateway)
	default:
		deny(rw, p.v, statusOf(refused.event.Reason), refused.event)
	}
}

// deny reports an event, answers with its reason, and has the connection end.
func deny(rw http.ResponseWriter, v *inboundConn, status int, e egress.Event) {
	e = v.report(e)
	text := "wolffia: " + e.Name + ": " + e.Reason
	if e.Remedy != "" {
		text += "; to allow it: wolffia run " + e.Remedy
	}
	rw.Header().Set("Connection", "close")
	rw.Header().Set("Content-Type", "text/plain; charset=utf-8")
	rw.WriteHeader(status)
	_, _ = io.WriteString(rw, text+"\n")
}

// state reports the connections that ended without a request that the parser accepts.
func state(c net.Conn, s http.ConnState) {
	v, ok := c.(*inboundConn)
	switch {
	case !ok:
	case s == http.StateActive:
		v.unhandled.Store(true)
	case s == http.StateClosed && v.late.Swap(false):
		v.unhandled.Store(false)
		v.report(egress.Event{Reason: egress.ReasonSlow})
	case s == http.StateClosed:
		v.unparsed()
	}
}

// localHost returns the NAME of NAME.wolffia, and whether a name is one.
func localHost(name string) (host string, is bool) {
	n := len(name) - len(network.LocalSuffix)
	if n <= 0 || name[n:] != network.LocalSuffix {
		return "", false
	}
	return name[:n], true
}

// A queue is a listener of connections that were accepted elsewhere.
type queue struct {
	conns chan net.Conn
	done  <-chan struct{}
}

// put waits until the connection is accepted, and closes it if it never is.
func (q *queue) put(c net.Conn) {
	select {
	case q.conns <- c:
	case <-q.done:
		_ = c.Close()
	}
}

// Accept returns the next connection.
func (q *queue) Accept() (net.Conn, error) {
	select {
	case c := <-q.conns:
		return c, nil
	case <-q.done:
		return nil, net.ErrClosed
	}
}

// Close does nothing: the queue ends with the gateway.
func (q *queue) Close() error { return nil }

// Addr returns an address for form's sake.
func (q *queue) Addr() net.Addr { return &net.TCPAddr{} }

// buffers are those in which the bodies of HTTP are copied.
type buffers struct{ pool sync.Pool }

func (b *buffers) Get() []byte {
	if buf, ok := b.pool.Get().(*[]byte); ok {
		return *buf
	}
	return make([]byte, 32<<10)
}

func (b *buffers) Put(buf []byte) { b.pool.Put(&buf) }
