package stream

import (
	"encoding/base64"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// IsHandshake reports whether a request asks for WebSocket so that websocket.Accept accepts it. It
// tells before anything is changed, such as who is attached to a terminal.
func IsHandshake(r *http.Request) bool {
	keys := r.Header.Values("Sec-WebSocket-Key")
	if r.Method != http.MethodGet || !r.ProtoAtLeast(1, 1) || len(keys) != 1 {
		return false
	}
	key, err := base64.StdEncoding.DecodeString(strings.TrimSpace(keys[0]))
	return err == nil && len(key) == 16 && r.Header.Get("Sec-WebSocket-Version") == "13" &&
		hasToken(r.Header, "Connection", "Upgrade") && hasToken(r.Header, "Upgrade", "websocket") && ofOwnOrigin(r)
}

// hasToken reports whether a header, a list, has a token.
func hasToken(h http.Header, name, token string) bool {
	return slices.ContainsFunc(strings.Split(strings.Join(h.Values(name), ","), ","), func(t string) bool {
		return strings.EqualFold(strings.TrimSpace(t), token)
	})
}

// ofOwnOrigin reports whether a request comes from a page of this address, or from no page.
func ofOwnOrigin(r *http.Request) bool {
	origin := r.Header.Get("Origin")
	u, err := url.Parse(origin)
	return origin == "" || err == nil && strings.EqualFold(u.Host, r.Host)
}
