package e2b_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"wolffia/internal/test/servetest"
	"wolffia/internal/test/testenv"
	"wolffia/runtime"
	"wolffia/service"
	"wolffia/service/e2b"
	"wolffia/service/quota"
)

// A box is a sandbox as a reply has it.
type box struct {
	ID      string `json:"sandboxID"`
	Envd    string `json:"envdAccessToken"`
	Traffic string `json:"trafficAccessToken"`
}

// A world is a service.
type world struct{ *servetest.World }

// call calls the control API, whose reply must have a status, and decodes that into to, if not nil.
func (w world) call(method, path, body string, status int, to any) {
	w.Helper()
	got, _, text := w.Do(method, path, strings.NewReader(body), "X-API-Key", keyAll)
	if got != status {
		w.Fatalf("%s %s %s: %d %s, want %d", method, path, body, got, text, status)
	}
	if to != nil {
		w.OK(json.Unmarshal([]byte(text), to))
	}
}

func (w world) create(body string) (b box) {
	w.Helper()
	w.call(http.MethodPost, "/v2/sandboxes", body, http.StatusCreated, &b)
	return b
}

// at are the headers of a request to a port of a sandbox.
func (b *box) at(port string, more ...string) []string {
	return append([]string{"E2b-Sandbox-Id", b.ID, "E2b-Sandbox-Port", port}, more...)
}

const envdPort, list = "49983", "/process.Process/List"

// Requests by a token count for the key that has created the sandbox. Those without one do not.
func TestTrafficRate(t *testing.T) {
	w := world{servetest.New(t, keyAll+" name=team\n", func(o *service.Options) {
		o.Quotas = []quota.Rule{{Key: "team", Quota: quota.Quota{Requests: 5}}}
	})}
	b := w.create("{}")
	for _, port := range []string{"3000", envdPort} {
		want := map[string]int{"3000": http.StatusForbidden, envdPort: http.StatusUnauthorized}[port]
		for range 20 {
			if status, _, text := w.Do(http.MethodPost, list, nil, b.at(port)...); status != want {
				t.Fatalf("port %s without a token: %d %s, want %d", port, status, text, want)
			}
		}
	}
	for _, headers := range [][]string{
		b.at("3000", "E2b-Traffic-Access-Token", b.Traffic), b.at(envdPort, "X-Access-Token", b.Envd),
	} {
		status := 0
		for n := 0; n < 1000 && status != http.StatusTooManyRequests; n++ {
			if status, _, _ = w.Do(http.MethodPost, list, nil, headers...); n == 0 && headers[3] == "3000" && status != http.StatusBadGateway {
				t.Errorf("the first request by a token: %d", status)
			}
		}
		if status != http.StatusTooManyRequests {
			t.Errorf("port %s: no request was refused", headers[3])
		}
	}
}

// Requests to a port start a sandbox that was created so, also several at once, which then ends
// again. One without the token does not.
func TestAutoResume(t *testing.T) {
	w := world{servetest.New(t, keyAll+"\n")}
	all := service.Caller{All: true}
	for _, body := range []string{`{"autoPause":true,"autoResume":{"enabled":true}}`, `{"autoPause":true}`} {
		b, resumes := w.create(body), strings.Contains(body, "enabled")
		w.call(http.MethodPost, "/sandboxes/"+b.ID+"/pause", "", http.StatusNoContent, nil)
		w.call(http.MethodPost, "/sandboxes/"+b.ID+"/pause", "", http.StatusConflict, nil)
		for _, headers := range [][]string{
			b.at(envdPort), b.at(envdPort, "X-Access-Token", b.Traffic), b.at("3000"), b.at("49999"),
		} {
			status, _, _ := w.Do(http.MethodGet, "/health", nil, headers...)
			if now, err := w.Service.Get(w.Ctx, all, b.ID); err != nil || now.State == runtime.StateRunning {
				t.Fatalf("%s: %v without the token: %d, and it runs: %v", body, headers, status, err)
			}
		}
		var wait sync.WaitGroup
		for range 8 {
			wait.Go(func() {
				status, _, text := w.Do(http.MethodGet, "/", nil, b.at("3000", "E2b-Traffic-Access-Token", b.Traffic)...)
				if status != http.StatusBadGateway || strings.Contains(text, "no server listens") != resumes {
					t.Errorf("%s: %d %s", body, status, text)
				}
			})
		}
		wait.Wait()
		now, err := w.Service.Get(w.Ctx, all, b.ID)
		if err != nil || (now.State == runtime.StateRunning) != resumes || now.End().IsZero() == resumes {
			t.Errorf("%s: %+v, end %v, %v", body, now, now.End(), err)
		}
	}
}

