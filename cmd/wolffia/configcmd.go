package main

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"wolffia/fields"
	"wolffia/internal/config"
	"wolffia/runtime"
)

func (a *app) configCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Show what configuration files say",
		Long: `Show what configuration files say of the flags of run, create and shell.

Your own file is ~/.config/wolffia/config.yaml, a project's is .wolffia.yaml at the root
of its codebase: it counts after wolffia trust. The keys are the names of the flags,
and rules for --rule. What the command line says outranks a profile that it names,
that the project's file, that your own. Lists are put together in the order of your
own file, the project's, the command line.`,
	}
	cmd.AddCommand(a.configShowCommand(), a.configProfilesCommand(), a.configSchemaCommand())
	return cmd
}

// A value is the value of a key, or a part of a list, with where it comes from.
type value struct {
	Key    string   `json:"key"`
	Values []string `json:"values"`
	Source string   `json:"source"` // "flag", "built-in", FILE:LINE
}

func (a *app) configShowCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "show [flags of run]",
		Short: "Print each key, its value, and where that comes from",
		Args:  cobra.NoArgs,
	}
	// The flags of run, which has --json too.
	cmd.Flags().AddFlagSet(a.runCommand().Flags())
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c, err := a.configuration(cmd.Flags(), false)
		if err != nil {
			return runtime.WithClass(runtime.ErrInvalid, err)
		}
		c.known()
		var all []value
		for i := range c.request.Keys {
			all = append(all, c.values(&c.request.Keys[i])...)
		}
		t := table[value]{head: "KEY\tVALUE\tSOURCE", row: func(v value) []any {
			return []any{v.Key, dash(printable(strings.Join(v.Values, " "))), printable(v.Source)}
		}}
		asJSON, err := cmd.Flags().GetBool("json")
		if err != nil {
			return err
		}
		return t.print(a, format{json: asJSON}, all)
	}
	return cmd
}

// values returns what holds for a key: one value, or the parts of a list.
func (c *configuration) values(k *fields.Field) (all []value) {
	f, settings := c.flags.Lookup(k.Name), c.of(k.Key)
	flag := value{k.Key, []string{f.Value.String()}, "flag"}
	if list, several := f.Value.(pflag.SliceValue); several {
		flag.Values = append([]string{}, list.GetSlice()...) // JSON has [] for nothing
	} else if n := len(settings); n > 0 {
		settings = settings[n-1:]
	}
	if k.Kind == fields.List || !f.Changed {
		for _, s := range settings {
			if !c.idle(k, &s) {
				all = append(all, value{k.Key, append([]string{}, s.Values...), s.Source.String()}) // as above
			}
		}
	}
	switch {
	case f.Changed:
		all = append(all, flag)
	case len(all) == 0:
		flag.Source = "built-in"
		if k.Name == flagNetwork && slices.ContainsFunc(nameFlags, c.has) {
			flag.Values = []string{string(runtime.NetworkFiltered)} // as networkFlags.apply has it
		}
		all = append(all, flag)
	}
	return all
}

// has reports whether a flag or a file has a value for the flag called name.
func (c *configuration) has(name string) bool { return c.flags.Changed(name) || len(c.of(name)) > 0 }

func (a *app) configProfilesCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "profiles",
		Short: "List the profiles that --profile can name",
		Args:  cobra.NoArgs,
	}
	fl := cmd.Flags()
	fl.String("codebase", ".", "the codebase")
	fl.BoolVar(&asJSON, "json", false, "print an array of JSON objects")
	cmd.RunE = func(*cobra.Command, []string) error {
		profiles, err := a.profiles(fl)
		if err != nil {
			return runtime.WithClass(runtime.ErrInvalid, err)
		}
		type profile struct {
			Name        string              `json:"name"`
			Description string              `json:"description"`
			Source      string              `json:"source"`
			Settings    map[string][]string `json:"settings"`
		}
		var all []profile
		for _, p := range profiles {
			source := p.Source
			source.Profile = ""
			out := profile{p.Name, p.Description, "built-in", map[string][]string{}}
			if source.File != "" {
				out.Source = source.String()
			}
			for _, s := range p.Settings {
				out.Settings[s.Key] = append([]string{}, s.Values...) // as above
			}
			all = append(all, out)
		}
		t := table[profile]{head: "NAME\tSOURCE\tDESCRIPTION", row: func(p profile) []any {
			return []any{p.Name, printable(p.Source), dash(printable(p.Description))}
		}}
		return t.print(a, format{json: asJSON}, all)
	}
	return cmd
}

func (a *app) configSchemaCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON schema of configuration files, for an editor",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			return a.printJSON(config.Schema(fields.Keys()))
		},
	}
}
