package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"wolffia/cmd/wolffia/internal/console"
	"wolffia/cmd/wolffia/internal/host"
	"wolffia/cmd/wolffia/internal/sandboxflags"
	"wolffia/cmd/wolffia/internal/usage"
	"wolffia/fields"
	"wolffia/fusefs/audit"
	"wolffia/internal/shellword"
	"wolffia/local"
	"wolffia/network"
	"wolffia/runtime"
)

func networkCommand(h *host.Host) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "network",
		Short: "What a sandbox can reach; show and change it",
		Long: `A sandbox has no network: only its own loopback, on which its processes reach one
another. Names are not found, and connections are refused or unreachable.

  --allow-host registry.example       one host by name, on ports 80 and 443
  --allow-host '*.example:443,8443'   all hosts below a domain, on these ports
  --allow-host @npm                   a named list: wolffia network lists
  --add-host db.internal:127.0.0.1    a name for this very address, also of this host
  --network filtered                  names come later, by wolffia network allow
  --network host                      the host's network, all of it: the services on
                                      this host's localhost, those of the local
                                      network, the internet

With names, the sandbox still has its loopback only, on which wolffia answers DNS and
carries connections; HTTP_PROXY and the like name a proxy there besides. Programs need
not know of it. On port 443 the name in the TLS handshake has to be the one that is
allowed, on port 80 that of the HTTP request (--no-sni-check NAME leaves this out). A
name that leads to this host, its network or metadata is refused. There is no IPv6, UDP
or ping. --header NAME:HEADER=@FILE adds a secret that stays outside to requests for
http://NAME.wolffia inside, which go to https://NAME.

What is refused is in the last line of run and exec, and in wolffia audit, with the flag
that allows it. wolffia network learn runs a command once and prints what it needs.

A unix socket of the host in a directory that --mount shows is reachable: such a
mount is an error, unless the socket itself is mounted too.`,
	}
	cmd.AddCommand(networkShowCommand(h), networkAllowCommand(h), networkDenyCommand(h), networkLearnCommand(h), networkListsCommand(h))
	return cmd
}

// A shownNetwork is what network show prints of a sandbox.
type shownNetwork struct {
	SandboxID string          `json:"sandboxId"`
	Network   runtime.Network `json:"network"`
	Egress    *network.Policy `json:"egress,omitempty"`
}

func networkShowCommand(h *host.Host) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "show SANDBOX",
		Short: "Show the network of a sandbox, and the names that it can reach",
		Args:  cobra.ExactArgs(1),
		RunE: h.Over(func(ctx context.Context, rt *local.Runtime, args []string) error {
			info, err := rt.Inspect(ctx, args[0])
			if err != nil {
				return err
			}
			s := shownNetwork{info.ID, info.Network, info.Config.Egress}
			if asJSON {
				return h.PrintJSON(s)
			}
			return printNetwork(h, &s)
		}),
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// printNetwork prints a network for people.
func printNetwork(h *host.Host, s *shownNetwork) error {
	fmt.Fprintf(h.Out, "network %s\n", s.Network)
	if s.Network != runtime.NetworkFiltered {
		return nil
	}
	all := s.Egress.Reaches()
	if len(all) == 0 {
		fmt.Fprintln(h.Out, "no name is allowed")
		return nil
	}
	fmt.Fprintln(h.Out)
	t := console.Table[network.Reach]{Wrap: true, Head: "WHAT\tNAME\tVALUE", Row: func(r network.Reach) []any {
		return []any{r.What, console.Printable(r.Name), console.Dash(console.Printable(r.Value))}
	}}
	return t.Print(h.Console, console.Format{}, all)
}

