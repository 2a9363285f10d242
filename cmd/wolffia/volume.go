package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	units "github.com/docker/go-units"
	"github.com/spf13/cobra"

	"wolffia/cmd/wolffia/internal/complete"
	"wolffia/cmd/wolffia/internal/console"
	"wolffia/cmd/wolffia/internal/host"
	"wolffia/cmd/wolffia/internal/sandboxflags"
	"wolffia/local"
	"wolffia/runtime"
	"wolffia/volume"
)

func volumeCommand(h *host.Host) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "volume",
		Short: "List and remove directories that outlive sandboxes",
		Long: `List and remove directories that outlive sandboxes: the volumes that --cache,
--volume and --home of run, create and shell make.

What is in a volume was written by sandboxes: do not use it outside.`,
	}
	cmd.AddCommand(volumeListCommand(h), volumeInspectCommand(h), volumeRemoveCommand(h), volumePruneCommand(h))
	return cmd
}

// A volumeListing is what --json prints of a volume.
type volumeListing struct {
	Name      string   `json:"name"`
	Kind      string   `json:"kind,omitempty"` // volume, cache, home
	Cache     string   `json:"cache,omitempty"`
	Codebase  string   `json:"codebase,omitempty"`
	UID       int      `json:"uid"`
	Size      int64    `json:"size"` // bytes on the disk
	Files     int      `json:"files"`
	More      bool     `json:"more,omitempty"` // size and files are of a part
	CreatedAt int64    `json:"createdAt"`      // ms since 1970
	UsedAt    int64    `json:"usedAt"`         // ms since 1970
	Sandboxes []string `json:"sandboxes"`
	Data      string   `json:"data"` // the path on the host
	Problem   string   `json:"problem,omitempty"`
}

func volumeListingOf(s *volume.Store, e *volume.Entry) volumeListing {
	l := volumeListing{
		Name: e.Name, Kind: e.Kind(), Cache: e.Cache, Codebase: e.Codebase, UID: e.UID, CreatedAt: e.CreatedAt,
		UsedAt: e.UsedAt.UnixMilli(), Sandboxes: e.Sandboxes, Data: s.Data(e.Name), Problem: e.Problem,
	}
	if l.Sandboxes == nil {
		l.Sandboxes = []string{}
	}
	if l.Problem != "" {
		l.Kind = ""
	}
	usage, err := s.Usage(e.Name)
	if err != nil {
		if l.Problem == "" {
			l.Problem = err.Error()
		}
		return l
	}
	l.Size, l.Files, l.More = usage.Bytes, usage.Files, usage.More
	return l
}

// size is how much is in a volume, for a person.
func (l *volumeListing) size() string {
	return map[bool]string{true: ">"}[l.More] + units.BytesSize(float64(l.Size))
}

func volumeListCommand(h *host.Host) *cobra.Command {
	cmd := &cobra.Command{Use: "ls", Aliases: []string{"list"}, Short: "List the volumes", Args: cobra.NoArgs}
	return host.List(h, cmd, &console.Table[volumeListing]{
		Head: "NAME\tKIND\tSIZE\tUSED\tSANDBOXES\tCODEBASE",
		Row: func(l volumeListing) []any {
			return []any{
				l.Name, console.Dash(l.Kind), l.size(), console.Age(time.UnixMilli(l.UsedAt)) + " ago",
				console.Dash(console.Printable(strings.Join(l.Sandboxes, " "))),
				console.Dash(console.Printable(cmp.Or(l.Problem, l.Codebase))),
			}
		},
		IDs: "names", ID: func(l volumeListing) string { return l.Name },
	}, func(_ context.Context, rt *local.Runtime, _ []string) ([]volumeListing, error) {
		s := volume.Open(rt.StateDir())
		all, err := s.List()
		return host.Partly(h, host.Mapped(all, func(e *volume.Entry) volumeListing { return volumeListingOf(s, e) }), err)
	})
}

func volumeInspectCommand(h *host.Host) *cobra.Command {
	return &cobra.Command{
		Use:               "inspect VOLUME...",
		Short:             "Print all that is known of volumes, as JSON",
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: complete.New(h).Volumes,
		RunE: h.Over(func(_ context.Context, rt *local.Runtime, args []string) error {
			s := volume.Open(rt.StateDir())
			var all []volumeListing
			var unknown error // which sandboxes have them
			for _, name := range args {
				e, err := s.Get(name)
				if e == nil {
					return err
				}
				if all = append(all, volumeListingOf(s, e)); err != nil {
					unknown = err
				}
			}
			if unknown != nil {
				h.Warn("%v", unknown)
			}
			return h.PrintJSON(all)
		}),
	}
}

func volumeRemoveCommand(h *host.Host) *cobra.Command {
	return &cobra.Command{
		Use:               "rm VOLUME...",
		Short:             "Delete volumes with what is in them",
		Long:              `Delete volumes with what is in them. One that a sandbox has, also a stopped one, is not deleted.`,
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: complete.New(h).Volumes,
		RunE: h.Over(func(ctx context.Context, rt *local.Runtime, args []string) error {
			s := volume.Open(rt.StateDir())
			return errors.Join(host.Mapped(args, func(name string) error { return s.Remove(ctx, name) })...)
		}),
	}
}

func volumePruneCommand(h *host.Host) *cobra.Command {
	var o volume.PruneOptions
	var older, size string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "prune [--all] [--older D] [--size S] [--dry-run]",
		Short: "Delete volumes of no use",
		Long: `Delete the volumes that no sandbox has and whose codebase no longer exists; with
--older D also caches that no sandbox was made or started with for so long; with --all
all that no sandbox has, homes and named ones too. With --size S it deletes only the
automatic caches that were not used for the longest time, until those that are left
have at most that size; each hour of use does so with 10g. Prints what was deleted.`,
		Args: cobra.NoArgs,
		RunE: h.Over(func(ctx context.Context, rt *local.Runtime, _ []string) error {
			if older != "" {
				d, err := sandboxflags.ParseLifetime("older", older)
				if err != nil {
					return err
				}
				if o.Older = d; d <= 0 {
					return runtime.Errorf(runtime.ErrInvalid, "--older %q: it must be more than 0; --all deletes all", older)
				}
			}
			if size != "" {
				n, err := sandboxflags.ParseSize("size", size)
				if err != nil {
					return err
				}
				if o.Size = n; n <= 0 || o.All || older != "" {
					return runtime.Errorf(runtime.ErrInvalid, "--size %q: more than 0, without --all and --older", size)
				}
			}
			deleted, err := volume.Open(rt.StateDir()).Prune(ctx, &o)
			names := host.Mapped(deleted, func(e *volume.Entry) string { return e.Name })
			if asJSON {
				return errors.Join(h.PrintJSON(names), err)
			}
			for _, name := range names {
				fmt.Fprintln(h.Out, name)
			}
			return err
		}),
	}
	cmd.Flags().BoolVar(&o.All, "all", false, "all that no sandbox has")
	cmd.Flags().StringVar(&older, "older", "", "also caches that were not used for this long, such as 12h or 30d")
	cmd.Flags().StringVar(&size, "size", "", "instead automatic caches, the longest unused first, until the rest has at most this size")
	cmd.Flags().BoolVar(&o.DryRun, "dry-run", false, "delete nothing: print what would be deleted")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print an array of names")
	return cmd
}
