package console

import (
	"fmt"
	"io"
	"strconv"
	"strings"

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
	// Shown returns what is printed of a list, unless as JSON, and a line about the rest; nil: all
	Shown func([]T) ([]T, string)
	Kept  int  // how many columns a narrow terminal does not cut; 0: the first one
	Wrap  bool // a narrow terminal cuts nothing: long cells go on below
}

// inCell escapes what would end a cell, or its row.
var inCell = strings.NewReplacer("\n", `\n`, "\t", `\t`)

// Print prints a list in a format.
func (t *Table[T]) Print(c *Console, f Format, all []T) error {
	if f.JSON {
		return c.PrintJSON(all)
	}
	var rest string
	if t.Shown != nil {
		all, rest = t.Shown(all)
	}
	if f.Quiet {
		for _, x := range all {
			fmt.Fprintln(c.Out, t.ID(x))
		}
		return nil
	}
	var rows [][]string
	if t.Head != "" {
		rows = append(rows, strings.Split(t.Head, "\t"))
	}
	heads := len(rows)
	for _, x := range all {
		var cells []string
		for _, cell := range t.Row(x) {
			cells = append(cells, inCell.Replace(fmt.Sprint(cell)))
		}
		rows = append(rows, cells)
	}
	colors := c.Colors(c.Out)
	lines := layOut(rows, max(1, t.Kept), t.Wrap, c.Out.Width(), func(row int, cell string) string {
		switch {
		case !colors:
			return cell
		case row < heads:
			return Bold.Paint(cell)
		}
		return ofWord[cell].Paint(cell)
	})
	_, err := io.WriteString(c.Out, strings.Join(append(lines, ""), "\n"))
	c.Notes(rest)
	return err
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
