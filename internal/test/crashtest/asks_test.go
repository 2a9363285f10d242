package crashtest

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"wolffia/internal/config"
	"wolffia/internal/host/probe"
	"wolffia/internal/test/testenv"
	"wolffia/internal/test/wait"
	"wolffia/local"
	"wolffia/perm"
	"wolffia/runtime"
	"wolffia/runtime/bwrap"
)

// Who takes part in a question beside the parts of the sandbox.
const (
	theProgram  = "program"  // that asks
	theAsker    = "asker"    // wolffia asks -f
	theAnswerer = "answerer" // wolffia asks answer
	theConsole  = "console"  // which is both
)

// An askedRound is a kill at a step of a question that is answered with always.
type askedRound struct{ kind, at, victim string }

// shownToAsker is a moment at which nobody is held: the asker has the question.
const shownToAsker = "the asker has it"

// askedRounds are the rounds there are.
func askedRounds() (all []askedRound) {
	for _, kind := range []string{runtime.AskWrite, runtime.AskNetwork} {
		for _, at := range []string{"ask: waits", shownToAsker, "answer: question claimed", "file: written", "answer: rule added", "answer: given", "answer: file written"} {
			for _, victim := range []string{theProgram, theAsker, theAnswerer, theConsole, theShim, theTree} {
				early := at == "ask: waits" || at == shownToAsker
				if kind == runtime.AskNetwork && at == "answer: file written" || early && victim == theAnswerer {
					continue // there is none
				}
				all = append(all, askedRound{kind, at, victim})
			}
		}
	}
	return all
}

// Whatever is killed at whatever step of a question: nothing is granted without an answer, nothing
// hangs, a rule is whole or absent, and the logs say what was.
func TestKilledQuestions(t *testing.T) {
	testenv.Need(t, probe.UserNamespaces, probe.Bubblewrap, probe.Fuse)
	testenv.Tools(t, "curl")
	w := newWorld(t, backend{name: bwrap.Name, shims: bwrap.Backend()})
	web := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, _ *http.Request) { fmt.Fprintln(out, "reached") }))
	t.Cleanup(web.Close)
	_, port, err := net.SplitHostPort(web.Listener.Addr().String())
	w.OK(err)
	for _, r := range askedRounds() {
		t.Run(strings.Join([]string{r.kind, r.at, r.victim}, "/"), func(t *testing.T) {
			round := *w
			round.TB = t
			round.ask(&r, port)
		})
	}
}

// An askerCall is a process that has the questions of a sandbox.
type askerCall struct {
	*call
	questions chan runtime.Question
	page      string // the address of a console's calls
	token     string
}

// asking starts a process that prints lines.
func (w *world) asking(args ...string) (*askerCall, *bufio.Reader) {
	w.Helper()
	c := &askerCall{call: &call{cmd: w.command("wolffia", args...)}, questions: make(chan runtime.Question, 16)}
	out, err := c.cmd.StdoutPipe()
	w.OK(err)
	c.cmd.Stderr = &c.output
	w.OK(c.cmd.Start())
	c.started()
	return c, bufio.NewReader(out)
}

// listenTo passes on the questions that each finds in the lines of r, until the process ends.
func (c *askerCall) listenTo(r *bufio.Reader, each func(line string) []runtime.Question) {
	for last := ""; ; {
		line, err := r.ReadString('\n')
		for _, q := range each(line) {
			if q.ID != last {
				c.questions <- q
				last = q.ID
			}
		}
		if err != nil {
			return
		}
	}
}

// stop ends the process, and waits for that.
func (c *askerCall) stop(w *world) {
	w.Helper()
	if err := c.proc.kill(); err != nil && !errors.Is(err, errGone) {
		w.Error(err)
	}
	w.ends("the asker", c.gone)
}

// reap waits for the process once its output has ended.
func (c *askerCall) reap() {
	_ = c.cmd.Wait()
	own.Delete(c.cmd.Process.Pid)
	close(c.gone)
}

