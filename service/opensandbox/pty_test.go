package opensandbox_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/coder/websocket"
)

// A ptyClient is a client of a PTY.
type ptyClient struct {
	*world
	conn *websocket.Conn
	seen bytes.Buffer // output
	// Of the message of output shown again; from is -1 if there was none.
	replay string
	from   int64
}

// A ptyText is a text message.
type ptyText struct {
	Type, Code, Mode string
	Session          string `json:"session_id"`
	ExitCode         *int   `json:"exit_code"`
}

// attach connects to a PTY, and reads up to the message that it is connected.
func (w *world) attach(path string) *ptyClient {
	w.Helper()
	c := &ptyClient{world: w, from: -1}
	conn, res, err := websocket.Dial(w.Ctx, "ws://"+w.Address+path, &websocket.DialOptions{HTTPClient: w.Client})
	if err != nil {
		w.Fatalf("%s: got err %v, res %+v; want err == nil", path, err, res)
	}
	c.conn = conn
	w.Cleanup(func() { _ = conn.CloseNow() })
	conn.SetReadLimit(2 << 20)
	if got := c.next(); got.Type != "connected" || got.Mode != "pty" || !strings.Contains(path, got.Session) {
		w.Errorf("%s: the first text is %+v", path, got)
	}
	return c
}

// message reads a message; text is nil if it was output.
func (c *ptyClient) message() (text *ptyText, err error) {
	c.Helper()
	kind, b, err := c.conn.Read(c.Ctx)
	switch {
	case err != nil:
		return nil, err
	case kind == websocket.MessageText:
		text = new(ptyText)
		c.OK(json.Unmarshal(b, text))
	case b[0] == 1:
		c.seen.Write(b[1:])
	case b[0] == 3 && len(b) > 9 && c.from < 0:
		c.from, c.replay = int64(binary.BigEndian.Uint64(b[1:])), string(b[9:])
	default:
		c.Fatalf("a message of type %d and %d bytes", b[0], len(b))
	}
	return text, nil
}

// next returns the next text.
func (c *ptyClient) next() *ptyText {
	c.Helper()
	for {
		text, err := c.message()
		c.OK(err)
		if text != nil {
			return text
		}
	}
}

// sees waits until the terminal prints something.
func (c *ptyClient) sees(want string) {
	c.Helper()
	for !strings.Contains(c.seen.String(), want) {
		if text, err := c.message(); err != nil || text != nil {
			c.Fatalf("%q is not seen, but %+v, %v and %q", want, text, err, c.seen.String())
		}
	}
}

// ends reads to the end, and returns its code.
func (c *ptyClient) ends() websocket.StatusCode {
	c.Helper()
	for {
		if _, err := c.message(); err != nil {
			return websocket.CloseStatus(err)
		}
	}
}

func (c *ptyClient) types(text string) {
	c.Helper()
	c.OK(c.conn.Write(c.Ctx, websocket.MessageBinary, append([]byte{0}, text...)))
}

func (c *ptyClient) says(text string) {
	c.Helper()
	c.OK(c.conn.Write(c.Ctx, websocket.MessageText, []byte(text)))
}

func (w *world) createPTY(execd, body string) string {
	w.Helper()
	var s struct {
		ID string `json:"session_id"`
	}
	w.OK(json.Unmarshal([]byte(w.is("POST", execd+"/pty", body, 201, "session_id")), &s))
	return execd + "/pty/" + s.ID
}

