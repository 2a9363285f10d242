package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"wolffia/internal/test/wait"
)

// askServer starts a server on the host's loopback, and returns the flags that give it a name for a
// sandbox that asks, and its URL there.
func askServer(t *testing.T) (flags []string, url string) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "reached\n") }))
	t.Cleanup(s.Close)
	_, port, _ := net.SplitHostPort(s.Listener.Addr().String())
	return []string{"--ask", "network", "--add-host", "web.example:127.0.0.1"}, "http://web.example:" + port
}

// atTerminal starts a command at a terminal. printed reports whether it has printed a text; ended is
// closed with the terminal, which the caller closes.
func (b *box) atTerminal(cmd *exec.Cmd) (master *os.File, printed func(string) bool, ended chan struct{}) {
	b.Helper()
	master, slave := openTerminal(b)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	b.OK(cmd.Start())
	b.OK(slave.Close())
	var mu sync.Mutex
	var said strings.Builder
	ended = make(chan struct{})
	go func() {
		defer close(ended)
		buf := make([]byte, 4096)
		for {
			n, err := master.Read(buf)
			mu.Lock()
			said.Write(buf[:n])
			mu.Unlock()
			if err != nil { // EIO: the command has ended
				return
			}
		}
	}()
	b.Cleanup(func() {
		if b.Failed() {
			b.Logf("%q has printed:\n%s", cmd.Args, said.String())
		}
	})
	return master, func(text string) bool { mu.Lock(); defer mu.Unlock(); return strings.Contains(said.String(), text) }, ended
}

// At a terminal a question comes below the output of the program, and keys are its answer.
func TestAsksAtTheTerminal(t *testing.T) {
	b := newBox(t)
	flags, url := askServer(t)
	for key, want := range map[string]string{"o": "reached", "n": "403"} {
		cmd := b.command(append(append([]string{"run"}, flags...), "--", "curl", "-sSi", url)...)
		cmd.Dir = b.codebase
		master, printed, ended := b.atTerminal(cmd)
		wait.Until(t, "the question", func() bool { return printed("wants to connect to web.example:") && printed("then Enter") })
		wait.Until(t, "the answer", func() bool { // keys of the first second are curl's
			_, _ = master.WriteString(key + "\r")
			select {
			case <-ended:
				return true
			case <-time.After(200 * time.Millisecond):
				return false
			}
		})
		_ = cmd.Wait() // curl's code
		b.OK(master.Close())
		if !printed(want) {
			t.Errorf("%s: %q does not come", key, want)
		}
	}
}

// Without a sandbox, wolffia asks -f has the questions of all: at a terminal they are asked, elsewhere
// printed. A sandbox that starts later is asked about from its first access on.
func TestAsksOfAll(t *testing.T) {
	b := newBox(t)
	flags, url := askServer(t)
	run := func(name string) *exec.Cmd {
		return b.command(append(append([]string{"run", "--codebase", b.codebase, "--name", name}, flags...), "--", "curl", "-sS", url)...)
	}
	follow := b.command("asks", "-f")
	out, err := follow.StdoutPipe()
	b.OK(err)
	b.OK(follow.Start())
	wait.Until(t, "the watch of sandboxes", func() bool { return watchesFiles(follow.Process.Pid) })
	for _, name := range []string{"one", "two"} {
		cmd := run(name)
		var text strings.Builder
		cmd.Stdout = &text
		b.OK(cmd.Start())
		var q struct{ SandboxID, ID, Host, Program string }
		b.OK(json.NewDecoder(out).Decode(&q))
		if q.Program != "curl" || !strings.HasPrefix(q.Host, "web.example:") {
			t.Errorf("got %+v", q)
		}
		b.says("asks", "answer", q.SandboxID, q.ID, "allow")
		if err := cmd.Wait(); err != nil || text.String() != "reached\n" {
			t.Errorf("%s: %v, %q", name, err, text.String())
		}
	}
	b.OK(follow.Process.Signal(os.Interrupt))
	_ = follow.Wait() // 130

	follow = b.command("asks", "-f")
	terminal, printed, ended := b.atTerminal(follow)
	wait.Until(t, "the terminal", func() bool { return printed("of all sandboxes") && watchesFiles(follow.Process.Pid) })
	cmd := run("three")
	var text strings.Builder
	cmd.Stdout = &text
	b.OK(cmd.Start())
	wait.Until(t, "the question", func() bool { return printed("sandbox three: curl") && printed("wants to connect to web.example:") })
	over := make(chan error, 1)
	go func() { over <- cmd.Wait() }()        // ends with the answer, or its limit
	wait.Until(t, "the answer", func() bool { // keys of the first second are none
		_, _ = terminal.WriteString("o\n")
		select {
		case err := <-over:
			if err != nil || text.String() != "reached\n" {
				t.Errorf("three: %v, %q", err, text.String())
			}
			return true
		case <-time.After(200 * time.Millisecond):
			return false
		}
	})
	_, _ = terminal.WriteString("\x03")
	wait.Receive(t, "the end", ended)
	_ = follow.Wait() // 130
	b.OK(terminal.Close())
}

