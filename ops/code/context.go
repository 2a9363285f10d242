package code

import (
	"context"
	"strings"
	"sync"
	"time"

	"wolffia/runtime"
)

// The languages of contexts. TypeScript is run by the JavaScript kernel of a Node that can.
const (
	Python     = "python"
	JavaScript = "javascript"
	TypeScript = "typescript"
	Bash       = "bash"
)

// aliases are other names of languages.
var aliases = map[string]string{"": Python, "js": JavaScript, "ts": TypeScript, "sh": Bash, "shell": Bash}

// Language returns the language of a name, in any case; empty is [Python]. Another one is
// [runtime.ErrUnsupported].
func Language(name string) (string, error) {
	language := strings.ToLower(strings.TrimSpace(name))
	if of, is := aliases[language]; is {
		language = of
	}
	switch language {
	case Python, JavaScript, TypeScript, Bash:
		return language, nil
	}
	return "", runtime.Errorf(runtime.ErrUnsupported,
		"language %.100q: no kernel runs it; those of python, javascript, typescript and bash exist", name)
}

// A Context is a kernel and its state. It is safe for concurrent use.
type Context struct {
	ID, Language string
	Cwd          string // where the kernel starts

	of      *Kernels
	sandbox string
	idle    time.Duration // after which the kernel ends; 0: never
	timer   *time.Timer   // nil without idle
	turn    chan struct{} // has an element while a cell or a restart has its turn

	mu      sync.Mutex
	now     engine // nil: none has started. Guarded by mu
	removed bool   // guarded by mu
	count   int    // of cells since the kernel started; the owner of the turn has it
}

// An engine runs the cells of a context.
type engine interface {
	// run runs a cell to its end. If ctx ends it interrupts the cell, emits nothing more, and
	// returns the cause.
	run(ctx context.Context, c *cell) error
	interrupt()
	// close ends the engine; a cell that runs ends with it.
	close()
	// ended reports whether it can run no more cells.
	ended() bool
}

// A Cell is code to run.
type Cell struct {
	Code string
	Env  map[string]string // of this cell only
	Cwd  string            // absolute, where the context works from this cell on; empty: where it is
}

// A cell is a Cell that runs.
type cell struct {
	Cell
	count int
	emit  func(*Event) error // calls are one after the other
}

// An Event is what a cell has written, or made known. Type says which fields are set.
type Event struct {
	Type      string         `json:"type"`
	Text      string         `json:"text"`      // Stdout, Stderr
	Data      map[string]any `json:"data"`      // Result: by MIME type, text or JSON; bytes in base64
	Main      bool           `json:"main"`      // Result: the value of the cell's last expression
	Name      string         `json:"name"`      // Failed
	Value     string         `json:"value"`     // Failed
	Traceback []string       `json:"traceback"` // Failed
	Count     int            `json:"-"`         // Began: the number of the cell, from 1
}

// The types of events.
const (
	Began  = "began"
	Stdout = "stdout"
	Stderr = "stderr"
	Result = "result"
	Failed = "error"
)

// The MIME types that kernels add: the columns of a table of pandas by name, and a chart as e2b_charts has it.
const (
	MIMEData  = "application/vnd.wolffia.data+json"
	MIMEChart = "application/vnd.wolffia.chart+json"
)

// Run runs a cell after earlier ones have ended, and calls emit for each event, one after the
// other, which must not retain it. A kernel that does not run is started; if it ends during the
// cell, that is a Failed event. An error of emit, and the end of ctx, interrupt the cell.
func (c *Context) Run(ctx context.Context, q Cell, emit func(*Event) error) error {
	if err := runtime.CheckEnv(q.Env); err != nil {
		return err
	}
	if err := c.enter(ctx); err != nil {
		return err
	}
	defer c.leave()
	e, err := c.start(ctx)
	if err != nil {
		return err
	}
	c.count++
	if err := emit(&Event{Type: Began, Count: c.count}); err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	return e.run(ctx, &cell{q, c.count, func(event *Event) error {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		err := emit(event)
		if err != nil {
			cancel(err)
		}
		return err
	}})
}

// enter waits for the turn of the caller, who leaves.
func (c *Context) enter(ctx context.Context) error {
	select {
	case c.turn <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if c.timer != nil {
		c.timer.Stop()
	}
	return nil
}

func (c *Context) leave() {
	if c.timer != nil {
		c.timer.Reset(c.idle)
	}
	<-c.turn
}

// start returns the engine, which it starts unless it runs. The caller has the turn.
func (c *Context) start(ctx context.Context) (engine, error) {
	c.mu.Lock()
	now, removed := c.now, c.removed
	c.mu.Unlock()
	switch {
	case removed:
		return nil, noContext(c.ID)
	case now != nil && !now.ended():
		return now, nil
	}
	c.count = 0
	var e engine
	var err error
	if c.Language == Bash {
		e, err = startShell(ctx, c.of.rt, c.sandbox, c.Cwd)
	} else {
		e, err = c.of.startKernel(ctx, c.sandbox, c.Language, c.Cwd)
	}
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.now = e; c.removed {
		e.close()
		return nil, noContext(c.ID)
	}
	return e, nil
}

// Interrupt interrupts the cell that runs.
func (c *Context) Interrupt() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.now != nil {
		c.now.interrupt()
	}
}

// Restart ends the kernel, and a cell that runs, and starts a new one.
func (c *Context) Restart(ctx context.Context) error {
	c.close(false)
	if err := c.enter(ctx); err != nil {
		return err
	}
	defer c.leave()
	c.close(false) // another cell may have begun
	_, err := c.start(ctx)
	return err
}

// close ends the kernel, for good if the context is removed.
func (c *Context) close(removed bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.removed = c.removed || removed
	if removed && c.timer != nil {
		c.timer.Stop()
	}
	if c.now != nil {
		c.now.close()
	}
}

// rest ends the kernel of a context that has run no cell for its idle time.
func (c *Context) rest() {
	select {
	case c.turn <- struct{}{}:
		c.close(false)
		<-c.turn
	default: // a cell runs
	}
}
