package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"wolffia/cmd/wolffia/internal/console"
	"wolffia/cmd/wolffia/internal/host"
	"wolffia/cmd/wolffia/internal/hostdir"
	"wolffia/cmd/wolffia/internal/sandboxflags"
	"wolffia/cmd/wolffia/internal/worktree"
	"wolffia/fields"
	"wolffia/internal/host/staticfs"
	"wolffia/ops"
	"wolffia/perm"
	"wolffia/policy"
	"wolffia/runtime"
)

func policyCommand(h *host.Host) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "policy",
		Short: "Show, check, explain and change rules",
		Long: `Show, check, explain and change the rules that filter a codebase.

A rule is PATTERN=LEVEL. The levels: none (does not exist inside), view (name and
attributes), read, write. In a pattern * matches within a name, ** any number of
directories; a leading / anchors it at the codebase's root, a trailing / means a
directory and all below it.

Of the rules that match, the one with the highest priority decides: a preset's
base rules 0, a project's configuration 50, a policy file's 100, --rule 200, a
preset's secrets 1000, a project's reveals 1500, --reveal 2000; then the more
specific; then the stricter. What none matches is hidden.`,
	}
	cmd.AddCommand(policyPresetsCommand(h), policyCheckCommand(h), policyExplainCommand(h),
		policyShowCommand(h), policySetCommand(h), policyAddCommand(h), policyRemoveCommand(h), policyRenewCommand(h))
	return cmd
}

func policyPresetsCommand(h *host.Host) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "presets [NAME]",
		Short: "List the presets, or the rules of one",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				t := console.Table[perm.Preset]{Wrap: true, Row: func(p perm.Preset) []any {
					name := p.Name
					if name == perm.DefaultPreset {
						name += " (default)"
					}
					return []any{name, p.Doc}
				}}
				return t.Print(h.Console, console.Format{JSON: asJSON}, perm.Presets())
			}
			p, err := perm.PresetByName(args[0])
			if err != nil {
				return runtime.WithClass(runtime.ErrInvalid, err)
			}
			if asJSON {
				return h.PrintJSON(p)
			}
			fmt.Fprintf(h.Out, "# %s: %s\n", p.Name, p.Doc)
			if p.Git {
				fmt.Fprintln(h.Out, "# Each .git is the sandbox's own copy; for a codebase, *.git stands for the bare repositories that exist in it, too.")
			}
			if p.Executed {
				fmt.Fprintln(h.Out, "# For a codebase, what is at most read with a description is so at its root, in git's working trees, and where editors or agents have settings.")
			}
			if i := slices.IndexFunc(p.Rules, func(r perm.Rule) bool { return r.NotBelow != "" }); i >= 0 {
				fmt.Fprintf(h.Out, "# What has a description matches nothing below %s, and what is none there, letters of either case, and copies of files such as NAME~ and .NAME.swp.\n", p.Rules[i].NotBelow)
			}
			return printRules(h, p.Rules)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// printRules prints rules as a table of bounded width but for the last column.
func printRules(h *host.Host, rules []perm.Rule) error {
	w := tabwriter.NewWriter(h.Out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "LEVEL\tPRIORITY\tTYPE\tPATTERN\tEXCEPT\tFROM")
	for _, r := range rules {
		level := r.LevelText()
		if r.AtMost {
			level = "at most " + level
		}
		from := r.Source
		if what := r.Reason(); what != "" {
			from += ": " + what
		}
		fmt.Fprintf(w, "%s\t%d\t%s\t%s\t%s\t%s\n", level, r.Priority, r.Type, console.Cell(r.Pattern, 60), console.Dash(console.Cell(r.Except, 24)), console.Printable(from))
	}
	return w.Flush()
}

func policyCheckCommand(h *host.Host) *cobra.Command {
	var asJSON, all bool
	var codebase string
	cmd := &cobra.Command{
		Use:   "check FILE",
		Short: "Check a policy file; print the rules it makes",
		Long: `Check a policy file; print the rules it makes. With --codebase, warn of rules that match
nothing there, or that other rules outrank.

  version: 1
  extends: agent-safe          # a preset, optional
  rules:
    - docs/=read
    - pattern: /build/**
      level: write
      priority: 100            # what it is without being said
  network:                     # optional: as --allow-host, --add-host, --no-sni-check
    allow-host: ["@npm", registry.example:443]`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			file, err := policy.ReadFile(args[0])
			if err != nil {
				return err
			}
			if _, err := policy.Egress(file, false); err != nil {
				return err
			}
			rules, err := perm.Assemble(&perm.Request{File: file, GitDirs: []string{}})
			if err == nil {
				err = perm.Check(rules)
			}
			if err != nil {
				return runtime.WithClass(runtime.ErrInvalid, err)
			}
			if codebase != "" {
				if err := doubtsOf(cmd.Context(), h, args[0], file, codebase); err != nil {
					return err
				}
			}
			if asJSON {
				return h.PrintJSON(rules)
			}
			return checkRules(h, file, rules, all)
		},
	}
	cmd.Flags().StringVar(&codebase, "codebase", "", "warn of rules without effect in this directory")
	cmd.Flags().BoolVar(&all, "all", false, "print the preset's rules too")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON: all rules, those of the preset too, without the network")
	return cmd
}

