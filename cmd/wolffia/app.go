package main

import (
	"github.com/spf13/cobra"

	"wolffia/cmd/wolffia/internal/host"
	"wolffia/cmd/wolffia/internal/review"
	"wolffia/cmd/wolffia/internal/sandboxflags"
	"wolffia/cmd/wolffia/internal/serving"
	"wolffia/cmd/wolffia/internal/usage"
	"wolffia/cmd/wolffia/internal/why"
)

// An app is one execution of the program.
type app struct {
	*host.Host
	misread bool // the flags could not be read
}

// commands are what makes each command of the command line, by its name.
var commands = withAgents(map[string]func(*host.Host) *cobra.Command{
	"apply": review.ApplyCommand, "asks": asksCommand, "audit": auditCommand, "build": buildCommand, "commit": commitCommand, "config": configCommand, "console": serving.ConsoleCommand, "cp": cpCommand, "create": createCommand,
	"diff": review.DiffCommand, "discard": review.DiscardCommand, "docker": dockerCommand, "doctor": doctorCommand, "exec": execCommand, "fork": review.ForkCommand,
	"forward": forwardCommand, "image": imageCommand, "init": initCommand, "inspect": inspectCommand, "logs": logsCommand,
	"ls": lsCommand, "mcp": serving.MCPCommand, "network": networkCommand, "pause": pauseCommand, "policy": policyCommand, "pool": poolCommand,
	"prune": pruneCommand, "resume": resumeCommand, "rm": rmCommand, "run": runCommand, "scan": scanCommand, "serve": serving.ServeCommand,
	"session": sessionCommand, "shell": shellCommand, "snapshot": review.SnapshotCommand, "start": startCommand, "stop": stopCommand,
	"touch": touchCommand, "tour": tourCommand, "trust": trustCommand, "untrust": untrustCommand, "version": versionCommand,
	"volume": volumeCommand, "why": why.Command, "wrap": wrapCommand,
})

// command builds the whole command line or, if word is the name of a command, what that needs: to
// build all takes a millisecond.
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
	root.PersistentFlags().StringVar(&a.StateDir, "state-dir", "", "state directory (default $WOLFFIA_STATE_DIR, else under ~/.local/state)")
	if one := commands[word]; one != nil {
		root.AddCommand(one(a.Host))
		root.CompletionOptions.DisableDefaultCmd = true
	} else {
		for _, one := range commands {
			root.AddCommand(one(a.Host))
		}
		root.AddCommand(usage.Topics()...)
		root.CompletionOptions.HiddenDefaultCmd = false
	}
	a.AddColor(root)
	addVersion(a.Host, root)
	usage.Explain(root, a.Console, func() { a.misread = true }, sandboxflags.FlagProfile)
	return root
}
