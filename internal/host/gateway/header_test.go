package gateway

import (
	"bufio"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"wolffia/internal/host/egress"
	"wolffia/network"
)

const secret = "Bearer s3cret-token"

// sealedWorld has a host of a header, example.com, which answers with the request's headers in a
// form that does not have their values.
func sealedWorld(t *testing.T, file string) *world {
	t.Helper()
	s := httptest.NewTLSServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("X-Echo", r.Header.Get("Authorization"))
		switch r.URL.Path {
		case "/early":
			rw.WriteHeader(http.StatusEarlyHints)
		case "/trailer":
			rw.Header().Set("Trailer", "X-Late, X-Plain")
			defer func() {
				for _, name := range []string{"X-Late", http.TrailerPrefix + "X-Unannounced"} {
					rw.Header().Set(name, r.Header.Get("Authorization"))
				}
				rw.Header().Set("X-Plain", "late")
			}()
		case "/moved":
			rw.Header().Set("Location", "https://example.com/to")
			rw.WriteHeader(http.StatusFound)
			return
		}
		_, _ = fmt.Fprintf(rw, "%s %s %d right:%t other:%q", r.Host, r.RequestURI,
			len(r.Header["Authorization"]), r.Header.Get("Authorization") == secret, r.Header.Get("X-Other"))
	}))
	t.Cleanup(s.Close)
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	p := network.Policy{Headers: []network.Header{{Name: "example.com", Header: "Authorization", File: file}}}
	w := newWorld(t, p, func(o *Options) { o.Roots = roots })
	w.host("example.com", 443, s.Listener.Addr().String(), "93.184.216.34")
	return w
}

