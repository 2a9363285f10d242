package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"wolffia/internal/host/probe"
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
			if err := cmd.Context().Err(); err != nil { // what was tried says nothing of the host
				return err
			}
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
	for _, r := range results {
		mark := "ok  "
		switch {
		case !r.OK && r.Required && r.Because == "":
			mark = "FAIL"
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
	fmt.Fprintln(a.out, "\n"+conclusion(results))
}

// conclusion says what the results mean for sandboxes.
func conclusion(results []probe.Result) string {
	var missing []probe.Feature
	var others []string // runtimes beside the default one that may work
	for _, r := range results {
		switch {
		case !r.OK && r.Required && r.Because == "":
			missing = append(missing, r.Feature)
		case r.OK && r.Feature == probe.Runsc:
			others = append(others, "--runtime gvisor")
		case r.OK && r.Feature == probe.Docker:
			others = append(others, "--runtime docker")
		}
	}
	switch {
	case slices.Equal(missing, []probe.Feature{probe.Fuse}):
		return "Rules cannot be enforced at each access until what says FAIL is fixed. What works without FUSE:" +
			"\nsandboxes without a codebase, with --mount too; --preset full-access; and --filter static, which masks" +
			"\nwhat is to be hidden or protected when a sandbox starts, but not what is made or replaced later."
	case slices.Equal(missing, []probe.Feature{probe.Bubblewrap}) && len(others) > 0:
		return "Sandboxes of the default runtime cannot work here until what says FAIL is fixed. Those with " + strings.Join(others, " or ") + " can."
	case len(missing) > 0:
		return "Sandboxes cannot work here until what says FAIL is fixed."
	}
	return "Sandboxes work here."
}

// indent aligns the further lines of a text with its first.
func indent(s string) string {
	return strings.ReplaceAll(strings.TrimSpace(s), "\n", "\n"+strings.Repeat(" ", 23))
}
