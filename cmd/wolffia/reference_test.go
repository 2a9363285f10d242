package main

import (
	"fmt"
	"strings"
	"testing"

	"wolffia/cmd/wolffia/internal/console"
	"wolffia/cmd/wolffia/internal/host"
	"wolffia/fields"
	"wolffia/internal/test/doctable"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// TestReference: docs/cli.md has each command that can be run, and each flag of its own. The table of settings
// there (package fields) has the other flags of the commands that make sandboxes.
func TestReference(t *testing.T) {
	var commands, flags strings.Builder
	commands.WriteString("| command | what it does |\n| --- | --- |\n")
	flags.WriteString("| command | flag | |\n| --- | --- | --- |\n")
	listed := 0
	var each func(cmd *cobra.Command)
	each = func(cmd *cobra.Command) {
		if cmd.Hidden || cmd.Name() == "help" || cmd.Name() == "completion" {
			return
		}
		name := strings.TrimPrefix(cmd.CommandPath(), "wolffia ")
		if cmd.Runnable() && cmd.HasParent() && !cmd.HasSubCommands() {
			listed++
			use := strings.TrimPrefix(cmd.Parent().CommandPath()+" "+cmd.Use, "wolffia ")
			fmt.Fprintf(&commands, "| `%s` | %s |\n", doctable.Cell(use), doctable.Cell(cmd.Short))
			var settings []string
			cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
				if f.Hidden || f.Name == "help" || f.Name == "state-dir" {
					return
				}
				if isSetting(f) {
					settings = append(settings, "--"+f.Name)
					return
				}
				flag := "`--" + f.Name + "`"
				if f.Shorthand != "" {
					flag = "`-" + f.Shorthand + "`, " + flag
				}
				fmt.Fprintf(&flags, "| `%s` | %s | %s |\n", name, flag, doctable.Cell(f.Usage))
			})
			switch {
			case strings.Contains(cmd.Use, "flags of run"):
				fmt.Fprintf(&flags, "| `%s` | those of `run` | |\n", name)
			case len(settings) > 0 && len(settings) < 20: // else the command has a column in the table of settings
				fmt.Fprintf(&flags, "| `%s` | %s | as in the table of settings |\n", name, doctable.Code(settings, ", "))
			}
		}
		for _, sub := range cmd.Commands() {
			each(sub)
		}
	}
	each((&app{Host: &host.Host{Console: new(console.Console)}}).command(""))
	if listed < 40 {
		t.Errorf("only %d commands were found", listed)
	}
	doctable.Check(t, "../../docs/cli.md", "commands", commands.String())
	doctable.Check(t, "../../docs/cli.md", "flags", flags.String())
}

// isSetting reports whether the table of settings has a flag, with the same meaning.
func isSetting(flag *pflag.Flag) bool {
	for _, f := range fields.Table {
		if f.Name == flag.Name && f.Help != "" && strings.HasPrefix(flag.Usage, f.Help) {
			return true
		}
	}
	return false
}