func networkAllowCommand(h *host.Host) *cobra.Command {
	var names sandboxflags.Sandbox
	cmd := &cobra.Command{
		Use:   "allow SANDBOX [flags] [NAME[:PORTS]...]",
		Short: "Let a sandbox reach more names, also while it runs",
		Long: `Add to what a sandbox with --network filtered can reach, as if its flags had had it. NAME
is as with --allow-host. It holds when the command returns, and after a restart too.`,
		Example: `  wolffia network allow box registry.example @npm '*.cdn.example:443'
  wolffia network allow box --add-host db.internal:127.0.0.1 --allow-host db.internal:5432`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			names.Values = names.With(sandboxflags.FlagAllowHost, append(names.List(sandboxflags.FlagAllowHost), args[1:]...))
			if !names.Named() {
				return usage.Errorf(cmd, "needs a NAME")
			}
			add, err := names.Egress()
			if err != nil {
				return err
			}
			rt, err := h.Open("")
			if err != nil {
				return err
			}
			_, err = rt.ChangeEgress(cmd.Context(), args[0], func(p *network.Policy) error {
				p.Add(add)
				return nil
			})
			return err
		},
	}
	names.Values = sandboxflags.AddFields(h, cmd, fields.Allow)
	return cmd
}

func networkDenyCommand(h *host.Host) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "deny SANDBOX NAME[:PORTS]...",
		Short: "Take names from what a sandbox can reach, also while it runs",
		Long: `Take from a sandbox what it can reach by these names: a rule as wolffia network show
prints it, or a NAME with all that is said of it. Connections that are open and no
longer allowed are closed.`,
		Example: `  wolffia network deny box registry.example
  wolffia network deny box @npm '*.cdn.example:443'`,
		Args: cobra.MinimumNArgs(2),
		RunE: h.Over(func(ctx context.Context, rt *local.Runtime, args []string) error {
			left, err := rt.ChangeEgress(ctx, args[0], func(p *network.Policy) error {
				for _, rule := range args[1:] {
					if !p.Remove(rule) {
						return runtime.Errorf(runtime.ErrNotFound, "no flag or file has allowed the sandbox %q%s: wolffia network show %s lists what it can reach", rule, p.StillAllowed(rule), args[0])
					}
				}
				return nil
			})
			if err != nil {
				return err
			}
			for _, rule := range args[1:] {
				if still := left.StillAllowed(rule); still != "" {
					h.Warn("%s%s", console.Printable(rule), console.Printable(still))
				}
			}
			return nil
		}),
	}
	return cmd
}

func networkListsCommand(h *host.Host) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "lists [NAME]",
		Short: "List the named lists of hosts, such as @npm, or the hosts of one",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			lists := network.Lists()
			if len(args) > 0 {
				name := strings.TrimPrefix(args[0], "@")
				lists = slices.DeleteFunc(lists, func(l network.List) bool { return l.Name != name })
				if len(lists) == 0 {
					return runtime.Errorf(runtime.ErrNotFound, "no list has the name %q: wolffia network lists prints all", args[0])
				}
			}
			t := console.Table[network.List]{Wrap: true, Head: "LIST\tHOSTS\tREASON", Row: func(l network.List) []any { return []any{"@" + l.Name, strings.Join(l.Hosts, " "), l.Reason} }}
			if len(args) > 0 && !asJSON {
				for _, name := range lists[0].Hosts {
					fmt.Fprintln(h.Out, name)
				}
				return nil
			}
			return t.Print(h.Console, console.Format{JSON: asJSON}, lists)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func networkLearnCommand(h *host.Host) *cobra.Command {
	var f runFlags
	cmd := &cobra.Command{
		Use:   "learn [flags of run] [--] CMD [ARG...]",
		Short: "Run a command once with all public names; print the list that it needs",
		Long: `Run a command as wolffia run does, but let it reach all names with public addresses, and
print on standard output which flags would allow what it has looked up and connected
to, and the same for a configuration file. Its own output goes to standard error. What
other ports it needs than 80 and 443 has to be allowed by --allow-host.

Read the list before you use it: what the command did is what it asks for.`,
		Example: `  wolffia network learn -- npm ci
  wolffia network learn --allow-host git.example:22 -- make deps >names.yaml`,
		RunE: func(cmd *cobra.Command, args []string) error {
			f.flags.Learn = true
			out := h.Out
			h.Out = h.Err
			defer func() { h.Out = out }()
			return f.run(h, cmd, args, func(ctx context.Context, rt *local.Runtime, id string) error {
				learned, err := learned(ctx, h, rt, id)
				if err != nil {
					return err
				}
				_ = printLearned(out, &f.flags, learned, args) // the output keeps its error
				return nil
			})
		},
	}
	f.add(h, cmd, fields.Learn)
	return cmd
}