// A server inside gets what a request to its port says, but no key and no token.
func TestTraffic(t *testing.T) {
	testenv.Tools(t, "python3")
	w := world{servetest.New(t, keyAll+"\n")}
	b := w.create(`{"network":{"allowPublicTraffic":false}}`)
	in, err := w.Service.Inside(w.Ctx, service.Caller{All: true}, b.ID)
	w.OK(err)
	const server = `
import http.server
class H(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(201)
        self.send_header("Set-Cookie", "a=b")
        self.end_headers()
        self.wfile.write((self.path + "\n" + str(self.headers)).encode() + body)
s = http.server.HTTPServer(("127.0.0.1", 3000), H)
print("up", flush=True)
s.serve_forever()
`
	p, err := in.StartProcess(w.Ctx, &runtime.Command{Command: []string{"python3", "-c", server}})
	w.OK(err)
	defer p.Close()
	_, err = p.Stdout().Read(make([]byte, 2))
	w.OK(err)
	for _, headers := range [][]string{b.at("3000"), {"Host", "3000-" + b.ID + ".localhost"}} {
		headers = append(headers, "E2b-Traffic-Access-Token", b.Traffic, "X-Access-Token", b.Envd, "X-API-Key", keyAll, "X-Own", "yes")
		status, header, text := w.Do(http.MethodPost, "/a%2fb?c=d", strings.NewReader("the body"), headers...)
		if status != http.StatusCreated || !strings.HasPrefix(text, "/a%2fb?c=d\n") || !strings.HasSuffix(text, "the body") ||
			!strings.Contains(text, "X-Own: yes") || header.Get("Set-Cookie") != "" ||
			!strings.Contains(header.Get("Content-Security-Policy"), "sandbox") {
			t.Errorf("%d %v %s", status, header, text)
		}
		for _, secret := range []string{b.Traffic, b.Envd, keyAll, b.ID} {
			if strings.Contains(text, secret) {
				t.Errorf("the server inside got %s: %s", secret, text)
			}
		}
	}
	conn, err := net.Dial("tcp", w.Address) // Go's client sends no such path
	w.OK(err)
	defer conn.Close()
	_, err = fmt.Fprintf(conn, "POST /a%%2fb\"c HTTP/1.1\r\nHost: 3000-%s.localhost\r\nE2b-Traffic-Access-Token: %s\r\nContent-Length: 0\r\n\r\n", b.ID, b.Traffic)
	w.OK(err)
	reply, err := http.ReadResponse(bufio.NewReader(conn), nil)
	w.OK(err)
	text, err := io.ReadAll(reply.Body)
	w.OK(err)
	if path, _, _ := strings.Cut(string(text), "\n"); path != "/a%2fb%22c" {
		t.Errorf("the server inside got the path %s", path)
	}
}

// A sandbox with a filtered network that reaches no name can be described.
func TestFilteredWithoutNames(t *testing.T) {
	w := world{servetest.New(t, keyAll+"\n", func(o *service.Options) {
		configure := o.Configure
		o.Configure = func(ctx context.Context, p *service.Params) (*runtime.SandboxConfig, error) {
			c, err := configure(ctx, p)
			if err == nil {
				c.Network, c.Egress = runtime.NetworkFiltered, nil
			}
			return c, err
		}
	})}
	b := w.create(`{"network":{"allowPublicTraffic":false}}`)
	w.call(http.MethodGet, "/sandboxes/"+b.ID, "", http.StatusOK, nil)
}

