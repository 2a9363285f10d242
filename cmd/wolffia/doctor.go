package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"wolffia/internal/probe"
	"wolffia/runtime"
)

func (a *app) doctorCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Say what this host can do, what is missing and what fixes it",
		Long: `Say what this host can do, what is missing and what fixes it. Each thing is
tried, not looked up. The exit code is 125 if sandboxes cannot work.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			results := append(a.probeSelf(), probe.All(cmd.Context())...)
			if found, err := a.toolchains(&runtime.SandboxConfig{}); err == nil { // else probeSelf reports it
				results = append(results, toolchainResults(found)...)
			}
			if asJSON {
				if err := a.printJSON(results); err != nil {
					return err
				}
			} else {
				a.printProbes(results)
			}
			for _, r := range results {
				if r.Required && !r.OK {
					return exitStatus{exitFailed}
				}
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print an array of JSON objects")
	return cmd
}

// printProbes prints the results for a person: what works, then what helps.
func (a *app) printProbes(results []probe.Result) {
	var missing []probe.Feature
	for _, r := range results {
		mark := "ok  "
		switch {
		case !r.OK && r.Required:
			mark, missing = "FAIL", append(missing, r.Feature)
		case !r.OK:
			mark = "-   "
		}
		fmt.Fprintf(a.out, "%s  %-16s %s\n", mark, r.Feature, printable(r.Found))
		if r.Allows != "" {
			fmt.Fprintf(a.out, "      %-16s allows: %s\n", "", r.Allows)
		}
		if r.Problem != "" {
			fmt.Fprintf(a.out, "      %-16s problem: %s\n", "", indent(printable(r.Problem)))
		}
		if r.Fix != "" {
			fmt.Fprintf(a.out, "      %-16s fix: %s\n", "", indent(printable(r.Fix)))
		}
	}
	switch {
	case slices.Equal(missing, []probe.Feature{probe.Fuse}):
		fmt.Fprintln(a.out, "\nRules cannot be enforced at each access until what says FAIL is fixed. What works without FUSE:"+
			"\nsandboxes without a codebase, with --mount too; --preset full-access; and --filter static, which masks"+
			"\nwhat is to be hidden or protected when a sandbox starts, but not what is made or replaced later.")
	case len(missing) > 0:
		fmt.Fprintln(a.out, "\nSandboxes cannot work here until what says FAIL is fixed.")
	default:
		fmt.Fprintln(a.out, "\nSandboxes work here.")
	}
}

// indent aligns the further lines of a text with its first.
func indent(s string) string {
	return strings.ReplaceAll(strings.TrimSpace(s), "\n", "\n"+strings.Repeat(" ", 23))
}
