package gateway

import (
	"context"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"

	"wolffia/internal/host/egress"
)

// maxAnswer is the maximum size of a proxy's answer to CONNECT, in bytes.
const maxAnswer = 16 << 10

// throughProxy has the proxy of the policy connect to a target (RFC 9110, 9.3.6). The proxy
// resolves the name, so that its addresses are not checked here. An error is a *refusal.
func (g *Gateway) throughProxy(ctx context.Context, proxy string, to target) (net.Conn, error) {
	refuse := func(reason string) error {
		return refused(egress.Event{Name: to.name, Port: int(to.port), Reason: reason})
	}
	conn, err := g.options.DialProxy(ctx, proxy)
	if err != nil {
		return nil, refuse(egress.ReasonUpstream)
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	at := net.JoinHostPort(to.name, strconv.Itoa(int(to.port)))
	_, err = fmt.Fprintf(conn, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", at, at)
	var status string
	if err == nil {
		status, err = answerOf(conn)
	}
	switch {
	case err != nil:
		_ = conn.Close()
		return nil, refuse(egress.ReasonUpstream)
	case !strings.HasPrefix(status, "2"):
		_ = conn.Close()
		return nil, refuse(egress.ReasonUpstreamRefuses)
	case !stop(): // ctx has ended
		_ = conn.Close()
		return nil, refuse(egress.ReasonUnreached)
	}
	return conn, nil
}

// answerOf reads the head of an answer, and not a byte more, and returns its status.
func answerOf(r io.Reader) (status string, err error) {
	var head []byte
	for b := make([]byte, 1); !strings.HasSuffix(string(head[max(0, len(head)-4):]), "\r\n\r\n"); {
		if len(head) == maxAnswer {
			return "", fmt.Errorf("more than %d bytes", maxAnswer)
		}
		if _, err := io.ReadFull(r, b); err != nil {
			return "", err
		}
		head = append(head, b[0])
	}
	version, rest, _ := strings.Cut(string(head), " ")
	if !strings.HasPrefix(version, "HTTP/1.") || len(rest) < 3 {
		return "", fmt.Errorf("not an answer of HTTP/1")
	}
	return rest[:3], nil
}