// A fork has the changes of the codebase, and an end. The old paths do what the new ones do.
func TestFork(t *testing.T) {
	w := world{servetest.New(t, keyAll+"\n", func(o *service.Options) {
		configure := o.Configure
		o.Configure = func(ctx context.Context, p *service.Params) (*runtime.SandboxConfig, error) {
			c, err := configure(ctx, p)
			if err == nil {
				c.CopyOnWrite = true
			}
			return c, err
		}
	})}
	var b box
	w.call(http.MethodPost, "/sandboxes", `{"timeout":600,"network":{"allowPublicTraffic":false}}`, http.StatusCreated, &b)
	upload := b.at(envdPort, "X-Access-Token", b.Envd, "Content-Type", "application/octet-stream")
	if status, _, text := w.Do(http.MethodPost, "/files?path=/workspace/new", strings.NewReader("new"), upload...); status != http.StatusOK {
		t.Fatalf("%d %s", status, text)
	}
	for _, path := range []string{"/sandboxes/", "/v2/sandboxes/"} {
		var made []struct{ Sandbox box }
		w.call(http.MethodPost, path+b.ID+"/fork", `{"count":1,"timeout":60}`, http.StatusCreated, &made)
		fork := made[0].Sandbox
		if fork.ID == b.ID || fork.Envd == b.Envd || fork.Traffic == b.Traffic {
			t.Errorf("%+v of %+v", fork, b)
		}
		status, _, text := w.Do(http.MethodGet, "/files?path=/workspace/new", nil, fork.at(envdPort, "X-Access-Token", fork.Envd)...)
		if status != http.StatusOK || text != "new" {
			t.Errorf("%d %s", status, text)
		}
		now, err := w.Service.Get(w.Ctx, service.Caller{All: true}, fork.ID)
		w.OK(err)
		of, err := w.Service.Get(w.Ctx, service.Caller{All: true}, b.ID)
		w.OK(err)
		if now.End().IsZero() || !now.End().Before(of.End()) || now.Note != of.Note {
			t.Errorf("the fork ends at %v, of %v; notes %s, %s", now.End(), of.End(), now.Note, of.Note)
		}
		w.call(http.MethodPost, path+fork.ID+"/connect", `{"timeout":60}`, http.StatusOK, nil)
		w.call(http.MethodGet, strings.TrimSuffix(path, "/"), "", http.StatusOK, nil)
		w.call(http.MethodPost, "/sandboxes/"+fork.ID+"/refreshes", `{"duration":30}`, http.StatusNoContent, nil)
		w.call(http.MethodPost, "/sandboxes/"+fork.ID+"/resume", `{}`, http.StatusConflict, nil)
		w.call(http.MethodPost, path+b.ID+"/fork", fmt.Sprintf(`{"count":%d}`, 21), http.StatusBadRequest, nil)
	}
	// What a change of the network cannot do is refused.
	w.call(http.MethodPut, "/sandboxes/"+b.ID+"/network", `{"denyOut":["0.0.0.0/0"]}`, http.StatusNoContent, nil)
	const public = `{"denyOut":["0.0.0.0/0"],"allowPublicTraffic":true}`
	w.call(http.MethodPut, "/sandboxes/"+b.ID+"/network", public, http.StatusBadRequest, nil)
	if _, err := os.Lstat(filepath.Join(w.Codebase, "new")); !os.IsNotExist(err) {
		t.Errorf("the codebase was changed: %v", err)
	}
}

// frame returns a message of a stream of Connect.
func frame(text string) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(text))), text...)
}

// A stream of input lasts longer than the body of another request may take.
func TestSlowInput(t *testing.T) {
	w := world{servetest.NewLimited(t, time.Second)}
	b := w.create("{}")
	send := func(path string, body io.Reader) *http.Response {
		q, err := http.NewRequestWithContext(w.Ctx, http.MethodPost, "http://"+w.Address+"/process.Process/"+path, body)
		w.OK(err)
		for headers := b.at(envdPort, "X-Access-Token", b.Envd, "Content-Type", "application/connect+json"); len(headers) > 0; headers = headers[2:] {
			q.Header.Set(headers[0], headers[1])
		}
		r, err := w.Client.Do(q)
		w.OK(err)
		return r
	}
	out := send("Start", bytes.NewReader(frame(`{"process":{"cmd":"cat"},"stdin":true,"tag":"slow"}`)))
	defer out.Body.Close()
	began := make([]byte, 5)
	_, err := io.ReadFull(out.Body, began)
	w.OK(err)
	body, from := io.Pipe()
	go func() { // ends with the request
		_, _ = from.Write(frame(`{"start":{"process":{"tag":"slow"}}}`))
		time.Sleep(2 * time.Second) // more than a part of a body may take
		_, err := from.Write(frame(`{"data":{"input":{"stdin":"aGVsbG8="}}}`))
		_ = from.CloseWithError(err)
	}()
	in := send("StreamInput", body)
	defer in.Body.Close()
	text, err := io.ReadAll(in.Body)
	if err != nil || strings.Contains(string(text), "error") {
		t.Errorf("%s, %v", text, err)
	}
	if status, _, text := w.Do(http.MethodDelete, "/sandboxes/"+b.ID, nil); status != http.StatusNoContent {
		t.Errorf("%d %s", status, text)
	}
}

