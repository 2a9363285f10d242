package guest_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"wolffia/wire"
	"wolffia/wire/client"
)

// A host is killed in the middle of whatever it reads and writes, and another
// takes its place: what the first one ran is ended, session and state are there,
// and nothing of the first one's comes to the second.
func TestAnotherHost(t *testing.T) {
	p, _ := launch(t)
	in, out := p.WriteCloser.(*os.File), p.Reader.(*os.File)
	conn := client.New(lent{p})
	hello(t, conn)
	session := func(script string) client.Request {
		return client.Request{StartRequest: wire.StartRequest{Args: []string{script}, Session: &wire.SessionRequest{Op: wire.SessionExec, Name: "s"}}}
	}
	if err := conn.CreateSession(t.Context(), &wire.StartRequest{Env: env, Dir: "/", Session: &wire.SessionRequest{Op: wire.SessionCreate, Name: "s"}}); err != nil {
		t.Fatal(err)
	}
	if r, err := run(t, conn, session("x=value; job() { echo $x; }; sleep 1234 &")); err != nil || r.Code != 0 {
		t.Fatalf("%+v, %v", r, err)
	}
	never := filepath.Join(t.TempDir(), "never")
	for round := range 10 {
		// start returns when n bytes of output have come.
		start := func(n int, req client.Request) *client.Process {
			if req.Session == nil {
				req.Env = env
			}
			enough := make(chan struct{})
			req.OnStdout = func(b []byte) {
				if n > 0 {
					if n -= len(b); n <= 0 {
						close(enough)
					}
				}
			}
			p, err := conn.Start(&req)
			if err != nil {
				t.Fatal(err)
			}
			select {
			case <-enough:
			case <-time.After(limit):
				t.Fatalf("%q says nothing", req.Args)
			}
			return p
		}
		start(1, client.Request{StartRequest: wire.StartRequest{Args: []string{"sh", "-c", "trap '' TERM INT HUP; echo up; exec sleep 4321"}}})
		start(1, client.Request{StartRequest: wire.StartRequest{Args: []string{"yes", strings.Repeat("long", 1000)}}})
		cat := start(1, client.Request{StartRequest: wire.StartRequest{Args: []string{"sh", "-c", "echo up; exec cat"}, Stdin: true}})
		go func() { // ends with conn
			for b := make([]byte, 1<<20); ; {
				if _, err := cat.Stdin().Write(b); err != nil {
					return
				}
			}
		}()
		start(1+round*100_000, session("echo up; yes")) // to be killed elsewhere each time
		waiting, err := conn.Start(&client.Request{StartRequest: session("touch " + never).StartRequest})
		if err != nil {
			t.Fatal(err)
		}
		past := time.Unix(1, 0)
		if err := in.SetWriteDeadline(past); err != nil {
			t.Fatal(err)
		}
		if err := out.SetReadDeadline(past); err != nil {
			t.Fatal(err)
		}
		<-conn.Done()
		<-waiting.Done()
		if err := errors.Join(in.SetWriteDeadline(time.Time{}), out.SetReadDeadline(time.Now().Add(limit))); err != nil {
			t.Fatal(err)
		}

		hail, echo := wire.TakeOver([]byte{byte(round), 1, 2, 3})
		go func() { _, _ = in.Write(hail) }()
		var said []byte
		for buf := make([]byte, 1<<16); !bytes.HasSuffix(said, echo); {
			n, err := out.Read(buf)
			if err != nil {
				t.Fatalf("round %d: %v", round, err)
			}
			said = append(said, buf[:n]...)
		}
		if err := out.SetReadDeadline(time.Time{}); err != nil {
			t.Fatal(err)
		}
		conn = client.New(lent{p})
		if r, err := run(t, conn, session("job; jobs -p | wc -l")); err != nil || r.stdout != "value\n1\n" || r.SessionEnded || r.Restored != "" {
			t.Fatalf("round %d: %+v, %v", round, r, err)
		}
		got := sh(t, conn, `i=0; while pgrep -f "^sleep 4321|^yes|^cat"; do i=$((i+1)); [ $i -lt 1000 ] || exit 1; done >/dev/null; pgrep -c -f "^sleep 1234"`)
		if got.Code != 0 || got.stdout != "1\n" {
			t.Fatalf("round %d: %+v", round, got)
		}
		if _, err := os.Stat(never); err == nil {
			t.Fatalf("round %d: what waited for its turn got it", round)
		}
	}
	if err := conn.DestroySession(t.Context(), "s", false); err != nil {
		t.Error(err) // its directory would stay in /tmp
	}
	_ = conn.Close()
}

// lent is a connection that outlives whoever has it.
type lent struct{ io.ReadWriter }

func (lent) Close() error { return nil }
