package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"wolffia/local"
	"wolffia/runtime"
	"wolffia/wire"
)

func (a *app) execCommand() *cobra.Command {
	var cwd, timeout, session string
	var env []string
	var stdin, tty, asJSON, noWait bool
	cmd := &cobra.Command{
		Use:   "exec [flags] SANDBOX -- CMD [ARG...]",
		Short: "Run a command in a running sandbox",
		Example: `  wolffia exec web -- make test
  echo hello | wolffia exec -i web -- cat
  wolffia exec -it web -- bash
  wolffia exec --session dev web -- 'cd src; export A=1'
  wolffia exec --session dev web -- git commit -m 'hello world'`,
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case len(args) > 1 && args[1] == "--":
				args = append(args[:1], args[2:]...)
			case len(args) > 1 && strings.HasPrefix(args[1], "-"):
				return misplaced(args)
			}
			if len(args) < 2 {
				return usageError(cmd, "needs SANDBOX and CMD")
			}
			limit, err := parseTimeout(timeout)
			if err != nil {
				return err
			}
			vars, err := variables(env)
			if err != nil {
				return err
			}
			if err := a.checkTTY(tty, asJSON); err != nil {
				return err
			}
			command := args[1:]
			if noWait && session == "" {
				return runtime.Errorf(runtime.ErrInvalid, "--no-wait needs --session: other commands do not wait for one another")
			}
			if session != "" {
				command = []string{textOf(command)}
			}
			rt, err := a.openEarly("")
			if err != nil {
				return err
			}
			spec := &runtime.Command{
				Command: command, Session: session, NoWait: noWait, Create: true, Env: vars, Cwd: cwd, OpenStdin: stdin || tty, TTY: tty, Timeout: limit,
			}
			a.warnKeys(spec, "use exec -t at a terminal")
			if !asJSON {
				return a.exec(cmd.Context(), rt, args[0], false, spec)
			}
			return a.execJSON(cmd.Context(), rt, args[0], false, spec)
		},
	}
	a.addQuiet(cmd)
	fl := cmd.Flags()
	fl.SetInterspersed(false)
	fl.StringVar(&cwd, "cwd", "", "working directory inside; with --session absolute (default: the sandbox's own, or the session's)")
	fl.StringArrayVarP(&env, "env", "e", nil, "set a variable: K=V, or K to pass the caller's")
	fl.StringVar(&session, "session", "", "run the command in this shell session, which is made on first use; a CMD without ARG is text that the shell evaluates")
	fl.BoolVar(&noWait, "no-wait", false, "with --session: fail at once if the session is busy")
	fl.StringVar(&timeout, "timeout", "", "end the command after this time (90s, 5m): exit code 124")
	fl.BoolVarP(&stdin, "interactive", "i", false, "pass standard input")
	fl.BoolVarP(&tty, "tty", "t", false, "give the command our terminal")
	fl.BoolVar(&asJSON, "json", false, "print the whole result as JSON")
	return cmd
}

// textOf returns what a session evaluates for a command: its only word as it is, several
// words as they are, each as one word for the shell.
func textOf(command []string) string {
	if len(command) == 1 {
		return command[0]
	}
	words := make([]string, len(command))
	for i, word := range command {
		words[i] = shellQuote(word)
	}
	return strings.Join(words, " ")
}

// shellQuote returns s as one word for a POSIX shell. A word of harmless characters is
// itself, so that it can be an alias.
func shellQuote(s string) string {
	harmless := func(r rune) bool {
		return r < utf8.RuneSelf && (unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("%+,-./:@_", r))
	}
	if s != "" && strings.IndexFunc(s, func(r rune) bool { return !harmless(r) }) < 0 {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// checkTTY returns why the flag -t, if it is given, cannot be followed.
func (a *app) checkTTY(tty, asJSON bool) error {
	switch {
	case tty && asJSON:
		return runtime.Errorf(runtime.ErrInvalid, "-t and --json exclude each other: a terminal shows the output itself, without a result; leave one of them out")
	case tty && !a.isTerminal():
		return runtime.Errorf(runtime.ErrInvalid, "-t: standard input and output are not a terminal")
	}
	return nil
}

// misplaced is the error for a command line whose sandbox, args[0], is followed by what
// looks like a flag: it must not become a part of the command without a word.
func misplaced(args []string) error {
	flags := args[1:2]
	if i := slices.Index(args, "--"); i > 0 {
		flags = args[1:i]
	}
	return runtime.Errorf(runtime.ErrInvalid, "%q follows the sandbox, where the command begins: write flags before it, as in wolffia exec ... %s %s -- CMD; a command that begins with a dash needs -- in front",
		args[1], strings.Join(flags, " "), args[0])
}

// exec runs a command with our standard streams; an exit code other than 0 is an error.
// create says that this command line describes the sandbox.
func (a *app) exec(ctx context.Context, rt *local.Runtime, id string, create bool, spec *runtime.Command) error {
	defer a.noteQueue(spec)()
	box := lookUp(ctx, rt, id)
	watch, w := watchOutput(box, a.out, a.err)
	exit, err := a.attach(ctx, rt, box.ID, spec, w[0], w[1]) // a name would be looked for once more
	if err != nil {
		return a.explain(ctx, rt, id, create, spec, err)
	}
	if note := endNote(&exit, spec); note != "" {
		fmt.Fprintln(a.err, "wolffia:", note)
	}
	if exit.OutOfMemory {
		a.warn("the sandbox reached its memory limit, and the kernel killed a process in it: raise the limit with --memory")
	}
	a.noteDenied(&exit, id, create)
	a.noteGit(exit.Git)
	if note := watch.hint(codeFor(exit), create); note != "" && !a.quiet {
		fmt.Fprintln(a.err, "wolffia:", printable(note))
	}
	return exitWith(codeFor(exit))
}

// queueMoment is how long a command waits for others in its session before wolffia tells the user.
const queueMoment = time.Second

// noteQueue has a line printed if a command waits for others in its session. stop ends that.
func (a *app) noteQueue(spec *runtime.Command) (stop func()) {
	if spec.Session == "" {
		return func() {}
	}
	end := "\n"
	if spec.TTY {
		end = "\r\n" // the terminal is raw
	}
	timer := time.AfterFunc(time.Hour, func() {
		fmt.Fprintf(a.err, "wolffia: session %s is busy: the command waits for its turn (--no-wait: fail at once)%s", spec.Session, end)
	})
	timer.Stop()
	spec.Queued = func(waits bool) {
		if waits {
			timer.Reset(queueMoment)
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

// readable reports whether our standard input can be read at all: nohup(1) opens one
// that cannot, in place of a terminal.
func (a *app) readable() bool {
	flags, err := unix.FcntlInt(a.in.Fd(), unix.F_GETFL, 0)
	return err == nil && flags&unix.O_ACCMODE != unix.O_WRONLY
}

func asStartError(err error) (*runtime.StartError, bool) {
	var failed *runtime.StartError
	ok := errors.As(err, &failed)
	return failed, ok
}
