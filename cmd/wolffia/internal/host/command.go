package host

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"wolffia/cmd/wolffia/internal/console"
	"wolffia/local"
)

// Over returns what runs a command that does something with the default runtime.
func (h *Host) Over(do func(ctx context.Context, rt *local.Runtime, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		rt, err := h.Open("")
		if err != nil {
			return err
		}
		return do(cmd.Context(), rt, args)
	}
}

// List has a command print what get returns.
func List[T any](
	h *Host, cmd *cobra.Command, t *console.Table[T], get func(context.Context, *local.Runtime, []string) ([]T, error),
) *cobra.Command {
	var f console.Format
	f.Flags(cmd, t.IDs)
	cmd.RunE = h.Over(func(ctx context.Context, rt *local.Runtime, args []string) error {
		all, err := get(ctx, rt, args)
		if err != nil {
			return err
		}
		return t.Print(h.Console, f, append([]T{}, all...)) // JSON has [] for nothing
	})
	return cmd
}

// Partly makes a warning of the error that came with some elements of a list.
func Partly[T any](h *Host, all []T, err error) ([]T, error) {
	if len(all) > 0 && err != nil {
		h.Warn("%v", err)
		err = nil
	}
	return all, err
}

// Each returns what runs a command that does the same with every named sandbox, also after an
// error.
func (h *Host) Each(do func(ctx context.Context, rt *local.Runtime, ref string) error) func(*cobra.Command, []string) error {
	return h.Over(func(ctx context.Context, rt *local.Runtime, refs []string) error {
		return errors.Join(Mapped(refs, func(ref string) error { return do(ctx, rt, ref) })...)
	})
}

// Mapped returns what of makes of each element.
func Mapped[T, U any](all []T, of func(T) U) []U {
	out := make([]U, len(all))
	for i, x := range all {
		out[i] = of(x)
	}
	return out
}
