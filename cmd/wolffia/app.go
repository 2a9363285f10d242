package main

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"wolffia/local"
)

// A stdio is what a command reads and writes.
type stdio struct {
	in       *os.File
	out, err *output
}

// An app is one execution of the program.
type app struct {
	stdio
	heeding  sync.WaitGroup // until signals end the context of a command
	heed     *heed
	umask    uint32       // the caller's: for copies, which are as those of cp(1)
	stateDir string       // --state-dir
	log      *slog.Logger // the service's; nil for other commands
	closers  []func() error
	quiet    bool      // print no warnings
	misread  bool      // the flags could not be read
	printed  bool      // a JSON value was printed
	keyboard *keyboard // see keys

	origins map[string]string // where the values of flags come from that configuration files have set
}

// commands returns what makes each command of the command line, by its name.
func (a *app) commands() map[string]func() *cobra.Command {
	return map[string]func() *cobra.Command{
		"run": a.runCommand, "shell": a.shellCommand, "create": a.createCommand, "exec": a.execCommand, "session": a.sessionCommand,
		"serve": a.serveCommand, "mcp": a.mcpCommand, "ls": a.lsCommand, "scan": a.scanCommand, "inspect": a.inspectCommand,
		"start": a.startCommand, "stop": a.stopCommand, "rm": a.rmCommand, "touch": a.touchCommand, "prune": a.pruneCommand,
		"forward": a.forwardCommand, "pool": a.poolCommand, "diff": a.diffCommand, "apply": a.applyCommand, "discard": a.discardCommand,
		"fork": a.forkCommand, "snapshot": a.snapshotCommand, "logs": a.logsCommand, "cp": a.cpCommand, "image": a.imageCommand,
		"volume": a.volumeCommand, "policy": a.policyCommand, "network": a.networkCommand, "audit": a.auditCommand,
		"doctor": a.doctorCommand, "version": a.versionCommand, "init": a.initCommand, "trust": a.trustCommand,
		"untrust": a.untrustCommand, "config": a.configCommand,
	}
}

// command builds the whole command line or, if word is the name of a command, what that needs: to build
// all takes a millisecond.
func (a *app) command(word string) *cobra.Command {
	root := &cobra.Command{
		Use:   "wolffia",
		Short: "Rootless sandboxes over a filtered codebase",
		Long: `Wolffia runs commands in sandboxes: no root, no daemon, no image. The current
directory appears inside, filtered by rules: what is hidden does not exist.

  wolffia run -- make test              create, run, destroy
  id=$(wolffia create)                  a sandbox that stays
  wolffia exec $id -- make test
  wolffia rm -f $id

Exit codes: the command's own; 124 it has timed out; 125 wolffia failed; 126 it
cannot be executed; 127 it was not found; 128+n signal n killed it.`,
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          cobra.NoArgs,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.PersistentFlags().StringVar(&a.stateDir, "state-dir", "", "state directory (default $WOLFFIA_STATE_DIR, else under ~/.local/state)")
	commands := a.commands()
	if one := commands[word]; one != nil {
		root.AddCommand(one())
		root.CompletionOptions.DisableDefaultCmd = true
	} else {
		for _, one := range commands {
			root.AddCommand(one())
		}
		root.AddCommand(topics()...)
		root.CompletionOptions.HiddenDefaultCmd = false
	}
	a.addVersion(root)
	a.explainUsage(root)
	return root
}

// open returns the named runtime; an empty name means the default one. What a command does from then on
// signals end in order.
func (a *app) open(name string) (*local.Runtime, error) {
	a.heeding.Wait()
	return a.openEarly(name)
}

// openEarly is open for a command that makes and starts nothing before createAndStart or attach, which wait for the signals in its place.
func (a *app) openEarly(name string) (*local.Runtime, error) {
	binary, err := wolffiaFile()
	if err != nil {
		return nil, err
	}
	rt, err := newRuntime(name, &local.Options{Binary: binary, StateDir: a.stateDir, Progress: a.progress(), Log: a.log})
	if err != nil {
		return nil, err
	}
	a.closers = append(a.closers, rt.Close)
	return rt, nil
}

// progress returns a function that shows the current long step on one line of the
// terminal; nil without a terminal.
func (a *app) progress() func(text string) {
	if !term.IsTerminal(int(a.err.Fd())) {
		return nil
	}
	return func(text string) { fmt.Fprintf(a.err, "\r\033[K%s\r", printable(text)) }
}

// printJSON writes v, indented.
func (a *app) printJSON(v any) error {
	a.printed = true
	enc := json.NewEncoder(a.out)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// warn prints a warning, unless the user wants none.
func (a *app) warn(format string, args ...any) {
	if a.quiet {
		return
	}
	fmt.Fprintf(a.err, "wolffia: warning: "+format+"\n", args...)
}

// printable makes text from a sandbox, or about one, safe for a terminal: all
// but line ends, tabs and printable characters is escaped as in a Go string.
func printable(s string) string {
	var b strings.Builder
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, `\x%02x`, s[0])
		case r == '\n', r == '\t', strconv.IsPrint(r):
			b.WriteString(s[:n])
		default:
			q := strconv.QuoteRune(r)
			b.WriteString(q[1 : len(q)-1])
		}
		s = s[n:]
	}
	return b.String()
}