func TestPTY(t *testing.T) {
	w := newWorld(t)
	_, execd := w.create("")
	path := w.createPTY(execd, `{"cwd":"/tmp"}`)
	w.is("GET", path, "", 200, `"running":false,"output_offset":0`)
	a := w.attach(path + "/ws")
	a.types("PS1=in-$((0)); state=kept; echo $((40+2)) in $PWD\n")
	a.sees("42 in /tmp")
	a.sees("in-0") // until it prompts readline may set the size that it read before
	w.is("GET", path, "", 200, `"running":true`)
	a.says(`{"type":"resize","rows":33,"cols":101}`)
	a.says(`{"type":"stdin","data":"stty size\n"}`)
	a.sees("33 101")
	a.types("sh -c 'echo be$((1))gun; exec sleep 1000'\n") // of one process, which the signal reaches
	a.sees("be1gun")
	a.says(`{"type":"signal","signal":"SIGINT"}`)
	a.types("echo back=$?\n")
	a.sees("back=130")
	for text, code := range map[string]string{`{"type":"signal","signal":"SIGODD"}`: "INVALID_FRAME", `{"type":"odd"}`: "INVALID_FRAME", `not JSON`: "INVALID_FRAME"} {
		if a.says(text); a.next().Code != code {
			t.Errorf("%s is not answered with %s", text, code)
		}
	}
	if a.says(`{"type":"ping"}`); a.next().Type != "pong" {
		t.Error("a ping has no pong")
	}

	// One client at a time, but for one that takes over, and gets what was printed.
	_, res, err := websocket.Dial(w.Ctx, "ws://"+w.Address+path+"/ws", &websocket.DialOptions{HTTPClient: w.Client})
	if err == nil || res.StatusCode != http.StatusConflict {
		t.Fatalf("a second client: %+v, %v", res, err)
	}
	b := w.attach(path + "/ws?takeover=1")
	if code := a.ends(); code != 4001 {
		t.Errorf("the first client: closed with %d", code)
	}
	if b.from != 0 || !strings.Contains(b.replay, "42 in /tmp") || !strings.Contains(b.replay, "33 101") {
		t.Errorf("the second client: from %d on %q", b.from, b.replay)
	}
	b.types("echo =$state=\n")
	b.sees("=kept=")

	// The shell outlives its client, and the service.
	w.OK(b.conn.Close(websocket.StatusNormalClosure, ""))
	w.OK(w.attach(path+"/ws?since=5").conn.Close(websocket.StatusNormalClosure, ""))
	w.Restart()
	c := w.attach(path + "/ws?since=5&takeover=1")
	if c.from != 5 || !strings.Contains(c.replay, "=kept=") {
		t.Errorf("after a restart: from %d on %q", c.from, c.replay)
	}
	c.types("exit 7\n")
	if text := c.next(); text.Type != "exit" || text.ExitCode == nil || *text.ExitCode != 7 {
		t.Errorf("its end: %+v", text)
	}
	if code := c.ends(); code != websocket.StatusNormalClosure {
		t.Errorf("after its end: closed with %d", code)
	}
	w.is("GET", path, "", 200, `"running":false`)

	d := w.attach(path + "/ws?since=1000000000")
	w.is("DELETE", path, "", 200, "")
	// What its new shell has printed by then may be shown as printed before.
	if text := d.next(); text.Code != "SESSION_GONE" || strings.Contains(d.replay, "kept") {
		t.Errorf("deleted: %+v; shown again: %q", text, d.replay)
	}
	for _, call := range []string{"GET", "DELETE"} {
		w.is(call, path, "", 404, "CONTEXT_NOT_FOUND")
	}
}

// What a program does not read of its terminal does not keep the client's other messages from being heeded.
func TestPTYUnreadInput(t *testing.T) {
	w := newWorld(t)
	_, execd := w.create("")
	path := w.createPTY(execd, `{"command":"echo be$((1))gun; exec sleep 1000"}`)
	c := w.attach(path + "/ws")
	if !strings.Contains(c.replay, "be1gun") { // it may be faster than we
		c.sees("be1gun")
	}
	c.types(strings.Repeat("some text in a line\n", 45_000))
	if c.says(`{"type":"ping"}`); c.next().Type != "pong" {
		t.Error("a ping has no pong")
	}
	c.says(`{"type":"signal","signal":"SIGKILL"}`)
	for text := c.next(); text.Type != "exit"; text = c.next() {
		if text.Code != "STDIN_WRITE_FAILED" {
			t.Fatalf("its end: %+v", text)
		}
	}
}

