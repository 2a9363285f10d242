// Package attach runs a command in a sandbox as one of the caller's own: with its standard
// streams, terminal, signals.
package attach

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"wolffia/cmd/wolffia/internal/console"
	"wolffia/cmd/wolffia/internal/forward"
	"wolffia/cmd/wolffia/internal/hint"
	"wolffia/cmd/wolffia/internal/history"
	"wolffia/cmd/wolffia/internal/host"
	"wolffia/cmd/wolffia/internal/hostdir"
	"wolffia/local"
	"wolffia/runtime"
	"wolffia/wire"
)

// A Client runs commands in the foreground: with the standard streams and the signals of this
// process.
type Client struct {
	*host.Host
	rt *local.Runtime
	// TellServers has servers inside named whose addresses a command prints, PublishServers has
	// them made reachable: see [forward.Auto].
	TellServers, PublishServers bool
	asks                        *asks
	Report                      func() any      // what ExecJSON prints as report; nil: nothing
	Result                      *runtime.Result // of the last Exec, without output; nil: nothing ran
}

// New returns a Client for sandboxes of rt.
func New(h *host.Host, rt *local.Runtime) *Client { return &Client{Host: h, rt: rt} }

// Exec runs a command with our standard streams; an exit code other than 0 is an error.
// create says that this command line describes the sandbox.
func (c *Client) Exec(ctx context.Context, id string, create bool, spec *runtime.Command) error {
	defer c.noteQueue(spec)()
	begin, sb := time.Now(), lookUp(ctx, c.rt, id)
	watch, w := hint.WatchOutput(sb, spec.Command, c.Out, c.Err)
	c.asks = c.askHere(ctx, sb, spec)
	defer c.asks.stop()
	for i := range w {
		w[i] = c.asks.output(w[i])
	}
	servers := c.watchServers(ctx, sb, spec.TTY, create, w)
	defer servers.Close()
	exit, err := c.attach(ctx, sb.ID, spec, w[0], w[1]) // a name would be looked for once more
	if err != nil {
		err = hint.Explain(ctx, c.Host, c.rt, id, create, spec, err)
		if failed, ok := errors.AsType[*runtime.StartError](err); ok {
			c.remember(sb, begin, spec, &runtime.Result{ExitCode: failed.Code}, failed.Message)
		}
		return err
	}
	exit.ExitCode = console.CodeFor(exit)
	ended := endNote(&exit, spec)
	if ended != "" {
		c.Say(ended)
	}
	if exit.OutOfMemory {
		c.Warn(outOfMemory)
	}
	notes := append(allDenied(c.Host, &exit, id, create), exit.Git...)
	notes = append(notes, watch.Hint(exit.ExitCode, create))
	if create {
		notes = append(notes, c.leftNote(ctx, sb.ID))
	}
	c.Notes(notes...)
	c.Result = &exit
	c.remember(sb, begin, spec, &exit, append(notes, ended)...)
	return console.ExitWith(exit.ExitCode)
}

// watchServers has the writers of a command's output look for the addresses of servers. The caller
// closes the result.
func (c *Client) watchServers(ctx context.Context, sb *runtime.Sandbox, tty, create bool, w []io.Writer) *forward.Auto {
	a := forward.NewAuto(ctx, c.Host, c.rt, sb)
	if !c.TellServers {
		return a
	}
	a.Create, a.Publish = create, c.PublishServers
	a.Say = func(line string) { c.Note("%s", console.Printable(line)) }
	if tty { // it is raw, and the cursor may be anywhere
		a.Say = func(line string) { c.SayRaw(console.Printable(line)) }
	}
	for i := range w {
		w[i] = a.Watch(w[i])
	}
	return a
}

// outOfMemory is the note about a command that has failed so.
const outOfMemory = "the sandbox reached its memory limit, and the kernel killed a process in it: raise the limit with --memory"

// remember adds a command that has ended to the history. notes are the lines that wolffia has said
// of it; empty ones are left out.
func (c *Client) remember(sb *runtime.Sandbox, begin time.Time, spec *runtime.Command, exit *runtime.Result, notes ...string) {
	if exit.OutOfMemory {
		notes = append(notes, outOfMemory)
	}
	dir, _ := hostdir.Current()
	err := history.Add(c.rt.StateDir(), history.Entry{
		Time: time.Now(), Duration: time.Since(begin), Dir: dir, Codebase: sb.CodebasePath, Sandbox: sb.ID,
		Command: spec.Command, ExitCode: exit.ExitCode, Denied: exit.Denied, DeniedMore: exit.DeniedMore,
		Refused: exit.Refused, RefusedMore: exit.RefusedMore,
		Notes: printable(notes),
	})
	if err != nil {
		c.Warn("write the history, which wolffia why reads: %v; WOLFFIA_HISTORY=off leaves it out", err)
	}
}

// Remember adds a command that another client of this process has run to the history, as Exec does:
// with what it was denied, and notes. exit has its duration.
func (c *Client) Remember(ctx context.Context, id string, spec *runtime.Command, exit *runtime.Result, notes ...string) {
	notes = append(allDenied(c.Host, exit, id, false), notes...)
	c.remember(lookUp(ctx, c.rt, id), time.Now().Add(-exit.Duration), spec, exit, notes...)
}

// printable returns the notes that are not empty, as a terminal may have them.
func printable(notes []string) (kept []string) {
	for _, note := range notes {
		if note != "" {
			kept = append(kept, console.Printable(note))
		}
	}
	return kept
}

// queueNoticeDelay is how long a command waits for others in its session before wolffia tells the
// user.
const queueNoticeDelay = time.Second

// noteQueue has a line printed if a command waits for others in its session. stop ends that.
func (c *Client) noteQueue(spec *runtime.Command) (stop func()) {
	if spec.Session == "" {
		return func() {}
	}
	say := func(text string) { c.Say(text) }
	if spec.TTY {
		say = c.SayRaw
	}
	timer := time.AfterFunc(time.Hour, func() {
		say("session " + spec.Session + " is busy: the command waits for its turn (--no-wait: fail at once)")
	})
	timer.Stop()
	spec.Queued = func(waits bool) {
		if waits {
			timer.Reset(queueNoticeDelay)
		} else {
			timer.Stop()
		}
	}
	return func() { timer.Stop() }
}

// endNote returns what the exit code of a command does not say of its end, or an empty
// string.
func endNote(exit *runtime.Result, spec *runtime.Command) string {
	var notes []string
	if exit.TimedOut {
		notes = append(notes, fmt.Sprintf("the command reached --timeout %v and was ended", spec.Timeout))
	}
	if s := exit.Session; s != nil {
		if s.WantedTerminal {
			notes = append(notes, "the command waited for keys of a terminal, which it does not have, and was ended: use exec -t, or an option of the program that asks for nothing")
		}
		switch s.Restored {
		case wire.RestoredNone:
			notes = append(notes, fmt.Sprintf("session %s has a new shell: the variables, functions and working directory of the last shell are lost", spec.Session))
		case wire.RestoredPartial:
			notes = append(notes, fmt.Sprintf("session %s has a new shell: a part of the last shell's variables, functions and working directory is lost", spec.Session))
		}
	}
	return strings.Join(notes, "; ")
}

// lookUp returns a sandbox by its ID or name; one that is not found has ref in place of its ID,
// and who uses it learns why.
func lookUp(ctx context.Context, rt *local.Runtime, ref string) *runtime.Sandbox {
	if s, err := rt.Get(ctx, ref); err == nil {
		return s
	}
	return &runtime.Sandbox{ID: ref}
}
