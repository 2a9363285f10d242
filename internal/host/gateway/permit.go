package gateway

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"strings"
	"time"

	"golang.org/x/net/publicsuffix"

	"wolffia/internal/host/egress"
)

// permit returns the reason to refuse the connection a target, and "" if the policy allows it. What
// no rule allows may be asked for: then it waits for the answer, or the end of ctx.
func (v *inboundConn) permit(ctx context.Context, to target) string {
	policy := v.g.policy.Load()
	switch {
	case policy.Allows(to.name, to.port):
		return ""
	case v.g.options.Ask == nil || !policy.MayAsk(to.name, to.port):
		if !policy.Known(to.name) {
			return egress.ReasonName
		}
		return egress.ReasonPort
	case v.answered == to:
		return ""
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(v.g.ctx, cancel)()
	e := v.event(egress.Event{Name: to.name, Port: int(to.port), Reason: egress.ReasonUnanswered, Wide: private(to.name)})
	switch allowed := v.g.options.Ask(ctx, e); {
	case v.g.policy.Load().Allows(to.name, to.port): // a rule was added meanwhile
	case !allowed:
		return egress.ReasonUnanswered
	default:
		v.answered = to
		e.Reason = egress.ReasonAnswered
		v.g.report(e)
	}
	return ""
}

// private reports whether the domain of a name is of one owner: below co.uk, github.io and the like
// anybody can have names (https://publicsuffix.org).
func private(name string) bool {
	_, domain, more := strings.Cut(name, ".")
	if _, err := netip.ParseAddr(name); !more || err == nil {
		return false
	}
	suffix, _ := publicsuffix.PublicSuffix("any." + domain)
	return len(suffix) < len(domain)
}

// modeOf returns how a permitted target is permitted.
func (v *inboundConn) modeOf(to target) dialMode {
	if v.answered == to && to.name != "" {
		return answered
	}
	return direct
}

// maxAhead bounds what is read of a connection that waits for an answer, in bytes.
const maxAhead = 64 << 10

// permitAhead is permit for a connection that nobody else reads. The end of the connection ends
// the wait; what it has sent before is kept.
func (v *inboundConn) permitAhead(to target) string {
	if v.g.options.Ask == nil || v.g.policy.Load().Allows(to.name, to.port) {
		return v.permit(v.g.ctx, to)
	}
	ctx, cancel := context.WithCancel(v.g.ctx)
	defer cancel()
	ended := make(chan []byte, 1)
	v.g.running.Go(func() { ended <- v.readAhead(cancel) }) // until the deadline below
	reason := v.permit(ctx, to)
	_ = v.SetReadDeadline(time.Unix(1, 0))
	v.peeked = append(v.peeked, <-ended...)
	_ = v.SetReadDeadline(time.Time{})
	return reason
}

// readAhead reads the connection until it ends, and calls hungUp then, or until its deadline or
// much was read.
func (v *inboundConn) readAhead(hungUp func()) (ahead []byte) {
	buf := make([]byte, 4096)
	for len(ahead) < maxAhead {
		n, err := v.Conn.Read(buf)
		ahead = append(ahead, buf[:n]...)
		if err != nil {
			if !errors.Is(err, os.ErrDeadlineExceeded) {
				hungUp()
			}
			return ahead
		}
	}
	return ahead
}
