package main

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"wolffia/cmd/wolffia/internal/console"
	"wolffia/cmd/wolffia/internal/host"
	"wolffia/cmd/wolffia/internal/reach"
	"wolffia/internal/host/probe"
	"wolffia/internal/host/programs"
	"wolffia/internal/host/statedir"
	"wolffia/local"
	"wolffia/runtime"
	"wolffia/toolchain"
)

func doctorCommand(h *host.Host) *cobra.Command {
	var asJSON, lists, tools bool
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Say what this host can do, what is missing and what fixes it",
		Long: `Say what this host can do, what is missing and what fixes it. Each thing is
tried, not looked up. The exit code is 125 if sandboxes cannot work.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			results := append(probeSelf(h), probe.All(cmd.Context())...)
			if err := cmd.Context().Err(); err != nil { // what was tried says nothing of the host
				return err
			}
			found, err := h.Toolchains(&runtime.SandboxConfig{})
			if err != nil { // probeSelf reports it
				found = &toolchain.Found{}
			}
			results = append(results, toolchainResults(found)...)
			if tools {
				tried, err := toolsWork(cmd.Context(), h, found)
				if err != nil {
					return err
				}
				results = append(results, tried...)
			}
			if lists {
				proxy := cmp.Or(os.Getenv("HTTPS_PROXY"), os.Getenv("https_proxy"))
				results = append(results, reach.Host(proxy).Lists(cmd.Context())...)
			}
			if asJSON {
				if err := h.PrintJSON(results); err != nil {
					return err
				}
			} else {
				printProbes(h, results)
				if !tools && len(found.Toolchains) > 0 {
					fmt.Fprintln(h.Out, "wolffia doctor --tools runs each program of these toolchains once inside.")
				}
			}
			for _, r := range results {
				if r.Required && !r.OK {
					return console.ExitStatus(console.ExitFailed)
				}
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&lists, "network", false, "try also which lists of --allow-host this network reaches")
	cmd.Flags().BoolVar(&tools, "tools", false, "run each program of PATH that is shown once inside, with --version")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print an array of JSON objects")
	return cmd
}

// printProbes prints the results for a person: what works, then what helps.
func printProbes(h *host.Host, results []probe.Result) {
	for _, r := range results {
		mark, color := "ok", console.Green
		switch {
		case !r.OK && r.Required && r.Because == "":
			mark, color = "FAIL", console.Red
		case !r.OK:
			mark, color = "-", console.Plain
		}
		fmt.Fprintf(h.Out, "%s%*s  %-16s %s\n", h.Paint(color, mark), 4-len(mark), "", r.Feature, aligned(h, r.Found, ""))
		for _, part := range []struct{ name, text, comment string }{{"allows", r.Allows, ""}, {"problem", r.Problem, ""}, {"fix", r.Fix, "# "}} {
			if part.text != "" {
				fmt.Fprintf(h.Out, "%*s%s: %s\n", doctorColumn, "", part.name, aligned(h, part.text, part.comment))
			}
		}
	}
	fmt.Fprintln(h.Out, "\n"+conclusion(results))
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

// doctorColumn is the column in which doctor's texts begin.
const doctorColumn = 23

// aligned returns a text for that column: its lines are broken between words, and aligned. With a
// comment, which is that of a shell, it has lines for a shell, and those alone are broken that begin
// with it.
func aligned(h *host.Host, text, comment string) string {
	width, indent := h.Out.Width(), "\n"+strings.Repeat(" ", doctorColumn)
	const name = len("problem: ")
	lines := strings.Split(strings.TrimSpace(console.Printable(text)), "\n")
	for i, line := range lines {
		if width > 0 && strings.HasPrefix(line, comment) {
			lines[i] = strings.ReplaceAll(console.Wrap(line, max(width-doctorColumn-name, 1), comment), "\n", indent)
		}
	}
	return strings.Join(lines, indent)
}

// toolchainResults is what doctor says of PATH: an entry for each toolchain, and one for what
// is left out of it.
func toolchainResults(found *toolchain.Found) []probe.Result {
	var all []probe.Result
	for i := range found.Toolchains {
		t := &found.Toolchains[i]
		var shown []string
		for _, m := range t.Mounts {
			shown = append(shown, m.Target)
		}
		r := probe.Result{Feature: "toolchain", OK: true, Found: strings.TrimSuffix(t.Name+": "+strings.Join(t.Dirs, ":"), ": "), Allows: "--toolchains " + t.Name}
		if len(shown) > 0 {
			r.Allows += ", which shows " + strings.Join(shown, ", ")
		}
		all = append(all, r)
	}
	for _, l := range found.Left {
		all = append(all, probe.Result{Feature: "toolchain", Found: fmt.Sprintf("%q of PATH is left out", l.Dir), Problem: l.Reason})
	}
	return all
}

// probeSelf tries what wolffia itself needs beside the host's features: the state directory,
// and the programs that it starts.
func probeSelf(h *host.Host) []probe.Result {
	state := probe.Result{Feature: "state", Required: true, Allows: "the record of which sandboxes exist"}
	rt, err := h.Open("")
	if err == nil {
		err = tryState(rt.StateDir())
	}
	if err != nil {
		state.Problem = err.Error()
		return []probe.Result{state}
	}
	state.OK, state.Found = true, rt.StateDir()
	own := probe.Result{Feature: "programs", Required: true, Allows: "every sandbox: " + programs.Guest + " is PID 1 in it"}
	var guest *programs.Program
	for _, name := range []string{programs.Guest, programs.Box, programs.Net, programs.Tree} {
		p, err := host.Program(rt, name)
		if err != nil {
			own.Problem = err.Error()
			return []probe.Result{state, own}
		}
		defer p.Close()
		guest = cmp.Or(guest, p)
	}
	own.OK = true
	switch {
	case guest.Reason != nil:
		own.Found = "carried by " + rt.Binary()
		own.Problem = "each start copies them: " + guest.Reason.Error()
	default:
		own.Found = filepath.Dir(guest.Path)
	}
	return append([]probe.Result{state, own}, poolResults(rt.Pools())...)
}

// tryState returns why the state directory cannot keep a new sandbox; nil if it can.
func tryState(path string) error {
	dir, err := statedir.Open(path)
	if err != nil {
		return err
	}
	return dir.Try()
}

// poolResults says of the pools there are whether they could be refilled.
func poolResults(pools []*local.Pool, err error) []probe.Result {
	var all []probe.Result
	for _, p := range pools {
		r := probe.Result{
			Feature: "pool", OK: p.Problem == "", Allows: "sandboxes that were started ahead",
			Found: fmt.Sprintf("%s, %s: %d of %d sandboxes ready", p.Shape, p.Runtime, p.Ready, p.Size), Problem: p.Problem,
		}
		if !r.OK {
			r.Fix = "wolffia pool stop " + p.Shape + "   # then pool start with its flags, which says what fails"
		}
		all = append(all, r)
	}
	if err != nil {
		all = append(all, probe.Result{Feature: "pool", Problem: err.Error()})
	}
	return all
}
