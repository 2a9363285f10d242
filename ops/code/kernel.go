package code

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unicode/utf8"

	"wolffia/ops"
	"wolffia/runtime"
)

//go:embed kernel.py
var pythonKernel string

//go:embed kernel.js
var nodeKernel string

// commands are the commands of kernels. Node's cannot replace its descriptors 1 and 2 itself, which
// the programs have that cells start.
var commands = map[string][]string{
	Python:     {"python3", "-c", pythonKernel},
	JavaScript: {"sh", "-c", `exec node -e "$1" 3>&1 1>&2 4<&0 0</dev/null`, "sh", nodeKernel},
}

const (
	startLimit     = 60 * time.Second       // until a kernel is ready
	interruptGrace = 5 * time.Second        // until a cell that was interrupted has ended; then the kernel is killed
	messageGrace   = 200 * time.Millisecond // until a cell has ended that a message interrupts; then SIGINT follows
	maxFrame       = 8 << 20                // bytes of a frame
	maxLast        = 2000                   // bytes of what a kernel has said last
)

// A kernel is a process that runs cells: see kernel.py and kernel.js.
type kernel struct {
	runtime.Process
	language   string // of the program
	typescript bool
	closed     atomic.Bool
	ready      chan struct{} // closed with the frame that says so
	gone       chan struct{} // closed when result and err are set
	result     runtime.Result
	err        error

	sending sync.Mutex // held for one message to the process

	mu    sync.Mutex
	asked *asked // the cell that runs, or nil. Guarded by mu
	last  []byte // guarded by mu
	cells int    // guarded by mu
	began bool   // the frame ready has come; guarded by mu
}

// asked is a cell that a kernel runs. kernel.mu guards it, and is held while it emits.
type asked struct {
	*cell
	id          int
	mark        []byte // ends what the cell's programs have written
	held        []byte // may be the beginning of mark, or of a character
	done, ended bool   // the frame and the mark have come
	end         chan struct{}
}

// startKernel starts a kernel and returns when it is ready.
func (k *Kernels) startKernel(ctx context.Context, sandbox, language, cwd string) (*kernel, error) {
	ts := language == TypeScript
	if ts {
		language = JavaScript
	}
	p, err := k.rt.StartProcess(ctx, sandbox, &runtime.Command{Command: commands[language], Cwd: cwd, OpenStdin: true})
	if err != nil {
		return nil, fmt.Errorf("the kernel of %s: %w", language, err)
	}
	n := &kernel{Process: p, language: language, typescript: ts, ready: make(chan struct{}), gone: make(chan struct{})}
	go func() { // ends with the process
		n.result, n.err = ops.Follow(context.Background(), p, n.frames, n.raw)
		close(n.gone)
		k.look(sandbox)
	}()
	limit, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	select {
	case <-n.ready:
		return n, nil
	case <-n.gone:
		return nil, fmt.Errorf("the kernel of %s: %w", language, n.death())
	case <-limit.Done():
		n.close()
		return nil, runtime.Errorf(runtime.ErrUnavailable, "the kernel of %s is not ready after %v", language, startLimit)
	}
}