// watchesFiles reports whether a process has a watch of files (inotify(7)).
func watchesFiles(pid int) bool {
	all, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fdinfo/*", pid))
	for _, file := range all {
		if text, _ := os.ReadFile(file); strings.Contains(string(text), "inotify ") {
			return true
		}
	}
	return false
}

// wolffia asks lists and answers; what is always allowed is in the user's file, and a rule says who
// has answered.
func TestAsks(t *testing.T) {
	b := newBox(t)
	config := t.TempDir()
	b.OK(os.Chmod(config, 0o777))
	t.Setenv("XDG_CONFIG_HOME", config)
	flags, url := askServer(t)
	b.says(append([]string{"create", "--codebase", b.codebase, "--name", "asking"}, flags...)...)
	if out, err := b.command("exec", "asking", "--", "curl", "-sS", "--fail", url).CombinedOutput(); err == nil {
		t.Errorf("nobody is there to ask, and it is allowed: %s", out)
	}
	follow := b.command("asks", "-f", "asking")
	out, err := follow.StdoutPipe()
	b.OK(err)
	b.OK(follow.Start())
	defer func() { _ = follow.Process.Kill(); _ = follow.Wait() }()
	type question struct {
		ID, Host, Program string
		Targets           []string
	}
	questions, got := make(chan question), make(chan string)
	go func() { // ends with the follower
		for all := json.NewDecoder(out); ; {
			var q question
			if all.Decode(&q) != nil {
				return
			}
			questions <- q
		}
	}()
	ask := func() (id string, targets []string) { // again until the follower is there
		for {
			go func() {
				text, _ := b.command("exec", "asking", "--", "curl", "-sS", url).CombinedOutput()
				got <- string(text)
			}()
			select {
			case <-got:
			case q := <-questions:
				if q.Program != "curl" || !strings.HasPrefix(q.Host, "web.example:") {
					t.Errorf("got %+v", q)
				}
				return q.ID, q.Targets
			}
		}
	}
	id, _ := ask()
	b.says("asks", "answer", "asking", id, "allow")
	if text := <-got; !strings.Contains(text, "reached") {
		t.Errorf("allowed once: %s", text)
	}
	id, _ = ask()
	b.says("asks", "answer", "asking", id, "refuse")
	if text := <-got; strings.Contains(text, "reached") {
		t.Errorf("refused: %s", text)
	}
	id, targets := ask()
	if out, err := b.command("asks", "answer", "asking", id, "allow", "--for", "sandbox", "--target", "*.com").CombinedOutput(); err == nil {
		t.Errorf("a target that is not the question's: %s", out)
	}
	b.says("asks", "answer", "asking", id, "allow", "--for", "always")
	if text := <-got; !strings.Contains(text, "reached") {
		t.Errorf("allowed always: %s", text)
	}
	if text := b.says("exec", "asking", "--", "curl", "-sS", url); !strings.Contains(text, "reached") {
		t.Errorf("allowed by the rule: %s", text)
	}
	if text := b.says("network", "show", "asking"); !strings.Contains(text, targets[0]) || !strings.Contains(text, "answer of wolffia asks, ") {
		t.Errorf("the rule does not say who gave it:\n%s", text)
	}
	if text, err := os.ReadFile(filepath.Join(config, "wolffia", "config.yaml")); err != nil || !strings.Contains(string(text), targets[0]) {
		t.Errorf("the user's file: %q, %v", text, err)
	}
	// A hundred programs that ask at once: some refusals are for all. The gateway does not find out
	// the name of each.
	refused := 0
	go func() {
		text, _ := b.command("exec", "asking", "--", "sh", "-c", "for i in $(seq 100); do curl -sS -o /dev/null http://h$i.example & done; wait; echo over").CombinedOutput()
		got <- string(text)
	}()
	for over := false; !over; {
		select {
		case text := <-got:
			if over = true; !strings.Contains(text, "over") {
				t.Errorf("a hundred at once: %s", text)
			}
		case q := <-questions:
			if out, err := b.command("asks", "answer", "asking", q.ID, "refuse").CombinedOutput(); err == nil {
				refused++
			} else if !strings.Contains(string(out), "does not wait") {
				t.Error(string(out))
			}
		}
	}
	if refused < 3 || refused > 10 {
		t.Errorf("%d refusals end a hundred questions", refused)
	}
	if out, err := b.command("asks", "answer", "asking", id, "allow").CombinedOutput(); err == nil || !strings.Contains(string(out), "does not wait") {
		t.Errorf("an answer to what was answered: %s, %v", out, err)
	}
}

// The user of an MCP client is asked by elicitation.
func TestMCPElicits(t *testing.T) {
	h := newMCPHost(t)
	flags, url := askServer(t)
	answers := []string{"once", "no"}
	asked := make(chan string, 10)
	client := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, &sdk.ClientOptions{
		ElicitationHandler: func(_ context.Context, r *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
			asked <- r.Params.Message
			answer := answers[0]
			answers = answers[1:]
			return &sdk.ElicitResult{Action: "accept", Content: map[string]any{"answer": answer}}, nil
		},
	})
	ctx, cancel := context.WithTimeout(t.Context(), mcpLimit)
	defer cancel()
	cmd := h.command(append([]string{"mcp"}, flags...)...)
	cmd.Stderr = &testLog{t: t}
	session, err := client.Connect(ctx, &sdk.CommandTransport{Command: cmd, TerminateDuration: time.Minute}, &sdk.ClientSessionOptions{ProtocolVersion: "2025-11-25"})
	if err != nil {
		t.Fatal(err)
	}
	c := &mcpClient{mcpHost: h, ClientSession: session, ctx: ctx}
	defer func() { _ = c.Close() }()
	c.does("bash", args{"command": "true"}) // the sandbox is there
	wait.Until(t, "the question is asked", func() bool {
		r, err := c.tool(ctx, "bash", args{"command": "curl -sS " + url})
		return err == nil && strings.Contains(r.text, "reached")
	})
	if text := <-asked; !strings.Contains(text, "wants to connect to web.example:") || !strings.Contains(text, "curl") {
		t.Errorf("asked %q", text)
	}
	c.does("bash", args{"command": "curl -sS -o /dev/null -w '%{http_code}' " + url}, "403")
	if len(asked) != 1 {
		t.Errorf("asked %d times more, want 1", len(asked))
	}
}
