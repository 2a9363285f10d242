package opensandbox_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"wolffia/internal/test/servetest"
	"wolffia/internal/test/suite"
	"wolffia/internal/test/testenv"
)

// A loader is one client of many, with a session of its own.
type loader struct {
	w       *servetest.World
	n       int
	id      string // of the sandbox
	execd   string
	session string
}

// ask sends a request, whose reply must have the status and the parts.
func (l *loader) ask(method, path, body string, status int, parts ...string) (string, error) {
	media := "application/json"
	if strings.HasPrefix(body, "--") {
		media = "multipart/form-data; boundary=b"
	}
	req, err := http.NewRequestWithContext(l.w.Ctx, method, "http://"+l.w.Address+path, strings.NewReader(body))
	if err != nil {
		return "", err
	}
	req.Header.Set("Content-Type", media)
	res, err := l.w.Client.Do(req)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != status {
		err = fmt.Errorf("%d, want %d", res.StatusCode, status)
	}
	for _, part := range parts {
		if err == nil && !strings.Contains(string(text), part) {
			err = fmt.Errorf("no %q", part)
		}
	}
	if err != nil {
		return "", fmt.Errorf("client %d: %s %s: %w: %.500s", l.n, method, path, err, text)
	}
	return string(text), nil
}

// round makes one call of each kind, and checks that it gets its own answers.
func (l *loader) round(n int) error {
	if l.session == "" {
		text, err := l.ask("POST", l.execd+"/session", "", 200)
		if err != nil {
			return err
		}
		l.session = strings.Split(text, `"`)[3]
	}
	mine := fmt.Sprintf("%d-%d", l.n, n)
	file := fmt.Sprintf("/tmp/f%d", l.n)
	for _, c := range []struct {
		method, path, body string
		status             int
		part               string
	}{
		{"POST", l.execd + "/session/" + l.session + "/run", `{"command":"echo ${A-none}; A=` + mine + `"}`, 200, fmt.Sprintf(`"text":"%s"`, map[bool]string{true: "none", false: fmt.Sprintf("%d-%d", l.n, n-1)}[n == 0])},
		{"POST", l.execd + "/command", `{"command":"echo ` + mine + `; seq 300"}`, 200, `"text":"` + mine + `"`},
		{"POST", l.execd + "/files/upload", "--b\r\nContent-Disposition: form-data; name=\"metadata\"; filename=\"metadata\"\r\n\r\n{\"path\":\"" + file + "\"}\r\n" +
			"--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"f\"\r\n\r\n" + mine + "\r\n--b--\r\n", 200, ""},
		{"GET", l.execd + "/files/download?path=" + file, "", 200, mine},
		{"GET", l.execd + "/files/info?path=" + file, "", 200, fmt.Sprintf(`"size":%d`, len(mine))},
		{"GET", l.execd + "/ping", "", 200, ""},
		{"GET", "/v1/sandboxes/" + l.id, "", 200, l.id},
		{"GET", "/v1/sandboxes", "", 200, l.id},
		{"POST", l.execd + "/command", `{"command":"exit 7"}`, 200, `"exitCode":7`},
		{"GET", l.execd + "/command/status/none", "", 404, "not found"},
		{"GET", "/metrics", "", 200, `wolffia_sandboxes{state="running"}`},
		{"POST", "/api/v1/findSandbox", fmt.Sprintf(`{"organizationId":"o","projectId":"p","userId":"u%d"}`, l.n), 404, "notFound"},
	} {
		if _, err := l.ask(c.method, c.path, c.body, c.status, c.part); err != nil {
			return err
		}
	}
	return nil
}

