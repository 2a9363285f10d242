package attach

import (
	"bytes"
	"context"
	"io"
	"time"

	"golang.org/x/sys/unix"

	"wolffia/cmd/wolffia/internal/console"
	"wolffia/cmd/wolffia/internal/signals"
	"wolffia/runtime"
)

// ErrNoTerminal says that the caller has no terminal to connect with that of a session.
var ErrNoTerminal = runtime.Errorf(runtime.ErrInvalid, "standard input and output are not a terminal; without one: wolffia exec --session NAME")

// A terminalEnd says how the user has left the terminal of a session.
type terminalEnd uint8

const (
	Unattached terminalEnd = iota // it was not reached
	Detached                      // it runs on
	ended                         // its shell has ended, or the connection to it
)

// Terminal connects the user's terminal with a session's until that ends or the user
// detaches. It creates a missing session. An exit code other than 0 is an error. create says that
// this command line describes the sandbox.
func (c *Client) Terminal(ctx context.Context, sandbox, name string, takeover, create bool) (terminalEnd, error) {
	if !c.IsTerminal() {
		return Unattached, ErrNoTerminal
	}
	rows, cols, err := c.Size()
	if err != nil {
		return Unattached, err
	}
	// The signals that end us must not leave the terminal raw.
	ctx, stop := signals.UntilSignal(ctx, unix.SIGTERM, unix.SIGHUP)
	defer stop()
	t, err := c.rt.AttachSession(ctx, runtime.SessionIn(sandbox, name), &runtime.AttachRequest{Rows: rows, Cols: cols, Takeover: takeover, Create: true})
	if err != nil {
		return Unattached, err
	}
	defer t.Close()
	begin, sb := time.Now(), lookUp(ctx, c.rt, sandbox)
	var end runtime.Result
	exited := false
	defer func() { // when the terminal is as it was
		notes := append(allDenied(c.Host, &end, sandbox, create), end.Git...)
		if exited && create {
			notes = append(notes, c.leftNote(ctx, sandbox))
		}
		c.Notes(notes...)
		if !exited {
			return
		}
		c.remember(sb, begin, &runtime.Command{}, &end, notes...)
	}()
	restore, err := c.RawMode(t.Resize)
	if err != nil {
		return Unattached, err
	}
	defer restore()
	c.asks = c.askHere(ctx, sb, &runtime.Command{TTY: true})
	defer c.asks.stop()
	leave, over := make(chan struct{}), make(chan struct{})
	defer close(over)
	go func() { // ends with the input, or when it is over
		if typed(t.Stdin(), c.asks.keys(c.Typist(over))) {
			close(leave)
		}
	}()
	screen := console.NewScreen(c.Out)
	defer screen.Leave()
	out := []io.Writer{c.asks.output(screen)}
	servers := c.watchServers(ctx, sb, true, create, out)
	defer servers.Close()
	printed := make(chan struct{})
	go func() { // ends with the terminal
		defer close(printed)
		if t.End() > t.Start() {
			var again bytes.Buffer
			_, _ = io.CopyN(&again, t.Stdout(), int64(t.End()-t.Start()))
			_, _ = screen.Write(append(console.WithoutQueries(again.Bytes()), console.WholeScroll...))
			_ = t.Signal(unix.SIGWINCH) // a program on the whole screen draws it anew
		}
		_, _ = io.Copy(out[0], t.Stdout())
	}()
	select {
	case <-printed:
	case <-leave:
		_, _ = screen.Write([]byte("\r\n")) // what the host says next begins a line
		return Detached, nil
	case <-ctx.Done():
		code, _ := signals.CodeOf(ctx)
		return Detached, console.ExitStatus(code)
	}
	end, err = t.Wait(context.WithoutCancel(ctx))
	switch {
	case err != nil:
		return ended, err
	case t.Detached():
		c.SayRaw("another client took over the terminal")
		return Detached, nil
	}
	exited, end.ExitCode = true, console.CodeFor(end)
	return ended, console.ExitWith(end.ExitCode)
}

// typed passes on what the user types until ctrl-p ctrl-q, or until our terminal is
// closed, which it reports. A ctrl-p that something else follows is passed on
// with it.
func typed(to io.Writer, from io.Reader) (detach bool) {
	const ctrlP, ctrlQ = 0x10, 0x11
	buf := make([]byte, 4096)
	held := false // a ctrl-p waits for what comes next
	for {
		n, err := from.Read(buf)
		var out []byte
		for _, c := range buf[:n] {
			switch {
			case held && c == ctrlQ:
				_, _ = to.Write(out)
				return true
			case held:
				out, held = append(out, ctrlP), false
			}
			if c == ctrlP {
				held = true
				continue
			}
			out = append(out, c)
		}
		if _, werr := to.Write(out); werr != nil {
			return false
		}
		if err != nil { // the terminal was closed
			return true
		}
	}
}
