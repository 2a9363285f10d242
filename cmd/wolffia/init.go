package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"wolffia/cmd/wolffia/internal/console"
	"wolffia/cmd/wolffia/internal/host"
	"wolffia/cmd/wolffia/internal/hostdir"
	"wolffia/cmd/wolffia/internal/sandboxflags"
	"wolffia/internal/config"
	"wolffia/runtime"
)

func initCommand(h *host.Host) *cobra.Command {
	var force bool
	cmd := &cobra.Command{
		Use:   "init [DIR]",
		Short: "Write a configuration file for a project",
		Long: `Write a configuration file (.wolffia.yaml) for the project in DIR, by default the one
around the current directory, from what is found there, and trust it. Once it is
changed, it counts after wolffia trust.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			dir := projectOf(args)
			text := config.Propose(func(name string) bool {
				_, err := os.Lstat(filepath.Join(dir, name))
				return err == nil
			})
			path := filepath.Join(dir, config.ProjectName)
			if err := writeNew(path, text, force); err != nil {
				return err
			}
			// Its author is who runs this, and the checksum is that of what was written.
			of, sum, err := sandboxflags.Identify(dir, []byte(text))
			if err == nil {
				err = recordTrust(h, of, sum)
			}
			if err != nil {
				return err
			}
			h.Say(console.Printable(path) + " is written and trusted; after a change: wolffia trust")
			return nil
		},
	}
	cmd.Flags().BoolVar(&force, "force", false, "replace a file that exists")
	cmd.AddCommand(initMCPCommand(h))
	return cmd
}

// projectOf returns the directory that args name; without one the project's.
func projectOf(args []string) string {
	if len(args) > 0 {
		return args[0]
	}
	dir, _ := hostdir.Project()
	return dir
}

// writeNew writes a file that does not exist, or replaces it if replace is set. It follows
// no link.
func writeNew(path, text string, replace bool) error {
	if replace {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return runtime.Errorf(runtime.ErrInvalid, "%s exists: edit it, or replace it with --force", path)
	}
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}
