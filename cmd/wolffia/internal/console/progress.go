package console

import (
	"fmt"
	"sync"
	"time"
)

// progressDelay is how long a step lasts before a line shows it, and the time between two lines.
const progressDelay = time.Second

// A progress is the line at the bottom of the terminal that shows the current long step.
type progress struct {
	mu    sync.Mutex // guards the rest
	text  string     // empty: no step
	begin time.Time  // of the step
	timer *time.Timer
	drawn bool
}

// Progress returns a function that begins a step, or changes its text, and ends it with an empty
// one. A step of more than a second is shown on one line of the terminal that standard error is;
// with --quiet, or elsewhere, nothing is. The function may be called by several goroutines.
func (c *Console) Progress() func(text string) { return c.step }

// During is Progress for a step that has one text. The returned function ends it.
func (c *Console) During(text string) (end func()) {
	c.step(text)
	return func() { c.step("") }
}

func (c *Console) step(text string) {
	p := &c.progress
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case text == "":
		c.eraseProgress()
		if p.timer != nil {
			p.timer.Stop()
		}
	case p.text == "":
		p.begin, p.timer = time.Now(), time.AfterFunc(progressDelay, c.drawProgress)
	}
	p.text = text
}

// drawProgress draws the line, and has it drawn again.
func (c *Console) drawProgress() {
	p := &c.progress
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.text == "" || c.Quiet || !c.Err.IsTerminal() {
		return
	}
	line := fmt.Sprintf("%s (%v)", OneLine(p.text), time.Since(p.begin).Truncate(time.Second))
	if width := c.Err.Width(); width > 0 {
		line = cut(line, max(width-len("wolffia: "), narrowest))
	}
	fmt.Fprintf(c.Err, "\r\x1b[K%s %s\r", c.label(Bold), line)
	p.drawn = true
	p.timer.Reset(progressDelay)
}

// eraseProgress removes the line. The caller holds the lock.
func (c *Console) eraseProgress() {
	if c.progress.drawn {
		_, _ = c.Err.WriteString("\r\x1b[K")
		c.progress.drawn = false
	}
}
