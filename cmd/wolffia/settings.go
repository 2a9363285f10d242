package main

import (
	"github.com/spf13/cobra"

	"wolffia/fields"
)

// addFields gives a command the flags that the table of settings has for it, and returns their values, which are set
// when the flags are parsed.
func (a *app) addFields(cmd *cobra.Command, is fields.Command) fields.Values {
	fl, values := cmd.Flags(), fields.Values{}
	for _, f := range fields.Of(is) {
		if f.Name == flagQuiet {
			a.addQuiet(cmd)
			continue
		}
		to := f.New()
		values[f.Name] = to
		switch to := to.(type) {
		case *string:
			fl.StringVarP(to, f.Name, f.Letter, *to, f.Help)
		case *int64:
			fl.Int64VarP(to, f.Name, f.Letter, *to, f.Help)
		case *float64:
			fl.Float64VarP(to, f.Name, f.Letter, *to, f.Help)
		case *bool:
			fl.BoolVarP(to, f.Name, f.Letter, false, f.Help)
		case *[]string:
			if f.Commas {
				fl.StringSliceVarP(to, f.Name, f.Letter, nil, f.Help)
			} else {
				fl.StringArrayVarP(to, f.Name, f.Letter, nil, f.Help)
			}
		}
		if f.Hidden&is != 0 {
			_ = fl.MarkHidden(f.Name) // the flag exists
		}
	}
	return values
}