// follow starts wolffia asks -f.
func (w *world) follow(id string) *askerCall {
	w.Helper()
	c, out := w.asking("asks", "-f", "--json", id)
	go func() { // ends with the process
		c.listenTo(out, func(line string) []runtime.Question {
			var q runtime.Question
			if json.Unmarshal([]byte(line), &q) != nil {
				return nil
			}
			return []runtime.Question{q}
		})
		c.reap()
	}()
	return c
}

// console starts wolffia console with a page.
func (w *world) console() *askerCall {
	w.Helper()
	c, out := w.asking("console", "--no-open")
	line, err := out.ReadString('\n')
	w.OK(err)
	c.page, c.token, _ = strings.Cut(strings.TrimSpace(line), "#token=")
	events := c.request(w, "GET", "events", nil)
	hello := make(chan bool, 1)
	go func() { // ends with the process
		c.listenTo(bufio.NewReader(events), func(line string) []runtime.Question {
			if strings.HasPrefix(line, "event: hello") {
				hello <- true
			}
			var d struct{ Questions []runtime.Question }
			text, is := strings.CutPrefix(line, "data: ")
			if !is || json.Unmarshal([]byte(text), &d) != nil {
				return nil
			}
			return d.Questions
		})
		c.reap()
	}()
	wait.Receive(w.TB, "the page", hello)
	return c
}

// request sends a request of the page's. The body ends with the process.
func (c *askerCall) request(w *world, method, path string, body []byte) io.Reader {
	w.Helper()
	r, err := http.NewRequestWithContext(w.Ctx, method, c.page+"api/"+path, bytes.NewReader(body))
	w.OK(err)
	r.Header.Set("Authorization", "Bearer "+c.token)
	r.Header.Set("Content-Type", "application/json")
	reply, err := http.DefaultClient.Do(r)
	if err != nil {
		return strings.NewReader(err.Error()) // it was killed
	}
	return reply.Body
}

// answers has a question allowed always, and returns the process that does it.
func (c *askerCall) answers(w *world, id, question string) *call {
	w.Helper()
	if c.page == "" {
		return w.cli("asks", "answer", id, question, "allow", "--for", "always")
	}
	go func() { // ends with the answer, or the process
		_, _ = io.Copy(io.Discard, c.request(w, "POST", "sandboxes/"+id+"/questions/"+question+"/answer", []byte(`{"allow":true,"scope":"always"}`)))
	}()
	return c.call
}

// ask does a round.
func (w *world) ask(r *askedRound, port string) {
	w.Helper()
	f := filepath.Join(w.codebase, "docs", "f")
	project, user := filepath.Join(w.codebase, config.ProjectName), filepath.Join(w.tmp, ".config/wolffia/config.yaml")
	for _, file := range []string{f, project, user} {
		_ = os.Remove(file)
	}
	w.OK(os.MkdirAll(filepath.Dir(f), 0o777))
	w.OK(os.Chmod(filepath.Dir(f), 0o777))
	w.OK(os.WriteFile(f, nil, 0o666))
	w.OK(os.Chmod(f, 0o666))
	s := made(w, "--rule", "docs/=read", "--ask", "write,network", "--add-host", "web.example:127.0.0.1")
	rt := w.open()
	asker := new(askerCall)
	if r.victim == theConsole {
		asker = w.console()
	} else {
		asker = w.follow(s.id)
	}
	held := false
	w.steps.begin(func(a *arrival) bool {
		wanted := a.name == r.at && !held
		held = held || wanted
		return wanted
	})
	defer w.steps.end()
	script, program := "echo x >docs/f", "sh"
	if r.kind == runtime.AskNetwork {
		script, program = "exec curl -sS --fail http://web.example:"+port, "curl"
	}
	asks := w.cli("exec", s.id, "--", "sh", "-c", script)
	var at *arrival
	q := runtime.Question{ID: "q1"}
	answerer := asker.call
	if r.at == "ask: waits" {
		at = wait.Receive(w.TB, r.at, w.steps.held)
	} else {
		q = wait.Receive(w.TB, "the question", asker.questions)
		if r.at != shownToAsker {
			answerer = asker.answers(w, s.id, q.ID)
			at = wait.Receive(w.TB, r.at, w.steps.held)
		}
	}
	all := processes(w.TB)
	switch r.victim {
	case theProgram:
		for _, p := range below(all, s.id) {
			if filepath.Base(p.args[0]) == program {
				_ = p.kill()
			}
		}
	case theAsker, theConsole:
		w.OK(asker.proc.kill())
	case theAnswerer:
		w.OK(answerer.proc.kill())
	default:
		w.OK(parts(all, s.id)[r.victim].kill())
	}
	if at != nil {
		at.release()
	}
	w.steps.end()
	if answerer != asker.call {
		w.ends("the answerer", answerer.done)
	}
	if r.victim == theAnswerer { // what it leaves others can answer
		c := w.cli("asks", "answer", s.id, q.ID, "refuse")
		w.ends("another answer", c.done)
	}
	w.ends("the program", asks.done)
	w.judgeAsked(r, rt, s.id, asks, f)
	asker.stop(w)
	w.OK(rt.Destroy(w.Ctx, s.id))
	w.settled(rt)
}

