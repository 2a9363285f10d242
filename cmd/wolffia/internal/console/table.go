package console

import (
	"fmt"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"wolffia/fields"
)

// A Format is how a command prints what it lists; the zero format is a table.
type Format struct{ JSON, Quiet bool }

// Flags gives a command the flag --json and, if what it lists has ids, --quiet. ids is their noun.
func (f *Format) Flags(cmd *cobra.Command, ids string) {
	cmd.Flags().BoolVar(&f.JSON, "json", false, "print an array of JSON objects")
	if ids != "" {
		cmd.Flags().BoolVarP(&f.Quiet, "quiet", "q", false, "print "+ids+" only")
	}
}

// A Table is how a person sees a list. What is in a row must be printable; a line end or a tab
// there is escaped.
type Table[T any] struct {
	Head string // separated by tabs; empty: none
	Row  func(T) []any
	IDs  string // the noun for ids; empty: it has none
	ID   func(T) string
}

// inCell escapes what would end a cell, or its row.
var inCell = strings.NewReplacer("\n", `\n`, "\t", `\t`)

// Print prints a list in a format.
func (t *Table[T]) Print(c *Console, f Format, all []T) error {
	switch {
	case f.JSON:
		return c.PrintJSON(all)
	case f.Quiet:
		for _, x := range all {
			fmt.Fprintln(c.Out, t.ID(x))
		}
		return nil
	}
	w := tabwriter.NewWriter(c.Out, 0, 0, 3, ' ', 0)
	if t.Head != "" {
		fmt.Fprintln(w, t.Head)
	}
	for _, x := range all {
		cells := t.Row(x)
		for i, cell := range cells {
			cells[i] = inCell.Replace(fmt.Sprint(cell))
		}
		fmt.Fprintf(w, strings.Repeat("%v\t", len(cells)-1)+"%v\n", cells...)
	}
	return w.Flush()
}

// FlagQuiet is the name of the flag that AddQuiet adds.
const FlagQuiet = "quiet"

// AddQuiet gives a command the flag --quiet. It holds from when it is read on, also for what
// is done before the command runs.
func (c *Console) AddQuiet(cmd *cobra.Command) {
	cmd.Flags().VarPF(quietValue{c}, FlagQuiet, "q", fields.Find(fields.Run, FlagQuiet).Help).NoOptDefVal = "true"
}

// A quietValue is the flag's value. Unlike that of a BoolVar, it leaves the console alone until it
// is set: configuration files have commands made of which only the flags' names are used.
type quietValue struct{ c *Console }

func (v quietValue) String() string { return strconv.FormatBool(v.c.Quiet) }
func (v quietValue) Type() string   { return "bool" }

// Set implements pflag.Value.
func (v quietValue) Set(s string) (err error) {
	v.c.Quiet, err = strconv.ParseBool(s)
	return err
}
