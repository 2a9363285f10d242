package sessiontest

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"wolffia/runtime"
)

var attachTests = []test{
	{"AttachTypes", nil, attachTypes},
	{"AttachState", nil, attachState},
	{"AttachResize", nil, attachResize},
	{"AttachDetach", nil, attachDetach},
	{"AttachReplay", nil, attachReplay},
	{"AttachTwo", nil, attachTwo},
	{"AttachTakeover", nil, attachTakeover},
	{"AttachExit", nil, attachExit},
	{"AttachRest", nil, attachRest},
	{"AttachProgram", nil, attachProgram},
	{"AttachDestroy", nil, attachDestroy},
	{"AttachErrors", nil, attachErrors},
}

// A viewer is a client attached to a session's terminal.
type viewer struct {
	*env
	runtime.Terminal
	over chan struct{} // closed when all is seen

	mu   sync.Mutex
	more *sync.Cond      // seen, or its end, has changed; uses mu
	seen strings.Builder // guarded by mu
	last bool            // there will be no more; guarded by mu
}

// terminal opens the session's terminal.
func (s *shell) terminal(req runtime.AttachRequest) runtime.Terminal {
	s.Helper()
	t, err := s.rt.AttachSession(s.Ctx, s.ID, &req)
	if err != nil {
		s.Fatalf("attach %+v: %v", req, err)
	}
	return t
}

