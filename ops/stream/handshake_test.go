package stream

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/coder/websocket"
)

// What counts as a handshake is what the library accepts. It answers 501 when it has accepted
// a request, and cannot have the connection.
func TestIsHandshake(t *testing.T) {
	const key = "dGhlIHNhbXBsZSBub25jZQ=="
	for name, c := range map[string]struct {
		good   bool
		change func(r *http.Request)
	}{
		"plain":            {true, func(*http.Request) {}},
		"in a list":        {true, func(r *http.Request) { r.Header.Set("Connection", "keep-alive, upgrade") }},
		"in two headers":   {true, func(r *http.Request) { r.Header["Connection"] = []string{"keep-alive", "Upgrade"} }},
		"of two protocols": {true, func(r *http.Request) { r.Header.Set("Upgrade", "h2c, WebSocket") }},
		"own origin":       {true, func(r *http.Request) { r.Header.Set("Origin", "http://EXAMPLE.com") }},
		"spaces":           {true, func(r *http.Request) { r.Header.Set("Sec-WebSocket-Key", " "+key+" ") }},
		"HEAD":             {false, func(r *http.Request) { r.Method = http.MethodHead }},
		"HTTP/1.0":         {false, func(r *http.Request) { r.ProtoMinor = 0 }},
		"version 8":        {false, func(r *http.Request) { r.Header.Set("Sec-WebSocket-Version", "8") }},
		"no version":       {false, func(r *http.Request) { r.Header.Del("Sec-WebSocket-Version") }},
		"no connection":    {false, func(r *http.Request) { r.Header.Del("Connection") }},
		"keep-alive":       {false, func(r *http.Request) { r.Header.Set("Connection", "keep-alive") }},
		"no upgrade":       {false, func(r *http.Request) { r.Header.Del("Upgrade") }},
		"h2c":              {false, func(r *http.Request) { r.Header.Set("Upgrade", "h2c") }},
		"no key":           {false, func(r *http.Request) { r.Header.Del("Sec-WebSocket-Key") }},
		"two keys":         {false, func(r *http.Request) { r.Header.Add("Sec-WebSocket-Key", key) }},
		"a short key":      {false, func(r *http.Request) { r.Header.Set("Sec-WebSocket-Key", "c2hvcnQ=") }},
		"a key of rubbish": {false, func(r *http.Request) { r.Header.Set("Sec-WebSocket-Key", "%") }},
		"another origin":   {false, func(r *http.Request) { r.Header.Set("Origin", "http://evil.example") }},
		"origin null":      {false, func(r *http.Request) { r.Header.Set("Origin", "null") }},
		"a broken origin":  {false, func(r *http.Request) { r.Header.Set("Origin", "http://%") }},
	} {
		r := httptest.NewRequest(http.MethodGet, "http://example.com/", nil)
		for name, value := range map[string]string{"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": key} {
			r.Header.Set(name, value)
		}
		c.change(r)
		w := httptest.NewRecorder()
		_, err := websocket.Accept(w, r, nil)
		accepts := w.Code == http.StatusNotImplemented
		if got := IsHandshake(r); got != c.good || accepts != c.good {
			t.Errorf("%s: %v; the library has %d, %v", name, got, w.Code, err)
		}
	}
}
