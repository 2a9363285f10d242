package main

import (
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
)

// A format is how a command prints what it lists; the zero format is a table.
type format struct{ json, quiet bool }

func (f *format) flags(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&f.json, "json", false, "print an array of JSON objects")
}

// flagsWithIDs is flags for what has ids.
func (f *format) flagsWithIDs(cmd *cobra.Command) {
	f.flags(cmd)
	cmd.Flags().BoolVarP(&f.quiet, "quiet", "q", false, "print ids only")
}

// A table is how a person sees a list. What is in a row must be printable; a line end or a tab there is escaped.
type table[T any] struct {
	head string // separated by tabs; empty: none
	row  func(T) []any
	id   func(T) string // for a format that has ids; else nil
}

// inCell escapes what would end a cell, or its row.
var inCell = strings.NewReplacer("\n", `\n`, "\t", `\t`)

// print prints a list in a format.
func (t *table[T]) print(a *app, f format, all []T) error {
	switch {
	case f.json:
		return a.printJSON(all)
	case f.quiet:
		for _, x := range all {
			fmt.Fprintln(a.out, t.id(x))
		}
		return nil
	}
	w := tabwriter.NewWriter(a.out, 0, 0, 3, ' ', 0)
	if t.head != "" {
		fmt.Fprintln(w, t.head)
	}
	for _, x := range all {
		cells := t.row(x)
		for i, c := range cells {
			cells[i] = inCell.Replace(fmt.Sprint(c))
		}
		fmt.Fprintf(w, strings.Repeat("%v\t", len(cells)-1)+"%v\n", cells...)
	}
	return w.Flush()
}