// attach makes a viewer, which reads all output.
func (s *shell) attach(req runtime.AttachRequest) *viewer {
	s.Helper()
	t := s.terminal(req)
	v := &viewer{env: s.env, Terminal: t, over: make(chan struct{})}
	v.more = sync.NewCond(&v.mu)
	s.Cleanup(func() {
		if err := t.Close(); err != nil {
			s.Errorf("detach: %v", err)
		}
		<-v.over
	})
	go func() { // ends with the stream
		defer close(v.over)
		buf := make([]byte, 4096)
		for {
			n, err := t.Stdout().Read(buf)
			v.mu.Lock()
			v.seen.Write(buf[:n])
			v.last = err != nil
			v.more.Broadcast()
			v.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	return v
}

// text is all that was seen up to now.
func (v *viewer) text() string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.seen.String()
}

// sees waits until want is on the terminal.
func (v *viewer) sees(want string) {
	v.Helper()
	found := make(chan bool, 1)
	go func() { // ends with the stream
		v.mu.Lock()
		defer v.mu.Unlock()
		for !strings.Contains(v.seen.String(), want) && !v.last {
			v.more.Wait()
		}
		found <- strings.Contains(v.seen.String(), want)
	}()
	select {
	case ok := <-found:
		if !ok {
			v.Fatalf("the terminal has ended without %q: %q", want, v.text())
		}
	case <-v.Ctx.Done():
		v.Fatalf("%q is not seen, but %q", want, v.text())
	}
}

func (v *viewer) types(text string) {
	v.Helper()
	_, err := io.WriteString(v.Stdin(), text)
	v.OK(err)
}

// asks types a command that prints a line by which it is known; what is typed
// is not that line, though the terminal shows it.
func (v *viewer) asks(format string, number int) {
	v.Helper()
	v.types(fmt.Sprintf("echo "+format+"\n", fmt.Sprintf("$((%d+1))", number-1)))
	v.sees(fmt.Sprintf(format, fmt.Sprint(number)))
}

// exit waits for the terminal's end.
func (v *viewer) exit() runtime.Result {
	v.Helper()
	exit, err := v.Wait(v.Ctx)
	if err != nil {
		v.Fatalf("wait for the terminal: %v", err)
	}
	return exit
}

func attachTypes(e *env) {
	s, tag := e.shell(nil), newTag()
	v := s.attach(runtime.AttachRequest{Rows: 24, Cols: 80})
	if v.Start() != 0 {
		e.Errorf("a new terminal starts at %d", v.Start())
	}
	v.asks("answer-%s", 42)
	v.types("test -t 0 && test -t 1 && test -t 2 && echo it is a$((0))tty\n")
	v.sees("it is a0tty")
	v.types("sleep " + tag + "\n")
	e.runs(tag, 1)
	v.types("\x03") // it is interactive
	e.gone(tag)
	v.asks("after-%s", 130)
	v.types("read x; echo got-$x\nahead\n") // what is typed too early waits
	v.sees("got-ahead")
	v.types("echo up-$((0)); cat; echo ate-$((0))\n")
	v.sees("up-0") // the shell has given the terminal away, which echoes from now on
	v.types("line\n")
	v.sees("line\r\nline") // the terminal's echo and cat's: now it reads
	v.types("\x04")
	v.sees("ate-0")
	v.asks("then-%s", 7)
	s.alive()
	s.same()
}

// The terminal's shell begins with the state of the session, and is another.
func attachState(e *env) {
	s := e.shell(nil)
	s.prints("cd /usr; export A=exported; v=plain; f() { echo f-$((40+2)); }; alias hi='echo hi-$((40+3))'", "")
	v := s.attach(runtime.AttachRequest{Rows: 24, Cols: 200})
	v.types("echo \"<$PWD|$A|$v>\"\n")
	v.sees("</usr|exported|plain>")
	v.types("f\n")
	v.sees("f-42")
	v.types("hi\n")
	v.sees("hi-43")
	v.types("cd /etc; v=typed; echo typed-$((0))\n")
	v.sees("typed-0")
	s.prints("pwd; echo $v", "/usr\nplain\n")
}

func attachResize(e *env) {
	s := e.shell(nil)
	v := s.attach(runtime.AttachRequest{Rows: 30, Cols: 100})
	// Before readline prompts it reads the size and sets it (set_winsize in its
	// rltty.c): another size that comes between is lost, on every terminal.
	v.types("PS1=in-$((0)); stty size\n")
	v.sees("30 100")
	v.sees("in-0")
	e.OK(v.Resize(50, 132))
	v.types("PS1=out-$((0)); stty size\n")
	v.sees("50 132")
	v.sees("out-0")
	e.OK(v.Close())
	v = s.attach(runtime.AttachRequest{Rows: 20, Cols: 70, Offset: runtime.FromEnd})
	v.types("stty size\n")
	v.sees("20 70")
}

// To detach ends nothing.
func attachDetach(e *env) {
	s, tag := e.shell(nil), newTag()
	v := s.attach(runtime.AttachRequest{Rows: 24, Cols: 80})
	v.types("kept=1234; sleep " + tag + "\n")
	e.runs(tag, 1)
	e.OK(v.Close())
	<-v.over
	e.runs(tag, 1)
	v = s.attach(runtime.AttachRequest{Offset: runtime.FromEnd})
	v.types("\x03")
	e.gone(tag)
	v.types("echo =$kept=\n")
	v.sees("=1234=")
	s.same()
}

// What was printed can be seen again, from any byte on.
func attachReplay(e *env) {
	s := e.shell(nil)
	v := s.attach(runtime.AttachRequest{Rows: 24, Cols: 80})
	v.asks("first-%s", 11)
	v.asks("second-%s", 22)
	e.OK(v.Close())
	<-v.over
	seen := v.text()
	at := strings.Index(seen, "first-11")
	for _, offset := range []uint64{0, uint64(at)} {
		v := s.attach(runtime.AttachRequest{Offset: offset})
		v.sees("second-22")
		if v.Start() != offset || !strings.HasPrefix(v.text(), seen[offset:at+len("first-11")]) {
			e.Errorf("from %d on, it starts at %d with %q; it was %q", offset, v.Start(), v.text(), seen)
		}
		e.OK(v.Close())
	}
	v = s.attach(runtime.AttachRequest{Offset: runtime.FromEnd})
	v.asks("third-%s", 33)
	if v.Start() < uint64(len(seen)) || strings.Contains(v.text(), "second-22") {
		e.Errorf("from the end on, it starts at %d with %q", v.Start(), v.text())
	}
}

// All viewers see the same, and all may type.
func attachTwo(e *env) {
	s := e.shell(nil)
	a := s.attach(runtime.AttachRequest{Rows: 24, Cols: 80})
	b := s.attach(runtime.AttachRequest{})
	a.asks("from-a-%s", 1)
	b.sees("from-a-1")
	b.asks("from-b-%s", 2)
	a.sees("from-b-2")
	e.OK(a.Close())
	b.asks("alone-%s", 3)
}

func attachTakeover(e *env) {
	s := e.shell(nil)
	a := s.attach(runtime.AttachRequest{Rows: 24, Cols: 80})
	b := s.attach(runtime.AttachRequest{})
	a.asks("from-a-%s", 1)
	c := s.attach(runtime.AttachRequest{Takeover: true})
	for _, v := range []*viewer{a, b} {
		v.exit()
		if !v.Detached() {
			e.Error("somebody has taken over, and it is said that the shell has ended")
		}
	}
	c.asks("from-c-%s", 3)
}

// The terminal's shell may end, and the next viewer gets a new one.
func attachExit(e *env) {
	s := e.shell(nil)
	v := s.attach(runtime.AttachRequest{Rows: 24, Cols: 80})
	v.types("gone=1; exit 5\n")
	if exit := v.exit(); exit.ExitCode != 5 || v.Detached() {
		e.Errorf("%+v, detached: %v", exit, v.Detached())
	}
	s.same()
	s.alive()
	v = s.attach(runtime.AttachRequest{Rows: 24, Cols: 80})
	v.types("echo =${gone-unset}=\n")
	v.sees("=unset=")
}

// A session's program runs on each of its terminals, with the session's state, and they end with
// it.
func attachProgram(e *env) {
	s := e.shell(&runtime.SessionConfig{Program: "tty >/dev/null && echo =$((count+1))=; exit 3"})
	for range 2 {
		v := s.attach(runtime.AttachRequest{Rows: 24, Cols: 80})
		v.sees("=1=")
		if exit := v.exit(); exit.ExitCode != 3 || v.Detached() {
			e.Errorf("%+v, detached: %v", exit, v.Detached())
		}
	}
	s.alive()
	_, err := e.rt.CreateSession(e.Ctx, e.box, &runtime.SessionConfig{Program: "a\x00b"})
	e.Wrong("a NUL", err, runtime.ErrInvalid)
}

// attachRest has the last of what a shell prints wait in its terminal, for a viewer who
// does not read, when it has ended.
func attachRest(e *env) {
	s := e.shell(nil)
	const most = 1 << 20 // is on its way, or kept, for a viewer that does not read
	for _, rest := range []int{6, 10, 14, 40, 100} {
		t := s.terminal(runtime.AttachRequest{})
		_, err := fmt.Fprintf(t.Stdin(), "exec head -c %d /dev/zero\n", most+rest<<10)
		e.OK(err)
		time.Sleep(300 * time.Millisecond) // so that it has ended, or this shows nothing
		seen, err := io.ReadAll(t.Stdout())
		e.OK(err)
		e.OK(t.Close())
		if n := bytes.Count(seen, []byte{0}); n != most+rest<<10 {
			e.Errorf("%d of %d bytes are seen", n, most+rest<<10)
		}
	}
}

// The end of the session is that of its terminal.
func attachDestroy(e *env) {
	s, tag := e.shell(nil), newTag()
	v := s.attach(runtime.AttachRequest{Rows: 24, Cols: 80})
	v.types("sleep " + tag + " & sleep " + tag + "\n")
	e.runs(tag, 2)
	e.OK(e.rt.DestroySession(e.Ctx, s.ID))
	if v.exit(); v.Detached() {
		e.Error("it is said that the shell lives on")
	}
	e.gone(tag)
}

func attachErrors(e *env) {
	for _, id := range []runtime.SessionID{"no-slash", runtime.SessionIn(e.box, "nobody"), "nobody/main"} {
		_, err := e.rt.AttachSession(e.Ctx, id, &runtime.AttachRequest{})
		e.Wrong("attach to "+string(id), err, runtime.ErrNotFound)
	}
}
