package opensandbox_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"wolffia/internal/test/suite"
	"wolffia/local"
	"wolffia/runtime"
	"wolffia/runtime/bwrap"
	"wolffia/runtime/launch"
	"wolffia/service"
	"wolffia/service/gate"
	"wolffia/service/meter"
	"wolffia/service/opensandbox"
	"wolffia/service/server"
)

// A shown is the runtime of an empty state directory, which shows a running sandbox all the
// same: so requests about it are read to their end, and what they ask for is then an error.
type shown struct{ *local.Runtime }

const shownID = "aaaaaaaaaaaa"

func (shown) sandbox() *runtime.Sandbox {
	return &runtime.Sandbox{
		ID: shownID, State: runtime.StateRunning, MountPoint: "/workspace", CreatedAt: time.UnixMilli(1),
		Labels: map[string]string{launch.LabelRecord: `{"owner":{}}`, "team": "x"},
	}
}

// Get implements [runtime.Runtime].
func (s shown) Get(ctx context.Context, id string) (*runtime.Sandbox, error) {
	if id == shownID {
		return s.sandbox(), nil
	}
	return s.Runtime.Get(ctx, id)
}

// List implements [runtime.Runtime].
func (s shown) List(context.Context) ([]*runtime.Sandbox, error) {
	return []*runtime.Sandbox{s.sandbox()}, nil
}

// panics notes whether a log tells of a panic.
type panics struct{ seen atomic.Pointer[string] }

func (p *panics) Write(b []byte) (int, error) {
	if bytes.Contains(b, []byte("panic")) || bytes.Contains(b, []byte(`"level":"ERROR"`)) {
		text := string(b)
		p.seen.Store(&text)
	}
	return len(b), nil
}

// serveShown serves the calls of the service and OpenSandbox's over a shown sandbox.
func serveShown(f *testing.F) (address string, log *panics) {
	s := suite.New(f)
	dir := f.TempDir()
	rt, err := local.New(&local.Options{StateDir: dir, Binary: filepath.Join(dir, "none")}, bwrap.Backend())
	s.OK(err)
	f.Cleanup(func() { _ = rt.Close() })
	log = new(panics)
	logger := slog.New(slog.NewJSONHandler(log, nil))
	full := func() (*runtime.SandboxConfig, error) {
		return nil, runtime.Errorf(runtime.ErrUnavailable, "no sandbox can be made")
	}
	fleet := service.New(shown{rt}, &service.Options{Configure: func(context.Context, *service.Params) (*runtime.SandboxConfig, error) { return full() }})
	svc, err := service.Open(s.Ctx, rt, dir, &service.Options{
		Configure: func(context.Context, *service.Params) (*runtime.SandboxConfig, error) { return full() },
	})
	s.OK(err)
	f.Cleanup(func() { _ = svc.Close() })
	l, err := net.Listen("tcp", "127.0.0.1:0")
	s.OK(err)
	srv := server.New(svc, &server.Options{
		Log: logger, Gate: gate.New(nil, true), Meter: new(meter.Meter), Metrics: true,
		OpenSandbox: opensandbox.New(fleet, &opensandbox.Options{Log: logger}),
	})
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve(l) }() // ends with Close
	f.Cleanup(func() {
		_ = srv.Close()
		<-ended
	})
	return l.Addr().String(), log
}

