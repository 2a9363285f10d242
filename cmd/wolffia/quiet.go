package main

import (
	"strconv"

	"github.com/spf13/cobra"

	"wolffia/fields"
)

const flagQuiet = "quiet"

// addQuiet gives a command the flag --quiet. It holds from when it is read on, also for what
// is done before the command runs.
func (a *app) addQuiet(cmd *cobra.Command) {
	cmd.Flags().VarPF(quietValue{a}, flagQuiet, "q", fields.Find(fields.Run, flagQuiet).Help).NoOptDefVal = "true"
}

// A quietValue is the flag's value. Unlike that of a BoolVar, it leaves the app alone until it
// is set: configuration files have commands made of which only the flags' names are used.
type quietValue struct{ a *app }

func (v quietValue) String() string { return strconv.FormatBool(v.a.quiet) }
func (v quietValue) Type() string   { return "bool" }

// Set implements pflag.Value.
func (v quietValue) Set(s string) (err error) {
	v.a.quiet, err = strconv.ParseBool(s)
	return err
}