// sign returns a URL of a file of a sandbox, as the SDKs sign it.
func (b *box) sign(path string) string {
	sum := sha256.Sum256([]byte(path + ":read::" + b.Envd))
	return "/files?path=" + path + "&signature=" + url.QueryEscape("v1_"+base64.RawStdEncoding.EncodeToString(sum[:]))
}

// What a URL costs that names no sandbox is bounded, before its signature is known to be right. One
// that names it by header or host is not looked for.
func TestSignedIsBounded(t *testing.T) {
	w := world{servetest.New(t, keyAll+"\n")}
	old, later := w.create("{}"), w.create("{}")
	at := old.sign("/etc/hostname")
	get := func(headers ...string) int {
		status, _, _ := w.Do(http.MethodGet, at, nil, headers...)
		return status
	}
	if got := get(); got != http.StatusOK {
		t.Errorf("signed: %d", got)
	}
	t.Cleanup(e2b.TryAtMost(1))
	if got := get(); got != http.StatusUnauthorized {
		t.Errorf("signed by one that is too old: %d", got)
	}
	if got := get("Host", "49983-"+old.ID+".localhost"); got != http.StatusOK {
		t.Errorf("signed, to its host: %d", got)
	}
	if got := get(old.at(envdPort)...); got != http.StatusOK {
		t.Errorf("signed, with its header: %d", got)
	}
	if at = later.sign("/etc/hostname"); get() != http.StatusOK {
		t.Error("signed by the newest: it was refused")
	}
}

// Who has no token cannot keep a sandbox in use.
func TestUseNeedsToken(t *testing.T) {
	w := world{servetest.New(t, keyAll+" acme/web/zoe\n")}
	b := w.create("{}")
	used := func() int64 {
		c, err := w.Service.Owners(w.Ctx, service.Caller{All: true})
		w.OK(err)
		if len(c) != 1 {
			t.Fatalf("%+v", c)
		}
		return c[0].UsedAt
	}
	ask := func(path string, want int, headers ...string) {
		if status, _, text := w.Do(http.MethodGet, path, nil, b.at(envdPort, headers...)...); status != want {
			t.Errorf("%s: %d %s, want %d", path, status, text, want)
		}
	}
	before := used()
	for begun := time.Now(); time.Since(begun) < 20*time.Millisecond; {
		ask("/health", http.StatusNoContent)
		ask("/files?path=/etc/hostname", http.StatusUnauthorized)
		ask("/envs", http.StatusUnauthorized)
	}
	if now := used(); now != before {
		t.Errorf("requests without a token are use: at %d, before %d", now, before)
	}
	ask("/health", http.StatusNoContent, "X-Access-Token", b.Envd)
	if used() == before {
		t.Error("a request with the token is not use")
	}
}

// The metrics of many sandboxes cost as many requests.
func TestMetricsRate(t *testing.T) {
	w := world{servetest.New(t, keyAll+" name=team\n", func(o *service.Options) {
		o.Quotas = []quota.Rule{{Key: "team", Quota: quota.Quota{Requests: 5}}}
	})}
	ids := strings.Repeat("aaaaaaaaaaaa,", 99) + "aaaaaaaaaaaa"
	w.call(http.MethodGet, "/sandboxes/metrics?sandbox_ids="+ids, "", http.StatusTooManyRequests, nil)
}

// That a sandbox does not answer is not the fault of the request for another network.
func TestNetworkUnavailable(t *testing.T) {
	w := world{servetest.New(t, keyAll+"\n", permissive)}
	b := w.create(`{"network":{"allowOut":["a.example"]}}`)
	const change = `{"allowOut":["b.example"]}`
	w.call(http.MethodPut, "/sandboxes/"+b.ID+"/network", change, http.StatusNoContent, nil)
	socket := filepath.Join(w.State, "sandboxes", b.ID, "run", "sock")
	away := filepath.Join(w.State, "away")
	w.OK(os.Rename(socket, away))
	w.call(http.MethodPut, "/sandboxes/"+b.ID+"/network", change, http.StatusConflict, nil)
	w.OK(os.Rename(away, socket))
}
