package opensandbox

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/coder/websocket"

	"wolffia/internal/test/suite"
	"wolffia/ops/stream"
)

// A client that does not answer a ping is gone, unless what it has typed keeps its messages from being read.
func TestPTYAnswers(t *testing.T) {
	conns := make(chan *websocket.Conn)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, err := websocket.Accept(w, r, nil)
		if err != nil {
			t.Error(err)
		}
		conns <- c
	}))
	defer s.Close()
	leave := make(chan struct{})
	go func() { // ends with leave
		c, _, err := websocket.Dial(t.Context(), s.URL, nil)
		if err == nil {
			defer c.CloseNow()
			<-leave
		}
	}()
	p := &pty{ws: <-conns, typed: stream.NewInput(maxInput)}
	defer p.ws.CloseNow()
	// No client reads the pong.
	if p.typed.Answers(t.Context(), p.ws.Ping, 100*time.Millisecond) {
		t.Error("a client answers of which nothing is read")
	}
	if err := p.typed.Put(t.Context(), make([]byte, maxInput)); err != nil {
		t.Fatal(err)
	}
	go func() { _ = p.typed.Put(t.Context(), []byte("x")) }() // ends with the test
	suite.New(t).Until("the input waits", func() bool { return p.typed.Waits()%2 == 1 })
	if !p.typed.Answers(t.Context(), p.ws.Ping, 100*time.Millisecond) {
		t.Error("a client is gone whose input waits")
	}
	// It goes, and its connection takes no more pings.
	close(leave)
	limit, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for p.typed.Answers(t.Context(), p.ws.Ping, 10*time.Millisecond) {
		if limit.Err() != nil {
			t.Fatal("a client that has gone counts as there while its input waits")
		}
	}
}
