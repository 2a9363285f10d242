package main

import (
	"fmt"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// version is set by the linker; see the Makefile.
var version = "dev"

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		RunE:  func(*cobra.Command, []string) error { return a.printVersion() },
	}
}

// addVersion gives a command --version.
func (a *app) addVersion(root *cobra.Command) {
	run, asked := root.RunE, false
	root.Flags().BoolVarP(&asked, "version", "v", false, "print the version")
	root.RunE = func(cmd *cobra.Command, args []string) error {
		if asked {
			return a.printVersion()
		}
		return run(cmd, args)
	}
}

func (a *app) printVersion() error {
	goVersion := ""
	if info, ok := debug.ReadBuildInfo(); ok {
		goVersion = " " + info.GoVersion
	}
	_, err := fmt.Fprintf(a.out, "wolffia %s%s\n", version, goVersion)
	return err
}
