package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"wolffia/cmd/wolffia/internal/console"
	"wolffia/cmd/wolffia/internal/host"
	"wolffia/cmd/wolffia/internal/sandboxflags"
	"wolffia/fields"
	"wolffia/local"
	"wolffia/perm"
	"wolffia/policy"
	"wolffia/runtime"
)

// A shownPolicy is what policy show prints of a sandbox's rules.
type shownPolicy struct {
	SandboxID string      `json:"sandboxId"`
	Preset    string      `json:"preset"` // empty: none
	Rules     []perm.Rule `json:"rules"`  // the user's

	PresetRules int         `json:"presetRules"`   // how many rules the preset has
	MadeRules   int         `json:"madeRules"`     // how many rules are for what the codebase has
	All         []perm.Rule `json:"all,omitempty"` // with --all
}

func policyShowCommand(h *host.Host) *cobra.Command {
	var asJSON, all bool
	cmd := &cobra.Command{
		Use:   "show [--all] SANDBOX",
		Short: "Show the rules of a sandbox: its preset, and those of flags and files",
		Args:  cobra.ExactArgs(1),
		RunE: h.Over(func(ctx context.Context, rt *local.Runtime, args []string) error {
			info, err := filtered(ctx, rt, args[0])
			if err != nil {
				return err
			}
			if info.Tree != nil && info.Tree.TreeStats != nil && !info.Tree.Current {
				h.Warn("other rules are in force, since a change was not completed: wolffia policy add or set completes it")
			}
			c, err := policy.ChoiceOf(info.Config.Permissions)
			if err != nil { // a program has made them
				c = &policy.Choice{Rules: info.Config.Permissions}
			}
			// JSON has [] for nothing
			s := shownPolicy{info.ID, c.Preset, append([]perm.Rule{}, c.Rules...), c.PresetRules, c.MadeRules, nil}
			if all {
				s.All = info.Config.Permissions
			}
			if asJSON {
				return h.PrintJSON(s)
			}
			return printPolicy(h, &s)
		}),
	}
	cmd.Flags().BoolVar(&all, "all", false, "show all rules, also those of the preset and for what the codebase has")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// printPolicy prints rules for people.
func printPolicy(h *host.Host, s *shownPolicy) error {
	switch {
	case s.Preset != "":
		fmt.Fprintf(h.Out, "preset %s: %d rules\n", console.Printable(s.Preset), s.PresetRules)
	case s.PresetRules > 0:
		fmt.Fprintf(h.Out, "no preset, but %d rules for secrets\n", s.PresetRules)
	default:
		fmt.Fprintln(h.Out, "no preset")
	}
	if s.MadeRules > 0 {
		fmt.Fprintf(h.Out, "made for what the codebase has: %d rules\n", s.MadeRules)
	}
	rules := s.Rules
	if s.All != nil {
		rules = s.All
	}
	if len(rules) == 0 {
		fmt.Fprintln(h.Out, "no rules of flags or files")
		return nil
	}
	fmt.Fprintln(h.Out)
	return printRules(h, rules)
}

// filtered returns what is known of a sandbox with a codebase.
func filtered(ctx context.Context, rt *local.Runtime, ref string) (*local.Details, error) {
	info, err := rt.Inspect(ctx, ref)
	if err == nil && info.CodebasePath == "" {
		err = runtime.Errorf(runtime.ErrInvalid, "sandbox %s has no codebase: rules have nothing to filter", info.ContainerName())
	}
	return info, err
}

func policyAddCommand(h *host.Host) *cobra.Command {
	var f sandboxflags.Rules
	cmd := &cobra.Command{
		Use:   "add SANDBOX --rule PATTERN=LEVEL | --reveal PATTERN=LEVEL",
		Short: "Add rules to those of a sandbox, also while it runs",
		Long: `Add rules to those of a sandbox, as if its flags had had them. A rule of the same flag
and pattern is replaced. They bind when the command returns, as with policy set. What
depends on the codebase is looked at again; a policy file is not read again.`,
		Example: `  wolffia policy add box --rule 'docs/=write'
  wolffia policy add box --reveal '/.env=read'`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o := &policy.Options{}
			var err error
			if o.Rules, o.Reveals, err = f.Flagged(); err != nil {
				return err
			}
			if len(o.Rules)+len(o.Reveals) == 0 {
				return runtime.Errorf(runtime.ErrInvalid, "no rules are given: wolffia policy add SANDBOX --rule PATTERN=LEVEL")
			}
			return changeRules(cmd.Context(), h, args[0], o, func(*policy.Choice) error { return nil })
		},
	}
	f.Values = sandboxflags.AddFields(h, cmd, fields.AddRules)
	return cmd
}

