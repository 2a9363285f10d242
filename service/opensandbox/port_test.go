package opensandbox_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"testing"
	"time"

	"wolffia/internal/test/servetest"
	"wolffia/internal/test/testenv"
)

// portServer is a server inside that answers with the request as it got it, and with the lines in capitals
// after an upgrade. It returns when it listens.
const portServer = `cat >/tmp/server.py <<'E'
import http.server, os, time
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        if self.headers.get("Upgrade"):
            self.send_response(101)
            self.send_header("Upgrade", "echo")
            self.send_header("Connection", "Upgrade")
            self.end_headers()
            for line in self.rfile:
                self.wfile.write(line.upper())
            self.close_connection = True
            return
        if self.path == "/slow":
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            time.sleep(1.5)
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Connection", "close")
            self.end_headers()
            for n in range(4):
                self.wfile.write(b"data: %d\n\n" % n)
                time.sleep(0.5)
            self.close_connection = True
            return
        if self.path == "/halves":
            half = self.rfile.read(4)
            self.send_response(200)
            self.send_header("Content-Length", "8")
            self.end_headers()
            self.wfile.write(half)
            self.wfile.write(self.rfile.read(4))
            return
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        text = (self.command + " " + self.path + "\n" + str(self.headers)).encode() + body
        self.wfile.write(b"HTTP/1.1 103 Early Hints\r\nSet-Cookie: early=1\r\nLink: </x>\r\n\r\n")
        self.send_response(200)
        for name in "Set-Cookie", "Clear-Site-Data", "Strict-Transport-Security", "Alt-Svc", "NEL", "Report-To", "Service-Worker-Allowed", "X-Accel-Redirect", "x-accel-expires", "X-Sendfile", "X_Sendfile", "X-Reproxy-URL", "X-LIGHTTPD-send-file":
            self.send_header(name, "a=b")
        self.send_header("Content-Security-Policy", "default-src *")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)
    do_POST = do_GET
server = http.server.ThreadingHTTPServer(("127.0.0.1", 3000), Handler)
if os.fork() == 0:
    os.setsid()
    null = os.open("/dev/null", os.O_RDWR)
    for fd in 0, 1, 2:
        os.dup2(null, fd)
    server.serve_forever()
E
python3 /tmp/server.py`