// A command of a PTY runs once: a client that comes back gets its output and its exit code again.
func TestPTYCommandRunsOnce(t *testing.T) {
	w := newWorld(t)
	_, execd := w.create("")
	path := w.createPTY(execd, `{"command":"echo x >>/tmp/count; echo $((40+2)); exit 3"}`)
	for range 3 {
		c := w.attach(path + "/ws")
		if text := c.next(); text.ExitCode == nil || *text.ExitCode != 3 || !strings.Contains(c.replay+c.seen.String(), "42\r\n") {
			t.Errorf("its end: %+v, %q, %q", text, c.replay, c.seen.String())
		}
	}
	c := w.attach(path + "/ws?since=2")
	if text := c.next(); text.ExitCode == nil || *text.ExitCode != 3 || c.from != 2 || strings.Contains(c.replay, "42") {
		t.Errorf("from 2 on: %+v, %d, %q", text, c.from, c.replay)
	}
	if got := output(w.run(execd+"/command", m{"command": "cat /tmp/count"}), "stdout"); got != "x\n" {
		t.Errorf("it has run: %q", got)
	}
}

func TestPTYRefuses(t *testing.T) {
	w := newWorld(t)
	id, execd := w.create("")
	path := w.createPTY(execd, `{"command":"echo $((40+2)); exit 3"}`)
	c := w.attach(path + "/ws")
	if text := c.next(); text.ExitCode == nil || *text.ExitCode != 3 || !strings.Contains(c.replay+c.seen.String(), "42\r\n") {
		t.Errorf("a command: %+v, %q, %q", text, c.replay, c.seen.String())
	}
	ws := []string{"Upgrade", "websocket", "Connection", "Upgrade", "Sec-WebSocket-Version", "13", "Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="}
	w.is("GET", path+"/ws", "", 426, "must ask for WebSocket")
	w.is("GET", path+"/ws?pty=0", "", 501, "always is a terminal", ws...)
	w.is("GET", path+"/ws?since=-1", "", 400, "offset", ws...)
	w.is("GET", execd+"/pty/none/ws", "", 404, "CONTEXT_NOT_FOUND", ws...)
	w.is("GET", "/sandboxes/"+strings.Repeat("x", len(id))+"/port/44772/pty/none/ws", "", 404, "SANDBOX_NOT_FOUND", ws...)
	w.is("POST", execd+"/pty", `{"cwd":"/nowhere"}`, 400, "working directory")
	w.is("POST", execd+"/pty", `{"command":"a\u0000b"}`, 400, "NUL")

	// A handshake that is refused takes over from no client, and starts no shell.
	path = w.createPTY(execd, "")
	old := append(append([]string{}, ws[:4]...), "Sec-WebSocket-Version", "8", "Sec-WebSocket-Key", ws[7])
	w.is("GET", path+"/ws?takeover=1", "", 426, "version 13", old...)
	w.is("GET", path, "", 200, `"running":false`)
	c = w.attach(path + "/ws")
	c.types("echo al''ive\n")
	c.sees("alive")
	w.is("GET", path+"/ws?takeover=1", "", 426, "version 13", old...)
	if status, _, _ := w.Do("HEAD", path+"/ws?takeover=1", nil, ws...); status != 426 {
		t.Errorf("HEAD: %d", status)
	}
	c.types("echo st''ill\n")
	c.sees("still")

	// A message that is too large ends the connection, not the shell; so does a client that vanishes.
	path = w.createPTY(execd, "")
	c = w.attach(path + "/ws")
	_ = c.conn.Write(w.Ctx, websocket.MessageText, []byte(strings.Repeat(" ", 2<<20))) // it may not be taken
	if code := c.ends(); code != websocket.StatusMessageTooBig && code != -1 {
		t.Errorf("a large message: closed with %d", code)
	}
	c = w.attach(path + "/ws")
	w.OK(c.conn.CloseNow())
	c = w.attach(path + "/ws?takeover=1")
	c.types("echo al''ive\n")
	c.sees("alive")
	// The end of the sandbox is that of its terminals.
	w.is("DELETE", "/v1/sandboxes/"+id, "", 204, "")
	ctx, cancel := context.WithCancel(w.Ctx)
	defer cancel()
	for {
		if _, _, err := c.conn.Read(ctx); err != nil {
			if errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("the sandbox has ended: %v", err)
			}
			break
		}
	}
}
