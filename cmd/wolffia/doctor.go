package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"wolffia/cmd/wolffia/internal/console"
	"wolffia/cmd/wolffia/internal/host"
	"wolffia/cmd/wolffia/internal/reach"
	"wolffia/internal/host/cause"
	"wolffia/internal/host/probe"
	"wolffia/internal/host/programs"
	"wolffia/internal/host/statedir"
	"wolffia/local"
	"wolffia/runtime"
	"wolffia/toolchain"
)

func doctorCommand(h *host.Host) *cobra.Command {
	var asJSON, lists, tools, fix, yes bool
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Say what this host can do, what is missing and what fixes it",
		Long: `Say what this host can do, what is missing and what fixes it. Each thing is
tried, not looked up. The exit code is 125 if sandboxes cannot work. With --fix,
show the commands that make sandboxes work, ask, and run them.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if asJSON && fix || yes && !fix {
				return runtime.Errorf(runtime.ErrInvalid, "doctor: --yes needs --fix, and --json has no --fix")
			}
			results, found, err := examine(cmd.Context(), h, tools, lists)
			if err != nil {
				return err
			}
			if asJSON {
				if err := h.PrintJSON(results); err != nil {
					return err
				}
				return verdict(results)
			}
			printProbes(h, results)
			if !tools && len(found.Toolchains) > 0 && !fix {
				fmt.Fprintln(h.Out, "wolffia doctor --tools runs each program of these toolchains once inside.")
			}
			if fix {
				ran, err := fixHost(cmd.Context(), h, results, yes)
				if err != nil {
					return err
				}
				if ran {
					if results, _, err = examine(cmd.Context(), h, false, false); err != nil {
						return err
					}
					fmt.Fprintln(h.Out)
					printProbes(h, results)
				}
			}
			return verdict(results)
		},
	}
	cmd.Flags().BoolVar(&lists, "network", false, "try also which lists of --allow-host this network reaches")
	cmd.Flags().BoolVar(&tools, "tools", false, "run each program of PATH that is shown once inside, with --version")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print an array of JSON objects")
	cmd.Flags().BoolVar(&fix, "fix", false, "show the commands that make sandboxes work, ask, and run them")
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "with --fix: do not ask")
	return cmd
}

// examine returns all that doctor says of this host.
func examine(ctx context.Context, h *host.Host, tools, lists bool) ([]probe.Result, *toolchain.Found, error) {
	results := append(probeSelf(h), probe.All(ctx)...)
	if err := ctx.Err(); err != nil { // what was tried says nothing of the host
		return nil, nil, err
	}
	found, err := h.Toolchains(&runtime.SandboxConfig{})
	if err != nil { // probeSelf reports it
		found = &toolchain.Found{}
	}
	results = append(results, toolchainResults(found)...)
	if tools {
		tried, err := toolsWork(ctx, h, found)
		if err != nil {
			return nil, nil, err
		}
		results = append(results, tried...)
	}
	if lists {
		proxy := cmp.Or(os.Getenv("HTTPS_PROXY"), os.Getenv("https_proxy"))
		results = append(results, reach.Host(proxy).Lists(ctx)...)
	}
	return results, found, nil
}

// verdict is the end of a doctor that has found sandboxes to work, or not.
func verdict(results []probe.Result) error {
	for _, r := range results {
		if r.Required && !r.OK {
			return console.ExitStatus(console.ExitFailed)
		}
	}
	return nil
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
		for _, part := range []struct{ name, text, comment string }{{"allows", r.Allows, ""}, {"problem", problemOf(&r), ""}, {"fix", r.Fix, "# "}} {
			if part.text != "" {
				fmt.Fprintf(h.Out, "%*s%s: %s\n", doctorColumn, "", part.name, aligned(h, part.text, part.comment))
			}
		}
	}
	fmt.Fprintln(h.Out, "\n"+conclusion(results))
}

// problemOf returns the problem of a result, with its code.
func problemOf(r *probe.Result) string {
	if r.Code == "" {
		return r.Problem
	}
	return r.Problem + " (" + r.Code + ")"
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
	here := placeResult()
	state := probe.Result{Feature: "state", Required: true, Allows: "the record of which sandboxes exist"}
	rt, err := h.Open("")
	if err == nil {
		err = tryState(rt.StateDir())
	}
	if err != nil {
		state.Problem = err.Error()
		if e, is := errors.AsType[*cause.Error](cause.Explain(cause.State, err)); is {
			state.Code, state.Problem, state.Fix = e.Code, e.Cause.Problem+": "+e.Err.Error(), e.Fix
		}
		return []probe.Result{here, state}
	}
	state.OK, state.Found = true, rt.StateDir()
	state.Warn(&cause.Facts{Host: cause.This(), Symptom: cause.State, Dir: rt.StateDir()})
	own := probe.Result{Feature: "programs", Required: true, Allows: "every sandbox: " + programs.Guest + " is PID 1 in it"}
	var guest *programs.Program
	for _, name := range []string{programs.Guest, programs.Box, programs.Net, programs.Tree} {
		p, err := host.Program(rt, name)
		if err != nil {
			own.Problem = err.Error()
			return []probe.Result{here, state, own}
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
	return append([]probe.Result{here, state, own}, poolResults(rt.Pools())...)
}

// placeResult says what kind of host this is, and what is wrong with the current directory as a
// codebase.
func placeResult() probe.Result {
	this := cause.This()
	r := probe.Result{Feature: "host", OK: true, Found: this.String()}
	if dir, err := os.Getwd(); err == nil {
		r.Warn(&cause.Facts{Host: this, Symptom: cause.Codebase, Dir: dir})
	}
	return r
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