func TestHeader(t *testing.T) {
	checkLeaks(t)
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(secret+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	w := sealedWorld(t, file)
	c := w.name("example.com.wolffia", 80)
	r := bufio.NewReader(c)
	for _, row := range []struct{ text, want string }{
		{"GET /a?b HTTP/1.1\nHost: example.com.wolffia\n\n", `example.com /a?b 1 right:true other:""`},
		{"GET / HTTP/1.1\nHost: example.com.wolffia\nAuthorization: mine\nX-Other: x\n\n", `example.com / 1 right:true other:"x"`},
		{"GET / HTTP/1.1\nHost: example.com.wolffia\nConnection: Authorization\n\n", `example.com / 1 right:true other:""`},
		{"GET / HTTP/1.1\nHost: example.com.wolffia\nauthorization: a\nAUTHORIZATION: b\n\n", `example.com / 1 right:true other:""`},
	} {
		if status, body := request(t, c, r, row.text); status != 200 || body != row.want {
			t.Errorf("%q: got %d, %q; want 200, %q", row.text, status, body, row.want)
		}
	}
	if _, err := io.WriteString(c, "GET /moved HTTP/1.1\r\nHost: example.com.wolffia\r\nConnection: close\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(r)
	if err != nil || !strings.Contains(string(text), "Location: http://example.com.wolffia/to\r\n") {
		t.Errorf("io.ReadAll: got text %q, err %v; want err == nil and text contains %q",
			text, err, "Location: http://example.com.wolffia/to\r\n")
	}
	if strings.Contains(string(text), "s3cret") || strings.Contains(string(text), "X-Echo") {
		t.Errorf("the secret is shown inside: %q", text)
	}
	w.quiet()

	// A new value holds from the next request on; through the proxy too.
	if err := os.WriteFile(file, []byte("other"), 0o600); err != nil {
		t.Fatal(err)
	}
	p := w.connect(AddrHTTP.Addr(), 3128)
	if _, body := request(t, p, bufio.NewReader(p), "GET http://example.com.wolffia/ HTTP/1.1\nHost: example.com.wolffia\n\n"); body != `example.com / 1 right:false other:""` {
		t.Error(body)
	}
}

// The secret does not come back inside before the reply, nor behind it.
func TestHeaderIsNotEchoed(t *testing.T) {
	checkLeaks(t)
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(secret), 0o600); err != nil {
		t.Fatal(err)
	}
	w := sealedWorld(t, file)
	for path, part := range map[string]string{"/early": "right:true", "/trailer": "X-Plain: late\r\n"} {
		c := w.name("example.com.wolffia", 80)
		if _, err := io.WriteString(c, "GET "+path+" HTTP/1.1\r\nHost: example.com.wolffia\r\nTE: trailers\r\nConnection: close, TE\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(c)
		if err != nil || !strings.Contains(string(text), part) || strings.Contains(string(text), "s3cret") {
			t.Errorf(`%s: got text %q, err %v; want err == nil and text contains %v and text does not contain "s3cret"`,
				path, text, err, part)
		}
	}
	w.quiet()
}

// The header opens nothing but its own way.
func TestHeaderAllowsNothingElse(t *testing.T) {
	checkLeaks(t)
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(secret), 0o600); err != nil {
		t.Fatal(err)
	}
	w := sealedWorld(t, file)
	w.refusedName("example.com.")
	w.proxy("CONNECT example.com:443 HTTP/1.1\nHost: example.com:443\n\n")
	w.proxy("CONNECT example.com.wolffia:443 HTTP/1.1\nHost: example.com.wolffia:443\n\n")
	w.proxy("GET http://example.com/ HTTP/1.1\nHost: example.com\n\n")
	w.proxy("GET http://example.com.wolffia:443/ HTTP/1.1\nHost: example.com.wolffia\n\n")
	w.web(w.name("example.com.wolffia", 80), "TRACE / HTTP/1.1\nHost: example.com.wolffia\n\n")
	w.web(w.name("example.com.wolffia", 80), "GET / HTTP/1.1\nHost: example.com\n\n")
	w.undialled()
	w.host("example.com", 443, "", "10.0.0.1") // rebinding holds here too
	w.web(w.name("example.com.wolffia", 80), "GET / HTTP/1.1\nHost: example.com.wolffia\n\n")
	w.expect(fmt.Sprintf(egress.ReasonForbidden, "private"))
	w.undialled()
	// A connection that carried the header is closed with it.
	w.set(allow("a.example"))
	w.refusedName("example.com.wolffia.")
}

// The host must be the one that its certificate names.
func TestHeaderNeedsCertificate(t *testing.T) {
	checkLeaks(t)
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(secret), 0o600); err != nil {
		t.Fatal(err)
	}
	p := network.Policy{Headers: []network.Header{{Name: "other.example", Header: "Authorization", File: file}}}
	w := newWorld(t, p, func(o *Options) { o.Roots = x509.NewCertPool() })
	w.site("other.example", "93.184.216.34")
	c := w.name("other.example.wolffia", 80)
	if status, body := request(t, c, bufio.NewReader(c), "GET / HTTP/1.1\nHost: other.example.wolffia\n\n"); status != 502 || strings.Contains(body, "s3cret") {
		t.Error(status, body)
	}
}

func TestReadHeader(t *testing.T) {
	dir := t.TempDir()
	fifo := filepath.Join(dir, "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{dir, fifo, "/dev/zero", filepath.Join(dir, "missing")} {
		if value, err := readHeader(file); err == nil {
			t.Errorf("%s: got %q; want err != nil", file, value)
		}
	}
	for text, want := range map[string]string{
		"a": "a", "a b\n": "a b", "a\r\n": "a", "": "", "\n": "", "a\nb": "", "a\x00": "", "a\r\nX: y\r\n": "", strings.Repeat("a", maxHeaderFile+1): "",
	} {
		file := filepath.Join(dir, "f")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		value, err := readHeader(file)
		if value != want || (err == nil) != (want != "") || err != nil && text != "" && strings.Contains(err.Error(), text+"x") {
			t.Errorf(`readHeader: got text %.20q, value %.20q, err %v; want value == %.20q and (err == nil) == want != "" and (err == nil or text == "" or err.Error() does not contain %q)`,
				text, value, err, want, text+"x")
		}
	}
}
