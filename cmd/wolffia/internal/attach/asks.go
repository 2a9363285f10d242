package attach

import (
	"context"
	"io"
	"time"

	"wolffia/cmd/wolffia/internal/asker"
	"wolffia/runtime"
)

// readyLimit bounds the wait of a command for its asker.
const readyLimit = time.Second

// asks asks the questions of a sandbox at our terminal while a command runs. nil asks none.
type asks struct {
	*asker.Terminal
	cancel context.CancelFunc
	ended  chan struct{} // closed when Run has returned
}

// askHere asks at our terminal, if the sandbox asks and there is one. The caller stops it.
func (c *Client) askHere(ctx context.Context, sb *runtime.Sandbox, spec *runtime.Command) *asks {
	if len(sb.Ask) == 0 || !c.Asks() {
		return nil
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	a := &asks{asker.NewTerminal(c.Host, c.rt, sb.ID, spec.TTY), cancel, make(chan struct{})}
	if !spec.TTY && !spec.OpenStdin {
		a.Typed = func(over <-chan struct{}) io.Reader { return c.Typist(over) }
	}
	ready := make(chan struct{})
	go func() { // ends with stop
		_ = a.Run(ctx, func() { close(ready) }) // the command says what is wrong with the sandbox
		close(a.ended)
	}()
	select { // else the command could ask before
	case <-ready:
	case <-a.ended:
	case <-time.After(readyLimit):
	}
	return a
}

func (a *asks) stop() {
	if a != nil {
		a.cancel()
		<-a.ended
	}
}

// output returns what writes to the terminal beside the questions.
func (a *asks) output(w io.Writer) io.Writer {
	if a == nil {
		return w
	}
	return a.Output(w)
}

// keys returns what reads the keys that are no answers.
func (a *asks) keys(r io.Reader) io.Reader {
	if a == nil {
		return r
	}
	return a.Keys(r)
}