func policyExplainCommand(h *host.Host) *cobra.Command {
	var rules sandboxflags.Rules
	var codebase string
	var asJSON, dir bool
	cmd := &cobra.Command{
		Use:   "explain [rule flags] PATH...",
		Short: "Say which rule decides about a path",
		Long: `Say which rule decides about a path. A relative one begins at the codebase's root;
without --codebase at the current directory, if it exists there. Whether it is a
directory is looked up, if it exists; a trailing / says so too. Of a path that may
be either the stricter answer is given.`,
		Example: `  wolffia policy explain .env src/main.go
  wolffia policy explain --preset read-only --rule 'build/=write' build/out`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			here := "" // where a relative path may begin
			if codebase == "" {
				var err error
				if here, err = hostdir.Current(); err != nil {
					return err
				}
				if codebase, _ = hostdir.Project(); codebase == "." {
					codebase = here
				}
			}
			made, err := rules.Policy(cmd.Context(), h, codebase)
			if err != nil {
				return err
			}
			compiled, err := perm.Compile(made.Rules)
			if err != nil {
				return runtime.WithClass(runtime.ErrInvalid, err)
			}
			var all []perm.Explanation
			for _, path := range args {
				if _, err := os.Lstat(path); err == nil && !filepath.IsAbs(path) && here != "" {
					path = filepath.Join(here, path)
				}
				rel, kind := relative(codebase, path, dir)
				all = append(all, ops.Explain(compiled, rel, kind))
			}
			if asJSON {
				return h.PrintJSON(all)
			}
			for _, e := range all {
				for line := range strings.Lines(e.String()) {
					h.PrintLine(strings.TrimSuffix(line, "\n"))
				}
				if e.Rule != nil && e.Rule.Reason() != "" {
					fmt.Fprintf(h.Out, "  what it is: %s\n", e.Rule.Reason())
				}
				if rules.Text("filter") == string(runtime.FilterStatic) {
					private := perm.GitUnguarded(made.Rules) == ""
					fmt.Fprintf(h.Out, "  with --filter static: %s\n", staticfs.Explain(compiled, e.Path, e.Dir, private))
				}
				if why := made.TooManyReason(e.Path); why != "" {
					fmt.Fprintf(h.Out, "  %s\n", why)
				}
				if remedy := e.Allow(e.Level + 1); remedy != "" {
					words := "to allow more"
					if e.Rule != nil && perm.ToAllow(e.Rule.Source) != perm.ToAllow("") {
						words = perm.ToAllow(e.Rule.Source)
					}
					h.PrintLine("  " + words + ": " + remedy)
				}
			}
			return nil
		},
	}
	rules.Values = sandboxflags.AddFields(h, cmd, fields.Explain)
	sandboxflags.Configured(h, cmd, &rules)
	cmd.Flags().StringVar(&codebase, "codebase", "", "the codebase (default: the project)")
	cmd.Flags().BoolVar(&dir, "dir", false, "take the paths for directories")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func policySetCommand(h *host.Host) *cobra.Command {
	var rules sandboxflags.Rules
	cmd := &cobra.Command{
		Use:   "set SANDBOX rule flags",
		Short: "Replace the rules of a sandbox, also while it runs",
		Long: `Replace all rules of a sandbox by those that create would make of the same flags.
They bind when the command returns if the sandbox runs, also for files that are
open, and from its next start if it does not. What was read before is known.`,
		Example: `  wolffia policy set box --preset agent-safe --rule 'docs/=read'
  wolffia policy set box --preset read-only`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !rules.Given() {
				return runtime.Errorf(runtime.ErrInvalid, "no rules are given: the default ones are --preset %s; wolffia policy renew %s makes those that it has anew", perm.DefaultPreset, args[0])
			}
			rt, err := h.Open("")
			if err != nil {
				return err
			}
			s, err := rt.Get(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			made := &policy.Policy{}
			if w := worktree.Of(s.CodebasePath, s.Labels); w != nil {
				rules.Worktree = w.Name // it keeps to its working tree
			}
			if s.CodebasePath != "" { // without one SetPermissions says so
				if made, err = rules.Policy(cmd.Context(), h, s.CodebasePath); err != nil {
					return err
				}
			}
			if err := rt.SetPermissions(cmd.Context(), s.ID, made.Rules); err != nil {
				return err
			}
			names := made.Egress
			made.Egress = nil
			sandboxflags.WarnRules(h, made)
			if names != nil {
				h.Warn("the network of the policy file is for new sandboxes: wolffia network allow %s NAME... changes this one's", args[0])
			}
			return nil
		},
	}
	rules.Values = sandboxflags.AddFields(h, cmd, fields.SetRules)
	return cmd
}

// relative makes path relative to the codebase, and looks what it is there unless dir says it;
// [perm.Glob]: it is not known. An absolute path that is not below the codebase begins at its
// root, as in a pattern, if it is there, or if the host does not have it either.
func relative(codebase, path string, dir bool) (rel string, kind perm.Kind) {
	rel = path
	if filepath.IsAbs(path) {
		if abs, err := filepath.Abs(codebase); err == nil {
			if r, err := filepath.Rel(abs, path); err == nil {
				rel = r
			}
		}
		_, onHost := os.Lstat(path)
		_, inCodebase := os.Lstat(filepath.Join(codebase, path))
		if (onHost != nil || inCodebase == nil) && (rel == ".." || strings.HasPrefix(rel, "../")) {
			rel = strings.TrimLeft(path, "/")
		}
	}
	rel = filepath.Clean(rel)
	switch st, err := os.Lstat(filepath.Join(codebase, rel)); {
	case dir || err == nil && st.IsDir() || err != nil && strings.HasSuffix(path, "/"):
		return rel, perm.Directory
	case err == nil:
		return rel, perm.File
	}
	return rel, perm.Glob
}
