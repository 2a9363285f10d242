package gateway

import (
	"net/http"
	"slices"
	"time"

	"wolffia/internal/host/egress"
)

// serveProxy serves a connection to the HTTP proxy.
func (w *web) serveProxy(v *inboundConn) {
	v.op = egress.OpProxy
	w.serve(v)
}

// proxy serves one request to the HTTP proxy.
func (w *web) proxy(rw http.ResponseWriter, r *http.Request, v *inboundConn) {
	switch {
	case r.Method == http.MethodConnect:
		w.connect(rw, r, v)
	case r.URL.Scheme == "http" && r.URL.Host != "":
		to, reason := w.g.parseTarget(r.URL.Host, 80)
		if reason != "" {
			deny(rw, v, http.StatusForbidden, eventOf(to, reason))
			return
		}
		if to.port == 443 { // for TLS only
			deny(rw, v, http.StatusForbidden, eventOf(to, egress.ReasonNotTLS))
			return
		}
		w.admit(rw, r, v, to)
	default:
		deny(rw, v, http.StatusBadRequest, egress.Event{Reason: egress.ReasonProtocol})
	}
}

// connect serves a request CONNECT: after the answer, the connection is as one to the name's
// address.
func (w *web) connect(rw http.ResponseWriter, r *http.Request, v *inboundConn) {
	to, reason := w.g.parseTarget(r.Host, 0)
	if reason == "" && to.port == 0 {
		reason = egress.ReasonProtocol
	}
	if reason == "" {
		reason = v.permit(r.Context(), to)
	}
	if reason != "" {
		deny(rw, v, http.StatusForbidden, eventOf(to, reason))
		return
	}
	out, err := w.g.reach(v, to)
	if err != nil {
		e := refusalOf(err)
		deny(rw, v, statusOf(e.Reason), e)
		return
	}
	_, buffered, err := http.NewResponseController(rw).Hijack()
	if err != nil {
		if out != nil {
			_ = out.Close()
		}
		return
	}
	_ = v.SetDeadline(time.Time{})
	ahead, _ := buffered.Reader.Peek(buffered.Reader.Buffered())
	v.peeked = slices.Concat(ahead, v.peeked)
	v.to = to
	w.g.answered(v, out, []byte("HTTP/1.1 200 Connection established\r\n\r\n"))
}

// statusOf returns the status of an answer to a request for which the gateway has not connected.
// After a refusal programs must not try again: of 502 npm does so for 70 seconds.
func statusOf(reason string) int {
	switch reason {
	case egress.ReasonUnreached, egress.ReasonResolve, egress.ReasonUpstream, egress.ReasonSystem:
		return http.StatusBadGateway
	}
	return http.StatusForbidden
}

// reach opens the connection to a permitted target for a client of a proxy; nil if each request on
// it gets its own.
func (g *Gateway) reach(v *inboundConn, to target) (*outboundConn, error) {
	if g.isWeb(to) {
		return nil, nil
	}
	return g.dial(g.ctx, v, to, v.modeOf(to))
}

// answered sends a proxy's answer that the connection stands, then serves the connection.
func (g *Gateway) answered(v *inboundConn, out *outboundConn, answer []byte) {
	_ = v.SetWriteDeadline(g.soon())
	if _, err := v.Conn.Write(answer); err != nil {
		_ = v.Close()
		if out != nil {
			_ = out.Close()
		}
		return
	}
	_ = v.SetWriteDeadline(time.Time{})
	if out == nil {
		g.web.serve(v)
		return
	}
	g.tunnel(v, out)
}
