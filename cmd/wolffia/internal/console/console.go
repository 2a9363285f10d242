// Package console is what a command line reads or writes: streams, the terminal, tables, exit
// codes.
package console

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"

	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"wolffia/runtime"
)

// A Console is what a command line reads and writes.
type Console struct {
	In       *os.File
	Out, Err *Output
	Quiet    bool // print no warnings

	color    colorChoice
	Printed  bool      // a JSON value was printed
	keyboard *keyboard // see typist
	progress progress
}

// New returns a Console.
func New(in *os.File, out, err *Output) *Console { return &Console{In: in, Out: out, Err: err} }

// Typist returns what reads the keys of the terminal until over is closed.
func (c *Console) Typist(over <-chan struct{}) *Typist { return &Typist{keys: c.keys(), over: over} }

func (c *Console) keys() *keyboard {
	if c.keyboard == nil {
		c.keyboard = &keyboard{in: c.In}
	}
	return c.keyboard
}

// PrintJSON writes v, indented.
func (c *Console) PrintJSON(v any) error {
	c.Printed = true
	enc := json.NewEncoder(c.Out)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// Warn prints a warning, unless the user wants none.
func (c *Console) Warn(format string, args ...any) {
	if c.Colors(c.Err) {
		format = Yellow.Paint("warning:") + " " + format
	} else {
		format = "warning: " + format
	}
	c.Note(format, args...)
}

// Note prints a line unless the user has switched warnings off.
func (c *Console) Note(format string, args ...any) {
	if !c.Quiet {
		c.Say(fmt.Sprintf(format, args...))
	}
}

// Notes prints lines as Note does, made printable.
func (c *Console) Notes(lines ...string) {
	for _, line := range lines {
		if line != "" {
			c.Note("%s", Printable(line))
		}
	}
}

// Alongside joins how a command has ended with an error of what follows, which it prints if the
// command's exit status would hide it.
func (c *Console) Alongside(end, then error) error {
	if then != nil && errors.As(end, new(ExitStatus)) && !errors.As(then, new(ExitStatus)) {
		c.Fail(then)
		return end
	}
	return errors.Join(end, then)
}

// IsTerminal reports whether wolffia talks to a person, both ways.
func (c *Console) IsTerminal() bool { return c.Typed() && c.Out.IsTerminal() }

// Typed reports whether standard input is a terminal.
func (c *Console) Typed() bool { return term.IsTerminal(int(c.In.Fd())) }

// Asks reports whether the user can be asked.
func (c *Console) Asks() bool { return c.Typed() && c.Err.IsTerminal() }

// Size returns the size of the terminal.
func (c *Console) Size() (rows, cols uint16, err error) {
	w, h, err := term.GetSize(int(c.Out.Fd()))
	return uint16(h), uint16(w), err
}

// Readable reports whether our standard input can be read at all: nohup(1) opens one
// that cannot, in place of a terminal.
func (c *Console) Readable() bool {
	flags, err := unix.FcntlInt(c.In.Fd(), unix.F_GETFL, 0)
	return err == nil && flags&unix.O_ACCMODE != unix.O_WRONLY
}

// Input is our standard input, for a command that is over when the channel is closed.
func (c *Console) Input(over <-chan struct{}) io.Reader {
	if c.Typed() {
		return c.Typist(over)
	}
	return c.In
}

// RawMode puts the terminal into raw mode for the time, and has resize called with each new size
// of it. The returned function puts it back.
func (c *Console) RawMode(resize func(rows, cols uint16) error) (restore func(), err error) {
	fd := int(c.In.Fd())
	state, err := term.MakeRaw(fd)
	if err != nil {
		return nil, err
	}
	c.keys().early.Store(pending(fd))
	sizes := make(chan os.Signal, 1)
	signal.Notify(sizes, unix.SIGWINCH)
	go func() { // ends with restore
		for range sizes {
			if rows, cols, err := c.Size(); err == nil {
				_ = resize(rows, cols)
			}
		}
	}()
	return func() {
		signal.Stop(sizes)
		close(sizes)
		_ = term.Restore(fd, state)
	}, nil
}

// Agrees asks a question on the terminal, and reports whether the answer is yes.
func (c *Console) Agrees(ctx context.Context, question string) (bool, error) {
	fmt.Fprint(c.Err, question)
	answer := make(chan string, 1)
	go func() { // ends with a line, or with the program
		line, _ := bufio.NewReader(io.LimitReader(c.In, 1024)).ReadString('\n') // no answer is no
		answer <- strings.ToLower(strings.TrimSpace(line))
	}()
	select {
	case said := <-answer:
		return said == "y" || said == "yes", nil
	case <-ctx.Done():
		return false, ctx.Err()
	}
}

// errNotConfirmed is the answer no.
var errNotConfirmed = errors.New("not confirmed: nothing was changed")

// Confirm is Agrees where any answer but yes is an error.
func (c *Console) Confirm(ctx context.Context, question string) error {
	if !c.Typed() {
		return runtime.Errorf(runtime.ErrInvalid, "standard input is not a terminal to ask on: use --yes")
	}
	ok, err := c.Agrees(ctx, question)
	if err == nil && !ok {
		err = errNotConfirmed
	}
	return err
}
