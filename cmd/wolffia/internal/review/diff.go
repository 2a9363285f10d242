package review

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"wolffia/cmd/wolffia/internal/console"
	"wolffia/cmd/wolffia/internal/host"
	"wolffia/internal/sys/hostpath"
	"wolffia/runtime"
)

// diffFlags are the flags of diff.
type diffFlags struct {
	stat, names, asJSON, status, noPager bool
}

// DiffCommand returns the command diff.
func DiffCommand(h *host.Host) *cobra.Command {
	var f diffFlags
	cmd := &cobra.Command{
		Use:   "diff [flags] SANDBOX [PATH...]",
		Short: "Show what a sandbox with --cow has changed, against what the host has now",
		Long: `Show what a sandbox with --cow has changed, against what the host has now. Paths begin
at the top of the codebase. The sandbox may run. Git's own files are left out: the
commits of a sandbox come out with wolffia apply --git.

The letters of --name-status are git's: A added, M modified, D deleted, R renamed, T of
another type, and m for permissions.`,
		Example: `  wolffia diff box
  wolffia diff box src/ | git apply --check
  wolffia diff --stat box`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			rt, s, paths, err := copiedSandbox(cmd.Context(), h, args)
			if err != nil {
				return err
			}
			return New(h, rt).diff(cmd.Context(), s.ID, paths, &f)
		},
	}
	fl := cmd.Flags()
	fl.BoolVar(&f.stat, "stat", false, "print how many lines each file has more and less")
	fl.BoolVar(&f.names, "name-status", false, "print a letter and the name of each change, and what keeps it from being applied")
	fl.BoolVar(&f.asJSON, "json", false, "print an array of JSON objects")
	fl.BoolVar(&f.status, "exit-code", false, "exit with 1 if there are changes")
	fl.BoolVar(&f.noPager, "no-pager", false, "do not start a pager at a terminal ($PAGER, or less)")
	cmd.MarkFlagsMutuallyExclusive("stat", "name-status", "json")
	return cmd
}

// diff prints the changes of a sandbox.
func (rv *Reviewer) diff(ctx context.Context, id string, paths []string, f *diffFlags) error {
	text := !f.stat && !f.names && !f.asJSON
	if text && !f.status && !rv.Out.IsTerminal() { // the list is not needed
		return rv.printDiff(ctx, id, paths, f)
	}
	changes, err := rv.rt.Changes(ctx, id, runtime.ChangesOptions{Paths: paths, Lines: f.stat || f.asJSON})
	if err != nil {
		return err
	}
	shown, _ := WithoutGit(changes)
	switch {
	case f.asJSON:
		if shown == nil {
			shown = []runtime.Change{}
		}
		err = rv.PrintJSON(shown)
	case f.names:
		w := bufio.NewWriter(rv.Out)
		printNames(w, shown)
		err = w.Flush()
	case len(shown) == 0:
	case f.stat:
		err = rv.printStat(shown)
	default:
		err = rv.printDiff(ctx, id, paths, f)
	}
	if err == nil && f.status && len(shown) > 0 {
		return console.ExitStatus(1)
	}
	return err
}

// printStat prints the lines that each change adds and takes away.
func (rv *Reviewer) printStat(all []runtime.Change) error {
	w := bufio.NewWriter(rv.Out)
	added, deleted, width := 0, 0, 0
	for i := range all {
		width = max(width, len(shownPath(&all[i])))
	}
	for i := range all {
		c := &all[i]
		what := fmt.Sprintf("+%d -%d", c.Added, c.Deleted)
		switch {
		case c.Binary:
			what = fmt.Sprintf("binary, %d bytes", c.Size)
		case c.Added+c.Deleted == 0:
			what = kindText[c.Kind]
		}
		fmt.Fprintf(w, " %s %-*s | %s\n", letters[c.Kind], width, shownPath(c), what)
		added, deleted = added+c.Added, deleted+c.Deleted
	}
	fmt.Fprintf(w, " %s, +%d -%d lines\n", countText(all), added, deleted)
	return w.Flush()
}

