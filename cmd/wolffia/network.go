package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"wolffia/fields"
	"wolffia/fusefs/audit"
	"wolffia/local"
	"wolffia/network"
	"wolffia/runtime"
)

func (a *app) networkCommand() *cobra.Command {
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
	cmd.AddCommand(a.networkShowCommand(), a.networkAllowCommand(), a.networkDenyCommand(), a.networkLearnCommand(), a.networkListsCommand())
	return cmd
}

// A shownNetwork is what network show prints of a sandbox.
type shownNetwork struct {
	SandboxID string          `json:"sandboxId"`
	Network   runtime.Network `json:"network"`
	Egress    *network.Policy `json:"egress,omitempty"`
}

func (a *app) networkShowCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "show SANDBOX",
		Short: "Show the network of a sandbox, and the names that it can reach",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			rt, err := a.open("")
			if err != nil {
				return err
			}
			info, err := rt.Inspect(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			s := shownNetwork{info.ID, info.Network, info.Config.Egress}
			if asJSON {
				return a.printJSON(s)
			}
			return a.printNetwork(&s)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// A reach is a line of what network show prints of a policy.
type reach struct{ what, name, value string }

// reaches returns the lines of a policy, which may be nil.
func reaches(p *network.Policy) (all []reach) {
	if p == nil {
		return nil
	}
	for _, entry := range p.Allow {
		value := ""
		for _, l := range network.Lists() {
			if entry == "@"+l.Name {
				value = strings.Join(l.Hosts, " ")
			}
		}
		all = append(all, reach{"allow", entry, value})
	}
	for _, name := range slices.Sorted(maps.Keys(p.Hosts)) {
		all = append(all, reach{"address", name, p.Hosts[name]})
	}
	for _, name := range p.NoNameCheck {
		all = append(all, reach{"no check", name, "of the name in TLS and HTTP"})
	}
	if p.Upstream != "" {
		all = append(all, reach{"proxy", p.Upstream, "makes the connections"})
	}
	for _, h := range p.Headers {
		all = append(all, reach{"header", h.Name, h.Header + " of " + h.File})
	}
	return all
}

// printNetwork prints a network for people.
func (a *app) printNetwork(s *shownNetwork) error {
	fmt.Fprintf(a.out, "network %s\n", s.Network)
	if s.Network != runtime.NetworkFiltered {
		return nil
	}
	all := reaches(s.Egress)
	if len(all) == 0 {
		fmt.Fprintln(a.out, "no name is allowed")
		return nil
	}
	fmt.Fprintln(a.out)
	t := table[reach]{head: "WHAT\tNAME\tVALUE", row: func(r reach) []any { return []any{r.what, printable(r.name), dash(printable(r.value))} }}
	return t.print(a, format{}, all)
}

func (a *app) networkAllowCommand() *cobra.Command {
	var names boxFlags
	cmd := &cobra.Command{
		Use:   "allow SANDBOX [flags] [NAME[:PORTS]...]",
		Short: "Let a sandbox reach more names, also while it runs",
		Long: `Add to what a sandbox with --network filtered can reach, as if its flags had had it. NAME
is as with --allow-host. It holds when the command returns, and after a restart too.`,
		Example: `  wolffia network allow box registry.example @npm '*.cdn.example:443'
  wolffia network allow box --add-host db.internal:127.0.0.1 --allow-host db.internal:5432`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			names.Values = names.With(flagAllowHost, append(names.List(flagAllowHost), args[1:]...))
			if !names.named() {
				return usageError(cmd, "needs a NAME")
			}
			add, err := names.egress()
			if err != nil {
				return err
			}
			rt, err := a.open("")
			if err != nil {
				return err
			}
			_, err = rt.ChangeEgress(cmd.Context(), args[0], func(p *network.Policy) error {
				allow(p, add)
				return nil
			})
			return err
		},
	}
	names.Values = a.addFields(cmd, fields.Allow)
	return cmd
}

// allow adds what a policy allows to another.
func allow(p, more *network.Policy) {
	union := func(to *[]string, values []string) {
		for _, v := range values {
			if !slices.Contains(*to, v) {
				*to = append(*to, v)
			}
		}
	}
	union(&p.Allow, more.Allow)
	union(&p.NoNameCheck, more.NoNameCheck)
	for name, address := range more.Hosts {
		maps.DeleteFunc(p.Hosts, func(old, _ string) bool { return sameName(old, name) })
		if p.Hosts == nil {
			p.Hosts = map[string]string{}
		}
		p.Hosts[name] = address
	}
	for _, h := range more.Headers {
		p.Headers = slices.DeleteFunc(p.Headers, func(old network.Header) bool {
			return sameName(old.Name, h.Name) && strings.EqualFold(old.Header, h.Header)
		})
		p.Headers = append(p.Headers, h)
	}
}

// sameName reports whether two texts are the same name of a host.
func sameName(a, b string) bool {
	x, err := network.NormalName(a)
	y, err2 := network.NormalName(b)
	return a == b || err == nil && err2 == nil && x == y
}