// A server inside is reached by a path of the service, also with an upgrade. Neither side gets what belongs to
// the service.
func TestPorts(t *testing.T) {
	testenv.Tools(t, "python3")
	w := newWorld(t)
	id, execd := w.create(`{"image":{"uri":"host"}}`)
	w.run(execd+"/command", m{"command": portServer})
	base := "/sandboxes/" + id + "/port/3000"

	for _, path := range []string{base, execd + "/proxy/3000", "/v1/sandboxes/" + id + "/proxy/3000"} {
		text := w.is("POST", path+"/a%2Fb/c?x=%20&y", "the body", 200, "POST /a%2Fb/c?x=%20&y\n", "Authorization", "Bearer k", "Cookie", "c=d", "Open-Sandbox-Api-Key", "k", "X-Own", "kept")
		if !strings.Contains(text, "X-Own: kept") || !strings.HasSuffix(text, "the body") || !strings.Contains(text, "Host: localhost:3000") {
			t.Errorf("%s: the server inside got %q", path, text)
		}
		for _, secret := range []string{"Authorization", "Cookie", "Api-Key"} {
			if strings.Contains(strings.ToLower(text), strings.ToLower(secret)) {
				t.Errorf("%s: the server inside got %s: %q", path, secret, text)
			}
		}
	}
	dial := func() (net.Conn, *bufio.Reader) {
		conn, err := net.Dial("tcp", w.Address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		_ = conn.SetDeadline(time.Now().Add(30 * time.Second))
		return conn, bufio.NewReader(conn)
	}
	for sent, want := range map[string]string{
		"/8080//a": "/8080//a", "/a//": "/a//", "/a/../b/./": "/a/../b/./", `/a%2fb%5b{}^"`: "/a%2fb%5b%7B%7D%5E%22", "/%2e%2e//%0d%0aX:%20y|": "/%2e%2e//%0d%0aX:%20y%7C",
	} {
		for _, path := range []string{base, execd + "/proxy/3000", "/v1/sandboxes/" + id + "/proxy/3000"} {
			conn, in := dial()
			fmt.Fprintf(conn, "GET %s%s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", path, sent, w.Address)
			text, err := io.ReadAll(in)
			if err != nil || !strings.Contains(string(text), "\r\n\r\nGET "+want+"\n") {
				t.Errorf("%s%s: got text %q, err %v; want err == nil and text contains %q", path, sent, text, err, "\r\n\r\nGET "+want+"\n")
			}
		}
	}
	early := 0
	req, err := http.NewRequestWithContext(httptrace.WithClientTrace(w.Ctx, &httptrace.ClientTrace{
		Got1xxResponse: func(int, textproto.MIMEHeader) error { early++; return nil },
	}), http.MethodGet, "http://"+w.Address+base+"/", nil)
	w.OK(err)
	res, err := w.Client.Do(req)
	w.OK(err)
	w.OK(res.Body.Close())
	header := res.Header
	if early > 0 || header.Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("%d early replies, %v", early, header)
	}
	if policies := header.Values("Content-Security-Policy"); len(policies) != 2 || !strings.HasPrefix(policies[1], "sandbox ") || strings.Contains(policies[1], "same-origin") {
		t.Errorf("the browser is told %q", policies)
	}
	for _, name := range []string{"Set-Cookie", "Clear-Site-Data", "Strict-Transport-Security", "Alt-Svc", "NEL", "Report-To", "Service-Worker-Allowed", "X-Accel-Redirect", "X-Accel-Expires", "X-Sendfile", "X_sendfile", "X-Reproxy-Url", "X-Lighttpd-Send-File"} {
		if header.Get(name) != "" {
			t.Errorf("a server inside sends %s for the service", name)
		}
	}

	// A reply may begin before the request has ended.
	conn, in := dial()
	fmt.Fprintf(conn, "POST %s/halves HTTP/1.1\r\nHost: %s\r\nContent-Length: 8\r\n\r\none ", base, w.Address)
	res, err = http.ReadResponse(in, nil)
	w.OK(err)
	for i, half := range []string{"one ", "two "} {
		if i == 1 {
			fmt.Fprint(conn, half)
		}
		got := make([]byte, len(half))
		if _, err := io.ReadFull(res.Body, got); err != nil || string(got) != half {
			t.Fatalf("half %d of the reply: %q, %v", i, got, err)
		}
	}

	conn, in = dial()
	fmt.Fprintf(conn, "GET %s/ws HTTP/1.1\r\nHost: %s\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n", base, w.Address)
	status, err := in.ReadString('\n')
	if err != nil || !strings.Contains(status, "101") {
		t.Fatalf("upgrade: %q, %v", status, err)
	}
	for line := status; line != "\r\n" && err == nil; {
		line, err = in.ReadString('\n')
	}
	for _, word := range []string{"one", "two"} {
		fmt.Fprintln(conn, word)
		if line, err := in.ReadString('\n'); err != nil || line != strings.ToUpper(word)+"\n" {
			t.Fatalf("after the upgrade: %q, %v", line, err)
		}
	}

	w.is("GET", "/sandboxes/"+id+"/port/3001/", "", 502, "no server listens there")
	w.is("GET", "/sandboxes/"+id+"/port/0/", "", 400, "INVALID_PARAMETER")
	w.is("GET", "/sandboxes/"+id+"/port/70000/", "", 400, "INVALID_PARAMETER")
	w.is("GET", "/sandboxes/"+id+"/port/18080/other", "", 404, "NOT_FOUND")
	w.is("GET", base+"/", "", 403, "FOREIGN_ORIGIN", "Origin", "null") // what such a page is, in the end
}

// A server inside may take its time, before its reply and in it; the limits are the client's.
func TestSlowPort(t *testing.T) {
	testenv.Tools(t, "python3")
	w := &world{servetest.NewLimited(t, time.Second)}
	id, execd := w.create(`{"image":{"uri":"host"}}`)
	w.run(execd+"/command", m{"command": portServer})
	for method, body := range map[string]string{"GET": "", "POST": "the body"} {
		if text := w.is(method, "/sandboxes/"+id+"/port/3000/slow", body, 200, "data: 0\n"); !strings.HasSuffix(text, "data: 3\n\n") {
			t.Errorf("%s: the reply is %q", method, text)
		}
	}
}