// printDiff prints a unified diff: for programs as it is, at a terminal in color, in a pager, and
// without what a terminal would obey.
func (rv *Reviewer) printDiff(ctx context.Context, id string, paths []string, f *diffFlags) (err error) {
	terminal := rv.Out.IsTerminal()
	o := runtime.DiffOptions{Paths: paths}
	colors := rv.Colors(rv.Out)
	if !terminal && !colors {
		w := bufio.NewWriter(rv.Out)
		return errors.Join(rv.rt.Diff(ctx, id, o, w), w.Flush())
	}
	to := io.Writer(rv.Out)
	if terminal && !f.noPager {
		pager, err := startPager(ctx, rv.Out.File)
		if err != nil {
			rv.Warn("%s", console.Printable(err.Error()))
		} else if pager != nil {
			defer func() { err = errors.Join(err, pager.close()) }()
			to = pager.in
		}
	}
	w := &diffWriter{w: bufio.NewWriter(to), color: colors}
	if err = errors.Join(rv.rt.Diff(ctx, id, o, w), w.flush()); errors.Is(err, syscall.EPIPE) {
		err = nil // the pager was left
	}
	return err
}

// A pager is a program that shows what is written to it.
type pager struct {
	cmd *exec.Cmd
	in  io.WriteCloser
}

// startPager starts the user's pager. It returns nil if the user has none, or cat.
func startPager(ctx context.Context, out *os.File) (*pager, error) {
	text, set := os.LookupEnv("PAGER")
	if !set {
		text = "less"
	}
	words := strings.Fields(text)
	if len(words) == 0 || words[0] == "cat" {
		return nil, nil
	}
	program := words[0]
	if !strings.Contains(program, "/") {
		program, _ = hostpath.Look(program)
	}
	cmd := exec.CommandContext(ctx, program, words[1:]...)
	if _, own := os.LookupEnv("LESS"); !own {
		cmd.Env = append(os.Environ(), "LESS=FRX")
	}
	cmd.Stdout, cmd.Stderr = out, os.Stderr
	in, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if errors.Is(err, exec.ErrNotFound) && !set {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("pager %q: %w", text, err)
	}
	return &pager{cmd, in}, nil
}

// close waits until the user has left the pager.
func (p *pager) close() error {
	return errors.Join(p.in.Close(), p.cmd.Wait())
}

// A diffWriter writes a unified diff for a terminal: in color, and with control characters of the
// content escaped.
type diffWriter struct {
	w     *bufio.Writer
	color bool
	line  []byte // not yet ended
}

// maxDiffLine bounds a line, in bytes, that is not yet ended; what is longer is broken.
const maxDiffLine = 1 << 20

func (d *diffWriter) Write(b []byte) (int, error) {
	n := len(b)
	for len(b) > 0 {
		line, rest, ended := bytes.Cut(b, []byte{'\n'})
		d.line = append(d.line, line...)
		b = rest
		if !ended && len(d.line) < maxDiffLine {
			break
		}
		if err := d.end(); err != nil {
			return 0, err
		}
	}
	return n, nil
}

// end writes the line.
func (d *diffWriter) end() error {
	text := console.Printable(string(d.line))
	if d.color {
		text = diffColor(d.line).Paint(text)
	}
	d.line = d.line[:0]
	_, err := d.w.WriteString(text + "\n")
	return err
}

func (d *diffWriter) flush() error {
	if len(d.line) > 0 {
		if err := d.end(); err != nil {
			return err
		}
	}
	return d.w.Flush()
}

// diffColor returns the color of a line of a unified diff.
func diffColor(line []byte) console.Color {
	begins := func(s string) bool { return bytes.HasPrefix(line, []byte(s)) }
	switch {
	case begins("diff "), begins("--- "), begins("+++ "), begins("index "), begins("new file "), begins("deleted file "),
		begins("old mode "), begins("new mode "), begins("rename "), begins("similarity "):
		return console.Bold
	case begins("@@"):
		return console.Cyan
	case begins("+"):
		return console.Green
	case begins("-"):
		return console.Red
	}
	return console.Plain
}