func policyRenewCommand(h *host.Host) *cobra.Command {
	return &cobra.Command{
		Use:   "renew SANDBOX",
		Short: "Make the rules of a sandbox anew for what the codebase has now",
		Long: `Make the rules of a sandbox anew, of the preset, flags and files that it has: what
depends on the codebase is looked at again, such as which files git tracks with their very
content. They bind when the command returns, as with policy set. A policy file is not read
again.`,
		Example: `  wolffia policy renew box    # a secret was written to a tracked file on the host`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return changeRules(cmd.Context(), h, args[0], &policy.Options{}, func(*policy.Choice) error { return nil })
		},
	}
}

func policyRemoveCommand(h *host.Host) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "rm SANDBOX PATTERN...",
		Short: "Remove rules of flags and files from a sandbox, also while it runs",
		Long: `Remove the rules with these patterns, which flags or a policy file have given, from
those of a sandbox: wolffia policy show prints them. The preset's rules stay.`,
		Example: `  wolffia policy rm box docs/`,
		Args:    cobra.MinimumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			return changeRules(cmd.Context(), h, args[0], &policy.Options{}, func(c *policy.Choice) error {
				for _, pattern := range args[1:] {
					if !c.Remove(pattern) {
						return runtime.Errorf(runtime.ErrNotFound, "no flag or file has given the sandbox a rule with the pattern %q: wolffia policy show %s lists them", pattern, args[0])
					}
				}
				return nil
			})
		},
	}
	return cmd
}

// changeRules makes the rules of a sandbox anew: what edit leaves of them, with the rules of
// o. If another process changes them meanwhile, it begins again.
func changeRules(ctx context.Context, h *host.Host, ref string, o *policy.Options, edit func(*policy.Choice) error) error {
	rt, err := h.Open("")
	if err != nil {
		return err
	}
	for tries := 1; ; tries++ {
		info, err := filtered(ctx, rt, ref)
		if err != nil {
			return err
		}
		again := *o
		again.StateDir = h.StateDir
		if again.Choice, err = policy.ChoiceOf(info.Config.Permissions); err != nil {
			return fmt.Errorf("%w: wolffia policy set %s", err, info.ContainerName())
		}
		if err := edit(again.Choice); err != nil {
			return err
		}
		made, err := policy.For(ctx, info.CodebasePath, &again)
		if err != nil {
			return err
		}
		err = rt.ReplacePermissions(ctx, info.ID, info.Config.Permissions, made.Rules)
		if errors.Is(err, local.ErrChanged) && tries < 5 {
			continue
		}
		if err == nil {
			sandboxflags.WarnRules(h, made)
		}
		return err
	}
}

// checkRules prints the rules of a policy file: the user's, and with all the preset's too.
func checkRules(h *host.Host, file *perm.PolicyFile, rules []perm.Rule, all bool) error {
	if all {
		return printRules(h, rules)
	}
	others := len(rules) - len(file.Rules)
	if len(file.Rules) > 0 {
		if err := printRules(h, file.Rules); err != nil {
			return err
		}
	}
	for _, e := range file.Network {
		fmt.Fprintf(h.Out, "network: %s %s (%s)\n", e.Key, console.Printable(e.Text), console.Printable(e.Source))
	}
	from := "which hide secrets"
	if file.Extends != "" {
		from = "of preset " + file.Extends
	}
	fmt.Fprintf(h.Out, "and %d rules %s: --all prints them\n", others, from)
	return nil
}

// doubtsOf prints what may be wrong with the rules of a policy file for a codebase.
func doubtsOf(ctx context.Context, h *host.Host, name string, file *perm.PolicyFile, codebase string) error {
	made, err := policy.For(ctx, codebase, &policy.Options{File: name, StateDir: h.StateDir})
	if err != nil {
		return err
	}
	none, whole, err := policy.Unmatched(codebase, file.Rules)
	if err != nil {
		return err
	}
	warnings := slices.Clone(made.Warnings)
	for _, r := range none {
		text := "it matches nothing in the codebase"
		if !whole {
			text = "it matches nothing in the part of the codebase that was looked through"
		}
		warnings = append(warnings, fmt.Sprintf("rule %q of %s: %s", r.Pattern+"="+r.Level.String(), r.Source, text))
	}
	for _, d := range warnings {
		h.Warn("%s", console.Printable(d))
	}
	return nil
}
