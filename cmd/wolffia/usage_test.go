package main

import (
	"strings"
	"testing"

	"wolffia/cmd/wolffia/internal/console"
	"wolffia/cmd/wolffia/internal/host"
	"wolffia/cmd/wolffia/internal/usage"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Each flag of a command whose flags are grouped in help is in a group, except those of build: they
// are no settings of a sandbox.
func TestFlagGroups(t *testing.T) {
	grouped := 0
	var each func(cmd *cobra.Command)
	each = func(cmd *cobra.Command) {
		groups := usage.GroupsOf(cmd)
		if len(groups) > 1 {
			grouped++
			if own := groups[0]; own.Title == "Flags" && cmd.Name() != "build" {
				own.Flags.VisitAll(func(f *pflag.Flag) {
					t.Errorf("%s: --%s is in no group of the table of settings", cmd.CommandPath(), f.Name)
				})
			}
		}
		for _, sub := range cmd.Commands() {
			each(sub)
		}
	}
	each((&app{Host: &host.Host{Console: new(console.Console)}}).command(""))
	if grouped < 4 {
		t.Errorf("the flags of %d commands are grouped", grouped)
	}
}

// Each command has the name under which it is built alone.
func TestCommandAlone(t *testing.T) {
	for name := range commands {
		cmd, _, err := (&app{Host: &host.Host{Console: new(console.Console)}}).command(name).Find([]string{name})
		if err != nil || cmd.Name() != name {
			t.Errorf("%s: found %s, error %v", name, cmd.Name(), err)
		}
	}
}

// The words of other programs are not commands, and lead to commands and flags that exist.
func TestOtherWords(t *testing.T) {
	root := (&app{Host: &host.Host{Console: new(console.Console)}}).command("")
	for word, use := range usage.OtherWords {
		if cmd, _, err := root.Find([]string{word}); err == nil && cmd != root {
			t.Errorf("%s is a command", word)
		}
		for _, part := range strings.Split(" "+use, " wolffia ")[1:] {
			part, _, _ = strings.Cut(part, ",")
			if cmd, _, err := root.Find(strings.Fields(part)); err != nil || cmd == root {
				t.Errorf("%s: %q does not exist", word, part)
			}
		}
	}
	for _, f := range usage.OtherFlags {
		for _, on := range f.On {
			cmd, _, err := root.Find([]string{on})
			if err != nil {
				t.Fatal(err)
			}
			if name, is := strings.CutPrefix(f.Use, "--"); is {
				name, _, _ = strings.Cut(name, " ")
				if cmd.Flags().Lookup(strings.TrimRight(name, ",")) == nil {
					t.Errorf("%s has no --%s", on, name)
				}
			}
		}
	}
}

// What is wrong with the number of arguments is said of arguments, not of flags and their values.
func TestOperandProblem(t *testing.T) {
	for _, c := range []struct{ use, args, want string }{
		{"add SANDBOX --rule PATTERN=LEVEL | --reveal PATTERN=LEVEL", "", "needs SANDBOX"},
		{"add SANDBOX --rule PATTERN=LEVEL | --reveal PATTERN=LEVEL", "box x", `takes SANDBOX only, and "x" is one argument too many`},
		{"wait [--timeout D] SANDBOX SESSION JOB", "box", "needs SANDBOX and SESSION and JOB"},
		{"discard [--yes] SANDBOX [PATH...]", "", "needs SANDBOX"},
		{"set SANDBOX rule flags", "a b", `takes SANDBOX only, and "b" is one argument too many`},
		{"ls [-q]", "x", `takes no arguments, and "x" is one`},
	} {
		if got := usage.OperandProblem(&cobra.Command{Use: c.use}, strings.Fields(c.args)); got != c.want {
			t.Errorf("%s with %q: %s, want %s", c.use, c.args, got, c.want)
		}
	}
}