// Sixty-four clients at once make all kinds of calls, for a minute in a full run: each gets
// its own answers, and the service does not grow.
func TestLoad(t *testing.T) {
	const clients = 64
	p := servetest.NewProcess(t, "")
	w := &world{p.World}
	all := make([]*loader, clients)
	for n := range all {
		if n%16 == 0 { // sixteen share a sandbox
			id, execd := w.create("")
			all[n] = &loader{w: p.World, id: id, execd: execd}
		} else {
			all[n] = &loader{w: p.World, id: all[n-1].id, execd: all[n-1].execd}
		}
		all[n].n = n
	}
	// rounds has all clients make calls, until the time is over and at least least rounds.
	rounds := func(from, least int, limit time.Duration) (most int) {
		end, done := time.Now().Add(limit), make([]int, clients)
		for _, err := range suite.AtOnce(clients, func(i int) error {
			for n := from; n < from+least || time.Now().Before(end); n++ {
				if err := all[i].round(n); err != nil {
					return err
				}
				done[i] = n + 1
			}
			all[i].session = "" // the next phase counts anew
			return nil
		}) {
			if err != nil {
				t.Error(err)
			}
		}
		for _, n := range done {
			most += n - from
		}
		return most
	}
	if !testenv.Full() {
		rounds(0, 1, 0)
		return
	}
	calls := rounds(0, 1, 20*time.Second)
	before := p.Memory()
	calls += rounds(0, 1, 40*time.Second)
	after := p.Memory()
	t.Logf("%d rounds of 12 calls by %d clients; memory of the service %d KiB after a third, %d KiB at the end", calls, clients, before>>10, after>>10)
	if after > before+before/2+8<<20 {
		t.Errorf("the service has grown from %d to %d bytes", before, after)
	}
}

// Several clients at once stream the 10,000 lines that a command prints at once: each gets all
// of them in order, while one that reads nothing gets none, and the service keeps little.
func TestTenThousandLines(t *testing.T) {
	p := servetest.NewProcess(t, "")
	w := &world{p.World}
	_, execd := w.create("")
	const clients, lines = 4, 10_000
	path := "http://" + w.Address + execd + "/command"
	// One has not read anything of 100 MB when the others have read all.
	idle, err := w.Client.Post(path, "application/json", strings.NewReader(`{"command":"yes 123456789012345678901234567890 | head -c 100000000"}`))
	w.OK(err)
	defer idle.Body.Close()
	for _, err := range suite.AtOnce(clients, func(i int) error {
		res, err := w.Client.Post(path, "application/json", strings.NewReader(fmt.Sprintf(`{"command":"printf '%d-%%d-%080d\\n' $(seq %d)"}`, i, 0, lines)))
		if err != nil {
			return err
		}
		defer res.Body.Close()
		next := 1
		for d := json.NewDecoder(res.Body); ; {
			var e event
			err := d.Decode(&e)
			switch {
			case errors.Is(err, io.EOF) && next == lines+1:
				return nil
			case err != nil:
				return fmt.Errorf("client %d: after line %d: %w", i, next-1, err)
			case e.Type == "stdout":
				if want := fmt.Sprintf("%d-%d-%080d", i, next, 0); e.Text != want {
					return fmt.Errorf("client %d: line %d is %q", i, next, e.Text)
				}
				next++
			}
		}
	}) {
		if err != nil {
			t.Error(err)
		}
	}
	if got := p.Memory(); got > 64<<20 {
		t.Errorf("the service has %d bytes of memory", got)
	}
}

// What is not a request gets an error, and no request does harm.
func TestMalformed(t *testing.T) {
	w := newWorld(t)
	_, execd := w.create("")
	for _, c := range [][3]string{
		{"POST", execd + "/command", "[]"},
		{"POST", execd + "/command", strings.Repeat("[", 100_000)},
		{"POST", execd + "/command", `{"command":"` + strings.Repeat("x", 9<<20) + `"}`},
		{"POST", execd + "/command", `{"command":"` + strings.Repeat("x", 5<<20) + `","background":true}`},
		{"POST", execd + "/files/mv", `[{}]`},
		{"POST", execd + "/files/mv", `{}`},
		{"POST", execd + "/files/replace", `{"":{}}`},
		{"POST", execd + "/directories", `{"/proc/x":{}}`},
		{"GET", execd + "/directories/list?path=/&depth=9999", ""},
		{"GET", execd + "/files/search?path=/&path=/tmp", ""},
		{"POST", "/v1/sandboxes/" + strings.Repeat("x", 5000) + "/pause", ""},
		{"POST", execd + "/session/..%2f..%2fx/run", `{"command":"true"}`},
		{"POST", execd + "/session/%00/run", `{"command":"true"}`},
		{"DELETE", execd + "/session/" + strings.Repeat("s", 1000), ""},
	} {
		if status, text := w.call(c[0], c[1], c[2]); status < 400 || status >= 500 && status != 501 && status != 503 {
			t.Errorf("%s %.100s %.100s: got status %d, text %.300s; want status >= 400 and (status < 500 or status == 501 or status == 503)",
				c[0], c[1], c[2], status, text)
		}
	}
	w.is("GET", execd+"/ping", "", 200, "")
}
