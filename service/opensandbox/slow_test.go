package opensandbox_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"wolffia/internal/test/leak"
	"wolffia/internal/test/servetest"
	"wolffia/internal/test/suite"
	"wolffia/service"
	"wolffia/service/gate"
	"wolffia/service/opensandbox"
	"wolffia/service/server"
)

// A body that does not come holds its connection for a limited time, whether or not the call
// takes a body.
func TestSlowBodies(t *testing.T) {
	leak.Check(t)
	s := suite.New(t)
	const limit = 50 * time.Millisecond
	srv := server.New(service.New(nil, nil), &server.Options{Gate: gate.New(nil, true), BodyLimit: limit, OpenSandbox: opensandbox.New(nil, &opensandbox.Options{BodyLimit: limit})})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	s.OK(err)
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve(l) }() // ends with Close
	t.Cleanup(func() {
		_ = srv.Close()
		<-ended
	})
	for request, status := range map[string]int{
		"POST /v1/sandboxes HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n{":      http.StatusRequestTimeout,
		"POST /v1/metrics/events HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n{": http.StatusNoContent,
		"GET /v1/templates HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n":        http.StatusNotImplemented,
		// Neither does the body of a request that is refused.
		"POST /api/v1/findSandbox HTTP/1.1\r\nHost: elsewhere\r\nContent-Type: application/json\r\nContent-Length: 10\r\n\r\n{": http.StatusForbidden,
		"GET /health HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n5\r\na":                                   http.StatusOK,
	} {
		c, err := net.Dial("tcp", l.Addr().String())
		s.OK(err)
		s.OK(c.SetDeadline(time.Now().Add(3 * time.Minute))) // a guard against a hang
		_, err = io.WriteString(c, request)
		s.OK(err)
		r := bufio.NewReader(c)
		res, err := http.ReadResponse(r, nil)
		s.OK(err)
		if res.StatusCode != status {
			t.Errorf("%q: %d, want %d", request, res.StatusCode, status)
		}
		if _, err := io.Copy(io.Discard, r); err != nil { // the server closes the connection
			t.Errorf("%q: %v", request, err)
		}
		_ = c.Close()
	}
}

// A client that reads nothing of a long reply loses it, and the command ends.
func TestSlowReader(t *testing.T) {
	w := &world{servetest.New(t, "")}
	_, execd := w.create("")
	c, err := net.Dial("tcp", w.Address)
	w.OK(err)
	body := `{"command":"exec 3>/tmp/lock; flock 3; yes"}`
	_, err = io.WriteString(c, "POST "+execd+"/command HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: "+
		"44\r\n\r\n"+body)
	w.OK(err)
	r := bufio.NewReader(c)
	for range 20 { // it writes
		_, err = r.ReadString('\n')
		w.OK(err)
	}
	w.OK(c.Close())
	if got := w.run(execd+"/command", m{"command": "flock /tmp/lock echo gone", "timeout": 60_000}); output(got, "stdout") != "gone\n" {
		t.Errorf(`run: got %+v; want output(got, "stdout") == %q`, got, "gone\n")
	}
}