func (a *app) networkDenyCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "deny SANDBOX NAME[:PORTS]...",
		Short: "Take names from what a sandbox can reach, also while it runs",
		Long: `Take from a sandbox what it can reach by these names: a rule as wolffia network show
prints it, or a NAME with all that is said of it. Connections that are open and no
longer allowed are closed.`,
		Example: `  wolffia network deny box registry.example
  wolffia network deny box @npm '*.cdn.example:443'`,
		Args: cobra.MinimumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			rt, err := a.open("")
			if err != nil {
				return err
			}
			left, err := rt.ChangeEgress(cmd.Context(), args[0], func(p *network.Policy) error {
				for _, rule := range args[1:] {
					if !deny(p, rule) {
						return runtime.Errorf(runtime.ErrNotFound, "no flag or file has allowed the sandbox %q%s: wolffia network show %s lists what it can reach", rule, stillAllowed(p, rule), args[0])
					}
				}
				return nil
			})
			if err != nil {
				return err
			}
			for _, rule := range args[1:] {
				if still := stillAllowed(left, rule); still != "" {
					a.warn("%s%s", printable(rule), printable(still))
				}
			}
			return nil
		},
	}
	return cmd
}

// deny removes what a policy says of a rule or a name, and reports whether it said anything.
func deny(p *network.Policy, rule string) (found bool) {
	is := func(entry string) bool {
		name, _, ports := strings.Cut(entry, ":")
		return entry == rule || ports && !strings.Contains(rule, ":") && sameName(name, rule) || sameName(entry, rule)
	}
	remove := func(list *[]string) {
		n := len(*list)
		*list = slices.DeleteFunc(*list, is)
		found = found || len(*list) < n
	}
	remove(&p.Allow)
	remove(&p.NoNameCheck)
	hosts, headers := len(p.Hosts), len(p.Headers)
	maps.DeleteFunc(p.Hosts, func(name, _ string) bool { return is(name) })
	p.Headers = slices.DeleteFunc(p.Headers, func(h network.Header) bool { return is(h.Name) })
	return found || len(p.Hosts) < hosts || len(p.Headers) < headers
}

// stillAllowed returns what allows a name other than by itself, for a message; empty if
// nothing does.
func stillAllowed(p *network.Policy, rule string) string {
	name, _, _ := strings.Cut(rule, ":")
	name, err := network.NormalName(name)
	c, err2 := p.Compile()
	if err != nil || err2 != nil || !c.Known(name) {
		return ""
	}
	for _, port := range c.Ports() {
		if entry, ok := c.Rule(name, port); ok {
			return fmt.Sprintf(" is allowed by %q", entry)
		}
	}
	return ""
}

func (a *app) networkListsCommand() *cobra.Command {
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
			t := table[network.List]{head: "LIST\tHOSTS\tREASON", row: func(l network.List) []any { return []any{"@" + l.Name, strings.Join(l.Hosts, " "), l.Reason} }}
			if len(args) > 0 && !asJSON {
				for _, h := range lists[0].Hosts {
					fmt.Fprintln(a.out, h)
				}
				return nil
			}
			return t.print(a, format{json: asJSON}, lists)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func (a *app) networkLearnCommand() *cobra.Command {
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
			f.box.learn = true
			out := a.out
			a.out = a.err
			defer func() { a.out = out }()
			return a.run(cmd, &f, args, func(ctx context.Context, rt *local.Runtime, id string) error {
				learned, err := a.learned(ctx, rt, id)
				if err != nil {
					return err
				}
				_ = printLearned(out, &f.box, learned, args) // the output keeps its error
				return nil
			})
		},
	}
	f.add(a, cmd, fields.Learn)
	return cmd
}

// learned returns the flags that would allow what a sandbox has reached or asked for, from its
// log, each once, in order. It stops the sandbox so that the log is complete.
func (a *app) learned(ctx context.Context, rt *local.Runtime, id string) ([]string, error) {
	if err := rt.Stop(ctx, id); err != nil {
		return nil, err
	}
	log, _, err := rt.Audit(ctx, id)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	var all []audit.Record
	if err := printAll(log, func(r audit.Record) error {
		if r.Host != nil && r.Remedy != "" || r.Dropped > 0 {
			all = append(all, r)
		}
		return nil
	}); err != nil {
		return nil, err
	}
	if slices.ContainsFunc(all, func(r audit.Record) bool { return r.Dropped > 0 }) {
		a.warn("there were too many events: the list may lack names")
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
		if r.Host == nil || r.Remedy == "" || strings.HasPrefix(r.Remedy, "--"+flagHeader) || r.Op == "lookup" && connected[r.Host.Name] { // a header has a file of the user's
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
func printLearned(w io.Writer, given *boxFlags, flags, command []string) error {
	values := map[string][]string{}
	add := func(key string, all ...string) {
		for _, v := range all {
			if !slices.Contains(values[key], v) {
				values[key] = append(values[key], v)
			}
		}
	}
	for _, name := range nameFlags {
		add(name, given.List(name)...)
	}
	for _, flag := range flags {
		if key, value, ok := strings.Cut(strings.TrimPrefix(flag, "--"), " "); ok && slices.Contains(nameFlags, key) {
			add(key, value)
		}
	}
	out := bufio.NewWriter(w)
	line := "wolffia run"
	for _, key := range nameFlags {
		for _, v := range values[key] {
			line += " --" + key + " " + shellWord(v)
		}
	}
	fmt.Fprintf(out, "# %s -- %s\n", printable(line), oneLine(textOf(command)))
	if len(values) == 0 {
		fmt.Fprintln(out, "# The command needs no network.")
	}
	for _, key := range nameFlags {
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
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(printable(s)) + `"`
}
