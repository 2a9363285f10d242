package console

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"encoding/hex"
	"io/fs"
	"mime"
	"net/http"
	"net/url"
	"path"
	"strings"
	"time"

	"wolffia/service/gate"
)

//go:embed web/dist
var dist embed.FS

// policy is the page's: what it loads is its own, and no script nor style is in the text of a page.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; font-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// secure sets the headers of each reply.
func secure(h http.Header) {
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
}

// types are the media types of the page's files by their extensions. What the host's own table says
// does not matter.
var types = map[string]string{
	".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8",
	".svg": "image/svg+xml", ".png": "image/png", ".woff2": "font/woff2", ".txt": "text/plain; charset=utf-8",
}

// page serves a file of the page.
func page(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("file")
	if name == "" {
		name = "index.html"
	}
	content, err := fs.ReadFile(dist, path.Join("web/dist", name))
	kind, known := types[path.Ext(name)]
	if err != nil || !known || strings.Contains(name, "..") {
		writeJSON(w, http.StatusNotFound, failed("notFound", "the console has no such file"))
		return
	}
	sum := sha256.Sum256(content)
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Cache-Control", "no-cache")
	w.Header().Set("ETag", `"`+hex.EncodeToString(sum[:8])+`"`)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
}

// The subprotocols of a WebSocket: the one that is spoken, and one that carries the token.
const (
	protocol      = "wolffia.console"
	protocolToken = "wolffia.token."
)

// tokenOfProtocol makes the token that a WebSocket has as a subprotocol that of the header.
func tokenOfProtocol(r *http.Request) {
	if r.Header.Get("Upgrade") == "" || r.Header.Get("Authorization") != "" {
		return
	}
	for _, list := range r.Header.Values("Sec-WebSocket-Protocol") {
		for name := range strings.SplitSeq(list, ",") {
			text, is := strings.CutPrefix(strings.TrimSpace(name), protocolToken)
			if token, err := base64.RawURLEncoding.DecodeString(text); is && err == nil {
				r.Header.Set("Authorization", "Bearer "+string(token))
			}
		}
	}
}

// ofOwnPage returns an error for a request that another page has caused.
func ofOwnPage(r *http.Request) error {
	if site := r.Header.Get("Sec-Fetch-Site"); site != "" && site != "same-origin" && site != "none" && strings.HasPrefix(r.URL.Path, api) {
		return errOrigin
	}
	origin := r.Header.Get("Origin")
	if origin == "" {
		return nil
	}
	if u, err := url.Parse(origin); err != nil || !strings.EqualFold(u.Host, r.Host) {
		return errOrigin
	}
	return nil
}

var errOrigin = &gate.Refusal{Status: http.StatusForbidden, Code: "foreignOrigin", Message: "the request comes from a web page of another origin"}

// isJSON reports whether a request says that its body is JSON.
func isJSON(r *http.Request) bool {
	media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	return err == nil && media == "application/json"
}
