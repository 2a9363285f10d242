package main

import (
	"errors"
	"fmt"
	"strings"
	"time"

	units "github.com/docker/go-units"
	"github.com/spf13/cobra"

	"wolffia/runtime"
	"wolffia/volume"
)

func (a *app) volumeCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "volume",
		Short: "List and remove directories that outlive sandboxes",
		Long: `List and remove directories that outlive sandboxes: the volumes that --cache,
--volume and --home of run, create and shell make.

What is in a volume was written by sandboxes: do not use it outside.`,
	}
	cmd.AddCommand(a.volumeListCommand(), a.volumeInspectCommand(), a.volumeRemoveCommand(), a.volumePruneCommand())
	return cmd
}

// volumes opens the volumes of the state directory.
func (a *app) volumes() (*volume.Store, error) {
	rt, err := a.open("")
	if err != nil {
		return nil, err
	}
	return volume.Open(rt.StateDir()), nil
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

func (a *app) volumeListCommand() *cobra.Command {
	var f format
	cmd := &cobra.Command{
		Use:     "ls",
		Aliases: []string{"list"},
		Short:   "List the volumes",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			s, err := a.volumes()
			if err != nil {
				return err
			}
			all, err := s.List()
			if err != nil {
				return err
			}
			listings := []volumeListing{}
			for _, e := range all {
				listings = append(listings, volumeListingOf(s, e))
			}
			t := table[volumeListing]{
				head: "NAME\tKIND\tSIZE\tUSED\tSANDBOXES\tCODEBASE",
				row: func(l volumeListing) []any {
					where := printable(l.Codebase)
					if l.Problem != "" {
						where = printable(l.Problem)
					}
					return []any{
						l.Name, dash(l.Kind), l.size(), age(time.UnixMilli(l.UsedAt)) + " ago",
						dash(printable(strings.Join(l.Sandboxes, " "))), dash(where),
					}
				},
				id: func(l volumeListing) string { return l.Name },
			}
			return t.print(a, f, listings)
		},
	}
	f.flags(cmd)
	cmd.Flags().BoolVarP(&f.quiet, "quiet", "q", false, "print names only")
	return cmd
}

func (a *app) volumeInspectCommand() *cobra.Command {
	return &cobra.Command{
		Use:               "inspect VOLUME...",
		Short:             "Print all that is known of volumes, as JSON",
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: a.completeVolumes,
		RunE: func(_ *cobra.Command, args []string) error {
			s, err := a.volumes()
			if err != nil {
				return err
			}
			var all []volumeListing
			for _, name := range args {
				e, err := s.Get(name)
				if err != nil {
					return err
				}
				all = append(all, volumeListingOf(s, e))
			}
			return a.printJSON(all)
		},
	}
}

func (a *app) volumeRemoveCommand() *cobra.Command {
	return &cobra.Command{
		Use:               "rm VOLUME...",
		Short:             "Delete volumes with what is in them",
		Long:              `Delete volumes with what is in them. One that a sandbox has, also a stopped one, is not deleted.`,
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: a.completeVolumes,
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := a.volumes()
			if err != nil {
				return err
			}
			var errs []error
			for _, name := range args {
				errs = append(errs, s.Remove(cmd.Context(), name))
			}
			return errors.Join(errs...)
		},
	}
}

func (a *app) volumePruneCommand() *cobra.Command {
	var o volume.PruneOptions
	var older string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "prune [--all] [--older D] [--dry-run]",
		Short: "Delete volumes of no use",
		Long: `Delete the volumes that no sandbox has and whose codebase no longer exists; with
--older D also caches that no sandbox was made or started with for so long; with --all
all that no sandbox has, homes and named ones too. Prints what was deleted.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if older != "" {
				d, err := parseLifetime("older", older)
				if err != nil {
					return err
				}
				if o.Older = d; d <= 0 {
					return runtime.Errorf(runtime.ErrInvalid, "--older %q: it must be more than 0; --all deletes all", older)
				}
			}
			s, err := a.volumes()
			if err != nil {
				return err
			}
			deleted, err := s.Prune(cmd.Context(), &o)
			names := []string{}
			for _, e := range deleted {
				names = append(names, e.Name)
			}
			if asJSON {
				return errors.Join(a.printJSON(names), err)
			}
			for _, name := range names {
				fmt.Fprintln(a.out, name)
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&o.All, "all", false, "all that no sandbox has")
	cmd.Flags().StringVar(&older, "older", "", "also caches that were not used for this long, such as 12h or 30d")
	cmd.Flags().BoolVar(&o.DryRun, "dry-run", false, "delete nothing: print what would be deleted")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print an array of names")
	return cmd
}