// death returns why the kernel has ended. It must have.
func (n *kernel) death() error {
	var start *runtime.StartError
	switch {
	case errors.As(n.err, &start), n.err != nil && runtime.Class(n.err) != nil:
		return n.err
	case n.err != nil:
		return runtime.Errorf(runtime.ErrUnavailable, "it has ended: %w", n.err)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	text := (&runtime.ExitError{Result: n.result}).Error()
	if last := strings.TrimSpace(strings.ToValidUTF8(string(n.last), "\ufffd")); last != "" {
		text += ": " + last
	}
	return runtime.Errorf(runtime.ErrUnavailable, "it has ended: %s", text)
}

func (n *kernel) ended() bool {
	select {
	case <-n.gone:
		return true
	default:
		return n.closed.Load()
	}
}

func (n *kernel) interrupt() {
	n.mu.Lock()
	q := n.asked
	n.mu.Unlock()
	if q == nil {
		return
	}
	signal := func() { _ = n.Signal(syscall.SIGINT) }
	if n.language == JavaScript {
		// Node has a moment without a handler before and after each script, in which SIGINT
		// kills it or is lost. A cell that awaits reads the message; one that computes gets the signal.
		n.send(map[string]any{"interrupt": q.id})
		q.after(messageGrace, signal)
	} else {
		signal()
	}
	q.after(interruptGrace, n.close)
}

// after calls f after d unless the cell has ended.
func (q *asked) after(d time.Duration, f func()) {
	time.AfterFunc(d, func() {
		select {
		case <-q.end:
		default:
			f()
		}
	})
}

// send sends a message to the kernel, which may not read it for long.
func (n *kernel) send(message map[string]any) {
	text, _ := json.Marshal(message) // strings and numbers
	go func() {                      // ends with the process
		n.sending.Lock()
		defer n.sending.Unlock()
		_, _ = n.Stdin().Write(append(text, '\n'))
	}()
}

func (n *kernel) close() {
	n.closed.Store(true)
	_ = n.Close()
}

// run implements engine.
func (n *kernel) run(ctx context.Context, c *cell) error {
	q := &asked{cell: c, mark: []byte(rand.Text()), end: make(chan struct{})}
	n.mu.Lock()
	n.cells++
	q.id = n.cells
	n.asked = q
	n.mu.Unlock()
	env := c.Env
	if env == nil {
		env = map[string]string{}
	}
	n.send(map[string]any{
		"cell": q.id, "count": c.count, "code": c.Code, "cwd": c.Cwd, "env": env, "mark": string(q.mark), "typescript": n.typescript,
	})
	err := n.await(ctx, q)
	n.mu.Lock() // no event is being emitted then
	defer n.mu.Unlock()
	n.asked = nil
	return err
}

// await waits for the end of a cell. After the end of ctx it interrupts the cell.
func (n *kernel) await(ctx context.Context, q *asked) error {
	select {
	case <-q.end:
		return nil
	case <-n.gone:
		return n.died(q)
	case <-ctx.Done():
	}
	n.interrupt()
	select {
	case <-q.end:
	case <-n.gone:
	}
	return context.Cause(ctx)
}

// died says that the kernel has ended in a cell. If it ended with the sandbox, that is the error.
func (n *kernel) died(q *asked) error {
	why := n.death()
	if n.err != nil {
		return why
	}
	const value = "the kernel of this context has ended, and its state is lost: the next cell starts a new one: "
	return q.emit(&Event{Type: Failed, Name: "KernelDied", Value: value + why.Error(), Traceback: []string{}})
}

// A frame is what a kernel sends.
type frame struct {
	Event
	Cell int `json:"cell"`
}

var errFrame = runtime.Errorf(runtime.ErrUnavailable, "the kernel has sent what is not a frame, or is larger than %d bytes", maxFrame)

// frames reads the frames of a kernel.
func (n *kernel) frames(r io.Reader) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 0, 64<<10), maxFrame)
	for lines.Scan() {
		var f frame
		if json.Unmarshal(lines.Bytes(), &f) != nil {
			return errFrame
		}
		n.take(&f)
	}
	if errors.Is(lines.Err(), bufio.ErrTooLong) {
		return errFrame
	}
	return lines.Err()
}

// take passes a frame on. Those of other cells than the one that runs are dropped.
func (n *kernel) take(f *frame) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if f.Type == "ready" && !n.began {
		n.began = true
		close(n.ready)
	}
	q := n.asked
	if q == nil || q.id != f.Cell {
		return
	}
	switch f.Type {
	case "done":
		q.done = true
		q.over()
	case Stdout, Stderr, Result, Failed:
		if !q.done {
			_ = q.emit(&f.Event) // its error interrupts the cell
		}
	}
}

// raw reads what programs have written that cells have started.
func (n *kernel) raw(r io.Reader) error {
	buf := make([]byte, 32<<10)
	for {
		m, err := r.Read(buf)
		n.heard(buf[:m])
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (n *kernel) heard(text []byte) {
	n.mu.Lock()
	defer n.mu.Unlock()
	q := n.asked
	if q == nil || q.ended {
		n.last = append(n.last, text...)
		n.last = n.last[max(0, len(n.last)-maxLast):]
		return
	}
	var found bool
	text, _, found = bytes.Cut(append(q.held, text...), q.mark)
	at := len(text)
	if !found {
		at -= unfinished(text, q.mark)
	}
	q.held = bytes.Clone(text[at:])
	if text = text[:at]; len(text) > 0 {
		n.last = text[max(0, len(text)-maxLast):]
		_ = q.emit(&Event{Type: Stdout, Text: strings.ToValidUTF8(string(text), "\ufffd")})
	}
	if found {
		q.ended = true
		q.over()
	}
}

// over closes end if the cell is over.
func (q *asked) over() {
	if q.done && q.ended {
		select {
		case <-q.end:
		default:
			close(q.end)
		}
	}
}

// unfinished returns how many bytes at the end of a text may be the beginning of mark, or of a
// character.
func unfinished(text, mark []byte) int {
	for n := min(len(text), len(mark)-1); n > 0; n-- {
		if bytes.HasPrefix(mark, text[len(text)-n:]) {
			return n
		}
	}
	for n := 1; n < utf8.UTFMax && n <= len(text); n++ {
		if end := text[len(text)-n:]; utf8.RuneStart(end[0]) {
			if !utf8.FullRune(end) {
				return n
			}
			break
		}
	}
	return 0
}