// judgeAsked compares what a round has left with what may be.
func (w *world) judgeAsked(r *askedRound, rt *local.Runtime, id string, asks *call, f string) {
	w.Helper()
	text, err := os.ReadFile(f)
	w.OK(err)
	allowed := string(text) == "x\n"
	if r.kind == runtime.AskNetwork {
		allowed = strings.Contains(asks.answer, "reached")
	}
	d, err := rt.Inspect(w.Ctx, id)
	w.OK(err)
	ruled := slices.ContainsFunc(d.Config.Permissions, func(p perm.Rule) bool { return p.Pattern == "/docs/f" && p.Level == perm.Write })
	if r.kind == runtime.AskNetwork {
		ruled = slices.ContainsFunc(d.Config.Egress.Allow, func(name string) bool { return strings.HasPrefix(name, "web.example") })
	}
	w.Logf("allowed: %t, a rule: %t, the program: %s", allowed, ruled, asks.answer)
	early := slices.Contains([]string{"ask: waits", shownToAsker}, r.at)
	answered := r.victim == theAsker || r.victim == theProgram || !slices.Contains([]string{"answer: question claimed", "file: written"}, r.at)
	if allowed && !ruled || ruled && early {
		w.Error("it was allowed, and nobody did")
	}
	if !early && answered && !ruled {
		w.Error("the answer has added no rule")
	}
	if !early && (r.victim == theAnswerer || r.victim == theConsole) && allowed != ruled {
		w.Error("the rule and what the program got differ")
	}
	// A file has the rule, or not.
	is := map[string]string{runtime.AskWrite: filepath.Join(w.codebase, config.ProjectName), runtime.AskNetwork: filepath.Join(w.tmp, ".config/wolffia/config.yaml")}
	if _, err := os.Stat(is[r.kind]); err != nil && r.victim == theAsker && !early {
		w.Error(err) // who has answered lives
	}
	for file, want := range map[string]string{
		is[runtime.AskWrite]:   "reveal:\n  - ",
		is[runtime.AskNetwork]: "allow-host:\n  - \"web.example:",
	} {
		if text, err := os.ReadFile(file); err == nil && (!strings.HasPrefix(string(text), want) || !strings.HasSuffix(string(text), "\n") || early || !ruled) {
			w.Errorf("%s is %q", file, text)
		}
	}
	c := w.cli("audit", "verify")
	if w.ends("audit verify", c.done); !c.ok && !strings.Contains(c.answer, "no history") {
		w.Errorf("audit verify: %s", c.answer)
	}
	if r.victim == theShim || r.victim == theTree {
		return
	}
	c = w.cli("exec", id, "--", "true")
	if w.ends("the next command", c.done); !c.ok {
		w.Errorf("the next command: %s", c.answer)
	}
	c = w.cli("asks", id)
	if w.ends("asks", c.done); !c.ok || strings.Contains(c.answer, "q1") {
		w.Errorf("wolffia asks: %s", c.answer)
	}
	c = w.cli("audit", "--json", id)
	w.ends("audit", c.done)
	if what := map[bool]string{true: "docs/f", false: "web.example"}[r.kind == runtime.AskWrite]; !allowed && r.victim != theProgram && !strings.Contains(c.answer, what) {
		w.Errorf("the audit does not have %s: %s", what, c.answer)
	}
}
