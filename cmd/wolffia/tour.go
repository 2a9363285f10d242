package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"wolffia/cmd/wolffia/internal/console"
	"wolffia/cmd/wolffia/internal/host"
	"wolffia/internal/shellword"
)

func tourCommand(h *host.Host) *cobra.Command {
	return &cobra.Command{
		Use:   "tour",
		Short: "Show on a small project what a sandbox does",
		Long: `Show on a small project in a temporary directory what a sandbox does: a hidden secret
stays hidden, an edit goes through, the exit code is kept. It leaves nothing behind.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return tour(cmd.Context(), h) },
	}
}

const (
	tourSecret = ".env"
	tourNote   = "note.txt"
	tourToken  = "do-not-show-this"
)

// tour runs this program's own commands, as a user would.
func tour(ctx context.Context, h *host.Host) (err error) {
	dir, err := os.MkdirTemp("", "wolffia-tour-")
	if err != nil {
		return err
	}
	defer func() {
		for _, name := range []string{tourSecret, tourNote, ""} {
			if left := os.Remove(filepath.Join(dir, name)); !errors.Is(left, fs.ErrNotExist) {
				err = errors.Join(err, left)
			}
		}
	}()
	if err := os.WriteFile(filepath.Join(dir, tourSecret), []byte("TOKEN="+tourToken+"\n"), 0o600); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	step := func(text string) { fmt.Fprintln(h.Out, "\n"+h.Paint(console.Bold, text)) }
	wolffia := func(args ...string) (out string, code int, err error) {
		if h.StateDir != "" {
			args = append([]string{"--state-dir", h.StateDir}, args...)
		}
		cmd := exec.CommandContext(ctx, self, args...)
		cmd.Dir, cmd.Stderr = dir, h.Err.File
		b, err := cmd.Output()
		if errors.As(err, new(*exec.ExitError)) {
			err = nil
		}
		return string(b), cmd.ProcessState.ExitCode(), err
	}
	run := func(command string) (string, int, error) {
		step("$ wolffia run -- sh -c " + shellword.Quote(command))
		out, code, err := wolffia("run", "--no-config", "--codebase", dir, "--", "sh", "-c", command)
		fmt.Fprint(h.Out, console.Printable(out))
		if err == nil && code == console.ExitFailed {
			fmt.Fprintln(h.Err, "wolffia itself failed (exit code 125): the line above says why.",
				"This is what wolffia doctor says of this host:")
			said, _, _ := wolffia("doctor")
			fmt.Fprint(h.Err, said)
			err = console.ExitStatus(code)
		}
		return out, code, err
	}
	step("A project has a secret in " + tourSecret + ". A sandbox does not:")
	seen, code, err := run("ls -A; cat " + tourSecret + "; echo edited >" + tourNote + "; exit 7")
	if err != nil {
		return err
	}
	step("Afterwards, outside:")
	fmt.Fprintf(h.Out, "exit code %d (the command's own)\n", code)
	note, err := os.ReadFile(filepath.Join(dir, tourNote))
	fmt.Fprintf(h.Out, "%s says: %s", tourNote, note)
	if err != nil || code != 7 || string(note) != "edited\n" || strings.Contains(seen, tourToken) {
		return errors.Join(errors.New("that is not what should happen: see wolffia doctor"), err)
	}
	step("The secret was not there, the edit went through, the exit code was kept.")
	fmt.Fprintln(h.Out, "Next: wolffia run -- COMMAND in your project, wolffia help getting-started,\nwolffia --help.")
	return nil
}
