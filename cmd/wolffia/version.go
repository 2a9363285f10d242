package main

import (
	"fmt"
	"runtime/debug"

	"wolffia/cmd/wolffia/internal/host"

	"github.com/spf13/cobra"
)

// version is set by the linker; see the Makefile.
var version = "dev"

func versionCommand(h *host.Host) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		RunE:  func(*cobra.Command, []string) error { return printVersion(h) },
	}
}

// addVersion gives a command --version.
func addVersion(h *host.Host, root *cobra.Command) {
	run, asked := root.RunE, false
	root.Flags().BoolVarP(&asked, "version", "v", false, "print the version")
	root.RunE = func(cmd *cobra.Command, args []string) error {
		if asked {
			return printVersion(h)
		}
		return run(cmd, args)
	}
}

func printVersion(h *host.Host) error {
	goVersion := ""
	if info, ok := debug.ReadBuildInfo(); ok {
		goVersion = " " + info.GoVersion
	}
	_, err := fmt.Fprintf(h.Out, "wolffia %s%s\n", version, goVersion)
	return err
}
