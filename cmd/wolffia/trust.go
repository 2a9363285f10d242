package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"wolffia/cmd/wolffia/internal/console"
	"wolffia/cmd/wolffia/internal/host"
	"wolffia/cmd/wolffia/internal/sandboxflags"
	"wolffia/internal/config"
	"wolffia/internal/host/statedir"
	"wolffia/runtime"
)

func trustCommand(h *host.Host) *cobra.Command {
	var yes, list bool
	var f console.Format
	cmd := &cobra.Command{
		Use:   "trust [DIR]",
		Short: "Read a project's configuration file, and let it count",
		Long: `Print the configuration file (.wolffia.yaml) of DIR, by default the project
around the current directory, ask, and remember its content as trusted. A file that
changes is not trusted any more. A trusted file cannot loosen what your own
configuration file sets.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if list {
				return listTrusted(h, f)
			}
			return trust(cmd.Context(), h, projectOf(args), yes)
		},
	}
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	cmd.Flags().BoolVar(&list, "list", false, "list what is trusted")
	f.Flags(cmd, "")
	return cmd
}

// trust shows the file of a project, asks, and records that it is trusted. The bytes that
// are shown are those whose checksum is recorded.
func trust(ctx context.Context, h *host.Host, dir string, yes bool) error {
	name := filepath.Join(dir, config.ProjectName)
	data, err := config.ReadProject(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return runtime.Errorf(runtime.ErrNotFound, "%s: no such file: wolffia init writes one", name)
	}
	if err != nil {
		return runtime.Errorf(runtime.ErrInvalid, "%s: %w", name, err)
	}
	path, sum, err := sandboxflags.Identify(dir, data)
	if err != nil {
		return err
	}
	request, err := sandboxflags.CheckProject(h, name, path, data)
	if err != nil {
		return runtime.WithClass(runtime.ErrInvalid, err)
	}
	for line := range strings.Lines(string(data)) {
		fmt.Fprintf(h.Out, "  %s\n", console.Printable(strings.TrimRight(line, "\r\n")))
	}
	for _, s := range config.Widens(request) {
		fmt.Fprintf(h.Out, "%s: gives more than sandboxes have by default: %s: %s\n",
			console.Printable(s.Source.String()), s.Key, console.Printable(strings.Join(s.Values, " ")))
	}
	if !yes {
		if err := h.Confirm(ctx, fmt.Sprintf("Trust %s? [y/N] ", console.Printable(filepath.Join(path, config.ProjectName)))); err != nil {
			return err
		}
	}
	return recordTrust(h, path, sum)
}

// recordTrust has a project's file count as long as it has this content.
func recordTrust(h *host.Host, path, sum string) error {
	state, err := h.OpenState()
	if err != nil {
		return err
	}
	return state.Trust(&statedir.Trust{Path: path, SHA256: sum, TrustedAt: time.Now().UnixMilli()})
}

func listTrusted(h *host.Host, f console.Format) error {
	state, err := h.OpenState()
	if err != nil {
		return err
	}
	records, err := state.Trusts()
	if err != nil {
		return err
	}
	type trusted struct {
		statedir.Trust
		State string `json:"state"` // of the file: trusted, changed, missing, unreadable
	}
	all := []trusted{}
	for _, r := range records {
		all = append(all, trusted{r, stateOfFile(&r)})
	}
	t := console.Table[trusted]{Head: "DIRECTORY\tFILE\tTRUSTED", Row: func(t trusted) []any {
		return []any{console.Printable(t.Path), t.State, console.Since(time.UnixMilli(t.TrustedAt))}
	}}
	return t.Print(h.Console, f, all)
}

// stateOfFile compares a record with the file that exists now.
func stateOfFile(r *statedir.Trust) string {
	data, err := config.ReadProject(r.Path)
	_, sum, identifyErr := sandboxflags.Identify(r.Path, data)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "missing"
	case err != nil || identifyErr != nil:
		return "unreadable"
	case sum != r.SHA256:
		return "changed"
	}
	return "trusted"
}

func untrustCommand(h *host.Host) *cobra.Command {
	return &cobra.Command{
		Use:   "untrust [DIR]",
		Short: "Do not trust a project's configuration file any more",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			dir, err := filepath.Abs(projectOf(args))
			if err != nil {
				return err
			}
			if real, err := filepath.EvalSymlinks(dir); err == nil { // an error: the directory does not exist
				dir = real
			}
			state, err := h.OpenState()
			if err != nil {
				return err
			}
			return state.Distrust(dir)
		},
	}
}
