package main

import (
	"strings"

	"github.com/spf13/cobra"

	"wolffia/cmd/wolffia/internal/console"
	"wolffia/cmd/wolffia/internal/host"
	"wolffia/cmd/wolffia/internal/sandboxflags"
	"wolffia/fields"
	"wolffia/internal/config"
	"wolffia/runtime"
)

func configCommand(h *host.Host) *cobra.Command {
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
	cmd.AddCommand(configShowCommand(h), configProfilesCommand(h), configSchemaCommand(h))
	return cmd
}

func configShowCommand(h *host.Host) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "show [flags of run]",
		Short: "Print each key, its value, and where that comes from",
		Args:  cobra.NoArgs,
	}
	// The flags of run, which has --json too.
	cmd.Flags().AddFlagSet(runCommand(h).Flags())
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c, err := sandboxflags.ReadConfiguration(h, cmd.Flags(), false)
		if err != nil {
			return runtime.WithClass(runtime.ErrInvalid, err)
		}
		t := console.Table[sandboxflags.Value]{Wrap: true, Head: "KEY\tVALUE\tSOURCE", Row: func(v sandboxflags.Value) []any {
			return []any{v.Key, console.Dash(console.Printable(strings.Join(v.Values, " "))), console.Printable(v.Source)}
		}}
		asJSON, err := cmd.Flags().GetBool("json")
		if err != nil {
			return err
		}
		return t.Print(h.Console, console.Format{JSON: asJSON}, c.All())
	}
	return cmd
}

func configProfilesCommand(h *host.Host) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "profiles",
		Short: "List the profiles that --profile can name",
		Args:  cobra.NoArgs,
	}
	fl := cmd.Flags()
	fl.String("codebase", "", "the codebase (default: the project)")
	fl.BoolVar(&asJSON, "json", false, "print an array of JSON objects")
	cmd.RunE = func(*cobra.Command, []string) error {
		profiles, err := sandboxflags.Profiles(h, fl)
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
		t := console.Table[profile]{Wrap: true, Head: "NAME\tSOURCE\tDESCRIPTION", Row: func(p profile) []any {
			return []any{p.Name, console.Printable(p.Source), console.Dash(console.Printable(p.Description))}
		}}
		return t.Print(h.Console, console.Format{JSON: asJSON}, all)
	}
	return cmd
}

func configSchemaCommand(h *host.Host) *cobra.Command {
	return &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON schema of configuration files, for an editor",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			return h.PrintJSON(config.Schema(fields.Keys()))
		},
	}
}
