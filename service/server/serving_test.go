package server_test

import (
	"bufio"
	"io"
	"net/http"
	"strings"
	"testing"

	"wolffia/internal/test/suite"
)

// A request is answered if the service has accepted its connection before it was told to stop, however late the
// request is read: a client cannot know that it may ask the next service.
func TestStopAnswersWhatItHasAccepted(t *testing.T) {
	w := newWorld(t, nil)
	const health = "GET /health HTTP/1.1\r\nHost: wolffia\r\n\r\n"
	late, kept := w.dial(), w.dial()
	answered := func(c io.Reader) *http.Response {
		t.Helper()
		res, err := http.ReadResponse(bufio.NewReader(c), nil)
		w.OK(err)
		if text, err := io.ReadAll(res.Body); err != nil || !strings.Contains(string(text), "healthy") {
			t.Errorf("/health: %q, %v", text, err)
		}
		return res
	}
	w.send(kept, health)
	answered(kept) // and so late, which came before, is accepted
	stopped := make(chan error, 1)
	go func() { stopped <- w.server.Stop(w.Ctx, suite.Limit) }() // ends when late is answered
	w.Until("no client can connect", func() bool { return !exists(w.socket) })
	w.send(late, health)
	if res := answered(late); !res.Close {
		t.Error("a stopping service asks for more requests on a connection")
	}
	w.OK(<-stopped)
	if n, err := kept.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("an idle connection: got %d, %v; want it closed", n, err)
	}
	w.OK(<-w.ended)
}
