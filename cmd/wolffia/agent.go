package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"wolffia/cmd/wolffia/internal/agent"
	"wolffia/cmd/wolffia/internal/console"
	"wolffia/cmd/wolffia/internal/host"
	"wolffia/cmd/wolffia/internal/sandboxflags"
	"wolffia/fields"
	"wolffia/internal/config"
	"wolffia/local"
	"wolffia/runtime"
)

// usualAgents is how many agents help lists; the commands of the others are hidden.
const usualAgents = 3

// withAgents adds the commands of the agents to others.
func withAgents(all map[string]func(*host.Host) *cobra.Command) map[string]func(*host.Host) *cobra.Command {
	for i, a := range config.Agents() {
		all[a.Name] = func(h *host.Host) *cobra.Command {
			cmd := agentCommand(h, &a)
			cmd.Hidden = i >= usualAgents
			return cmd
		}
	}
	return all
}

// agentCommand is run for an agent: it finds the program and adds what belongs to it.
func agentCommand(h *host.Host, a *config.Agent) *cobra.Command {
	var f runFlags
	var yolo bool
	cmd := &cobra.Command{
		Use:   a.Name + " [flags of run] [--] [ARG...]",
		Short: "Run " + a.Title + " in a sandbox, and say what it did",
		Long: fmt.Sprintf(`Run %[2]s in a sandbox as wolffia run --profile %[1]s does: over this repository,
without your secrets, with a home of its own that stays, in which you log in once. It is
found in PATH, or where npm, nvm, pipx, uv and others install programs. Its own sandbox
is switched off: this one holds. Its questions stay, unless --yolo switches them off.

When it has ended, one screen says which files it has changed, what it has committed,
which hosts it has reached and what it was denied. With --cow its changes stay beside
your files until you apply them; --worktree BRANCH gives it a branch and a directory of
its own. Arguments behind -- are its own. The same for:

  %[3]s`, a.Name, a.Title, agentNames()),
		Example: strings.ReplaceAll("  wolffia NAME\n  wolffia NAME --cow --allow-host @github\n"+
			"  wolffia NAME --worktree fix -- --help", "NAME", a.Name),
	}
	cmd.DisableFlagsInUseLine = true
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if f.flags.Text("image") == "" && f.flags.Text("rootfs") == "" {
			if err := findAgent(h, a, len(f.flags.List("mount")) > 0); err != nil {
				return err
			}
		}
		words := append([]string{a.Name}, a.Args...)
		if yolo {
			words = append(words, a.Yolo...)
		}
		begin := time.Now()
		f.report = func(ctx context.Context, rt *local.Runtime, id string) any {
			report := agent.Look(ctx, rt, id, f.config, begin)
			report.Agent = a.Name
			return report
		}
		return f.run(h, cmd, append(words, args...), func(ctx context.Context, rt *local.Runtime, id string) error {
			if f.result != nil && !h.Quiet {
				report := agent.Look(ctx, rt, id, f.config, begin)
				report.Agent, report.Took, report.Result = a.Name, time.Since(begin), f.result
				h.Notes(report.Lines()...)
			}
			return nil
		})
	}
	f.add(h, cmd, fields.Learn)
	cmd.Flags().BoolVar(&f.json, "json", false, "print the result of a run that asks nothing as JSON, with a report of what it did")
	cmd.Flags().BoolVar(&yolo, "yolo", false, "switch the agent's own questions off")
	cmd.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		told := cmd.Parent().FlagErrorFunc()(cmd, err)
		if unknown, is := errors.AsType[*pflag.NotExistError](err); is {
			dashes := "--"[:1+min(1, len(unknown.GetSpecifiedName())-1)]
			return fmt.Errorf("%w; an option of %[2]s's own follows --: wolffia %[2]s -- %[3]s",
				told, a.Name, dashes+unknown.GetSpecifiedName())
		}
		return told
	})
	configured := cmd.PreRunE
	cmd.PreRunE = func(cmd *cobra.Command, args []string) error {
		if p := cmd.Flags().Lookup(sandboxflags.FlagProfile); !p.Changed {
			if err := cmd.Flags().Set(p.Name, a.Name); err != nil {
				return err
			}
		}
		return configured(cmd, args)
	}
	return cmd
}

// agentNames are the names of all agents.
func agentNames() string {
	var names []string
	for _, a := range config.Agents() {
		names = append(names, a.Name)
	}
	return strings.Join(names, ", ")
}

// findAgent has PATH name the directory of an agent. mounted says that the user shows directories,
// which may be the agent's.
func findAgent(h *host.Host, a *config.Agent, mounted bool) error {
	home, _ := os.UserHomeDir() // without one, PATH is all
	dir, known, err := agent.Find(a, home)
	if err != nil {
		return err
	}
	if !known {
		h.Note("%s is in %s, which PATH does not name", a.Name, console.Printable(dir))
		if err := os.Setenv("PATH", os.Getenv("PATH")+":"+dir); err != nil {
			return err
		}
	}
	found, err := h.Toolchains(&runtime.SandboxConfig{})
	if err != nil || mounted {
		return err
	}
	for _, l := range found.Left {
		if l.Dir == dir {
			return runtime.Errorf(runtime.ErrUnsupported, "%[1]s is in %[2]s, which is not shown inside: it %[3]s: "+
				"to show it: wolffia run --profile %[1]s --mount %[2]s -- %[2]s/%[1]s", a.Name, dir, l.Reason)
		}
	}
	return nil
}