// learned returns the flags that would allow what a sandbox has reached or asked for, from its
// log, each once, in order. It stops the sandbox so that the log is complete.
func learned(ctx context.Context, h *host.Host, rt *local.Runtime, id string) ([]string, error) {
	if err := rt.Stop(ctx, id); err != nil {
		return nil, err
	}
	log, _, err := rt.Audit(ctx, id)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	var all []audit.Record
	if err := log.Each(func(r audit.Record) error {
		if r.Host != nil && r.Remedy != "" || r.Dropped > 0 {
			all = append(all, r)
		}
		return nil
	}); err != nil {
		return nil, err
	}
	if slices.ContainsFunc(all, func(r audit.Record) bool { return r.Dropped > 0 }) {
		h.Warn("there were too many events: the list may lack names")
	}
	return learnedFlags(all), nil
}

// learnedFlags returns the flags that allow what records of the network's log say. A lookup
// counts only if no connection to the name followed.
func learnedFlags(all []audit.Record) (flags []string) {
	connected := map[string]bool{}
	for _, r := range all {
		if r.Host != nil && r.Op != "lookup" {
			connected[r.Host.Name] = true
		}
	}
	for _, r := range all {
		// a header has a file of the user's
		if r.Host == nil || r.Remedy == "" || strings.HasPrefix(r.Remedy, "--"+sandboxflags.FlagHeader) || r.Op == "lookup" && connected[r.Host.Name] {
			continue
		}
		if !slices.Contains(flags, r.Remedy) {
			flags = append(flags, r.Remedy)
		}
	}
	slices.Sort(flags)
	return flags
}

// printLearned prints flags as a comment and as a configuration file, with those that were given.
func printLearned(w io.Writer, given *sandboxflags.Sandbox, flags, command []string) error {
	values := map[string][]string{}
	add := func(key string, all ...string) {
		for _, v := range all {
			if !slices.Contains(values[key], v) {
				values[key] = append(values[key], v)
			}
		}
	}
	for _, name := range sandboxflags.NameFlags {
		add(name, given.List(name)...)
	}
	for _, flag := range flags {
		if key, value, ok := strings.Cut(strings.TrimPrefix(flag, "--"), " "); ok && slices.Contains(sandboxflags.NameFlags, key) {
			add(key, value)
		}
	}
	out := bufio.NewWriter(w)
	line := "wolffia run"
	for _, key := range sandboxflags.NameFlags {
		for _, v := range values[key] {
			line += " --" + key + " " + shellword.Quote(v)
		}
	}
	fmt.Fprintf(out, "# %s -- %s\n", console.Printable(line), console.OneLine(textOf(command)))
	if len(values) == 0 {
		fmt.Fprintln(out, "# The command needs no network.")
	}
	for _, key := range sandboxflags.NameFlags {
		if len(values[key]) == 0 {
			continue
		}
		fmt.Fprintf(out, "%s:\n", key)
		for _, v := range values[key] {
			fmt.Fprintf(out, "  - %s\n", yamlText(v))
		}
	}
	return out.Flush()
}

// yamlText returns a text as YAML has it between double quotes.
func yamlText(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(console.Printable(s)) + `"`
}