// Whatever a client sends, it gets one answer that is HTTP, or none if the request was not: no
// request makes the service panic, or fail in a way of its own, or hang.
func FuzzRequest(f *testing.F) {
	execd := "/sandboxes/" + shownID + "/port/44772"
	const media = "Content-Type: application/json"
	owner := `{"organizationId":"o","projectId":"p","userId":"u"`
	for _, c := range [][4]string{
		{"POST", "/v1/sandboxes", media, `{"image":{"uri":"host"},"timeout":600,"entrypoint":["a"],"env":{"A":"b"},"metadata":{"k":"v"},"resourceLimits":{"cpu":"500m","memory":"1Gi"},"networkPolicy":{"defaultAction":"deny","egress":[{"action":"allow","target":"*.x.org"}]},"volumes":[],"extensions":{"a":"b"}}`},
		{"POST", "/v1/sandboxes", media + "\r\nIdempotency-Key: k", `{"image":{"uri":"x:1"}}`},
		{"GET", "/v1/sandboxes?state=Running&metadata=team%3Dx&page=1&pageSize=20", "", ""},
		{"GET", "/v1/sandboxes/" + shownID, "X-Request-Id: a b", ""},
		{"PATCH", "/v1/sandboxes/" + shownID + "/metadata", media, `{"k":null}`},
		{"POST", "/v1/sandboxes/" + shownID + "/renew-expiration", media, `{"expiresAt":"2030-01-01T00:00:00Z"}`},
		{"GET", "/v1/sandboxes/" + shownID + "/endpoints/44772", "", ""},
		{"DELETE", "/v1/sandboxes/" + shownID, "", ""},
		{"POST", execd + "/command", media, `{"command":"true","cwd":"/","background":false,"timeout":5,"uid":0,"gid":0,"envs":{"A":"b"}}`},
		{"POST", execd + "/command", media, `{"command":"true","background":true}`},
		{"GET", execd + "/command/x/logs?cursor=5", "", ""},
		{"GET", execd + "/command/status/x", "", ""},
		{"POST", execd + "/session", media, `{"cwd":"/"}`},
		{"POST", execd + "/session/x/run", media, `{"command":"true"}`},
		{"DELETE", execd + "/session/x", "", ""},
		{"GET", execd + "/files/info?path=/tmp&path=x", "", ""},
		{"GET", execd + "/files/search?path=/&pattern=*", "", ""},
		{"GET", execd + "/files/download?path=/x", "Range: bytes=0-5", ""},
		{"POST", execd + "/files/upload", "Content-Type: multipart/form-data; boundary=b", "--b\r\nContent-Disposition: form-data; name=\"metadata\"; filename=\"metadata\"\r\n\r\n{\"path\":\"/x\",\"mode\":600}\r\n--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"f\"\r\n\r\nx\r\n--b--\r\n"},
		{"POST", execd + "/files/permissions", media, `{"/x":{"mode":755,"owner":"a","group":"b"}}`},
		{"POST", execd + "/files/mv", media, `[{"src":"/x","dest":"/y"}]`},
		{"POST", execd + "/files/replace?verbose=true", media, `{"/x":{"old":"a","new":"b"}}`},
		{"GET", execd + "/directories/list?path=/&depth=2", "", ""},
		{"POST", execd + "/directories", media, `{"/x":{"mode":755}}`},
		{"GET", "/sandboxes/" + shownID + "/port/80/x?y=z", "Upgrade: websocket\r\nConnection: Upgrade", ""},
		{"GET", execd + "/proxy/80/x", "", ""},
		{"POST", "/api/v1/createSandbox", media, owner + `,"gitConfig":{"username":"a","email":"b","token":"c"},"network":"filtered","egress":{"allow":["x.org"]}}`},
		{"POST", "/api/v1/ensureSandbox", media, owner + `}`},
		{"POST", "/api/v1/executeBash", media, owner + `,"sandboxId":"` + shownID + `","command":"true","cwd":"/","timeoutMs":5,"operationId":"o-1"}`},
		{"POST", "/api/v1/writeFiles", media, owner + `,"sandboxId":"` + shownID + `","files":{"a":{"encoding":"base64","content":"AP8="}}}`},
		{"POST", "/api/v1/touchSandbox", media, owner + `,"sandboxId":"` + shownID + `","ttlMs":1e300}`},
		{"POST", "/api/v1/scanRunningSandboxes", media, `{}`},
		{"GET", "/health", "Origin: http://evil.example", ""},
		{"GET", "/metrics", "Host: evil.example", ""},
		{"OPTIONS", "*", "Transfer-Encoding: chunked", "5\r\nabc"},
		{"GET", "http://evil.example/v1/../%2e%2e//sandboxes/%00", "Expect: 100-continue\r\nContent-Length: 9", "x"},
	} {
		f.Add(c[0], c[1], c[2], c[3])
	}
	address, log := serveShown(f)
	f.Fuzz(func(t *testing.T, method, target, header, body string) {
		c, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if err := c.SetDeadline(time.Now().Add(3 * time.Minute)); err != nil { // a guard against a hang
			t.Fatal(err)
		}
		// The server may answer, and close, before it has read all.
		_, _ = fmt.Fprintf(c, "%s %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n%s\r\nContent-Length: %d\r\n\r\n%s", method, target, header, len(body), body)
		_ = c.(*net.TCPConn).CloseWrite()
		answer, err := io.ReadAll(c)
		if ne, is := err.(net.Error); is && ne.Timeout() {
			t.Fatal("it hangs")
		}
		if text := log.seen.Swap(nil); text != nil {
			t.Fatalf("the log has %s", *text)
		}
		r := bufio.NewReader(bytes.NewReader(answer))
		for r.Buffered() > 0 || len(answer) > 0 {
			res, rerr := http.ReadResponse(r, nil)
			if rerr != nil {
				if len(answer) > 0 && err == nil && !strings.HasPrefix(method, "HEAD") {
					t.Fatalf(`got answer %q, rerr %v; want len(answer) <= 0 or err != nil or method begins with "HEAD"`, answer, rerr)
				}
				return
			}
			text, _ := io.ReadAll(res.Body)
			if res.StatusCode == http.StatusInternalServerError {
				t.Fatalf("http.ReadResponse: got res.StatusCode %d, text %s; want res.StatusCode != http.StatusInternalServerError",
					res.StatusCode, text)
			}
			if res.StatusCode >= 400 && res.Header.Get("Content-Type") == "application/json" && method != "HEAD" && !json.Valid(text) {
				t.Fatalf(`http.ReadResponse: got res.StatusCode %d, text %q; want res.StatusCode < 400 or res.Header.Get("Content-Type") != "application/json" or method == "HEAD" or json.Valid(text)`,
					res.StatusCode, text)
			}
			if _, err := r.Peek(1); err != nil {
				return
			}
		}
	})
}
