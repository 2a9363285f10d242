package opensandbox

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/coder/websocket"
)

// What is typed arrives in order; it is bounded, and a wait for room ends with the connection.
func TestTyped(t *testing.T) {
	k := newTyped()
	var want, got []byte
	for i := range 10 {
		b := bytes.Repeat([]byte{byte(i)}, maxInput/4)
		want = append(want, b...)
		if err := k.put(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		if i%4 == 3 {
			b, err := k.take(t.Context())
			if err != nil || len(b) != maxInput {
				t.Fatalf("%d bytes, %v", len(b), err)
			}
			got = append(got, b...)
		}
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if err := k.put(ended, make([]byte, maxInput)); err == nil {
		t.Error("there is room for more than a message")
	}
	b, err := k.take(t.Context())
	if got = append(got, b...); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%d bytes, not the %d that were typed; %v", len(got), len(want), err)
	}
	if _, err := k.take(ended); err == nil {
		t.Error("there is more")
	}
}

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
	p := &pty{ws: <-conns, typed: newTyped()}
	defer p.ws.CloseNow()
	// Nobody reads the pong.
	if p.answers(t.Context(), 100*time.Millisecond) {
		t.Error("a client answers of which nothing is read")
	}
	p.typed.waits.Add(1)
	if !p.answers(t.Context(), 100*time.Millisecond) {
		t.Error("a client is gone whose input waits")
	}
	// It goes, and its connection takes no more pings.
	close(leave)
	limit, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for p.answers(t.Context(), 10*time.Millisecond) {
		if limit.Err() != nil {
			t.Fatal("a client that has gone counts as there while its input waits")
		}
	}
}
