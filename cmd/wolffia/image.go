package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	units "github.com/docker/go-units"
	"github.com/spf13/cobra"

	"wolffia/cmd/wolffia/internal/console"
	"wolffia/cmd/wolffia/internal/host"
	"wolffia/image/puller"
	"wolffia/image/store"
	"wolffia/local"
	"wolffia/runtime"
)

func imageCommand(h *host.Host) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "image",
		Short: "Pull, list, export, import and remove images to run on",
		Long: `Pull, list, export, import and remove images to run on. wolffia build makes one of a
Dockerfile, wolffia commit of a sandbox.

IMAGE is a name in a registry (busybox, busybox:1.36, ghcr.io/team/tool@sha256:...),
oci:DIR[:TAG] for an OCI image layout, or docker-archive:FILE for what docker save
has written. wolffia run --image IMAGE pulls what is not there by itself.`,
	}
	cmd.AddCommand(imagePullCommand(h), imageListCommand(h), imageRemoveCommand(h), imagePruneCommand(h),
		imageTagCommand(h), imageExportCommand(h), imageImportCommand(h))
	return cmd
}

func imagePullCommand(h *host.Host) *cobra.Command {
	var maxSize string
	cmd := &cobra.Command{
		Use:   "pull [flags] IMAGE...",
		Short: "Get images, as they are now, and print their ids",
		Long: `Get images for this architecture, as they are now, and print their ids. What is there
already is not read again. Credentials are those of docker login
(~/.docker/config.json). A registry must have TLS, unless it is on this host's
loopback.`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			var size int64
			if maxSize != "" {
				var err error
				if size, err = units.RAMInBytes(maxSize); err != nil || size <= 0 {
					return runtime.Errorf(runtime.ErrInvalid, "--max-size %q: it must be a size such as 512m or 2g", maxSize)
				}
			}
			for _, name := range args {
				id, err := h.Pull(cmd.Context(), &puller.Request{Name: name, MaxSize: size})
				if err != nil {
					return err
				}
				fmt.Fprintln(h.Out, id)
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&maxSize, "max-size", "", "how large an image may be, unpacked, such as 512m or 2g (default 64g)")
	return cmd
}

// An imageListing is what --json prints of an image.
type imageListing struct {
	ID        string       `json:"id"`
	Names     []string     `json:"names"`
	Digests   []string     `json:"digests"` // of the manifests that the names stood for
	Parent    string       `json:"parent,omitempty"`
	Size      int64        `json:"size"` // bytes in files, without those of the parent
	Files     int          `json:"files"`
	Created   string       `json:"created,omitempty"`
	PulledAt  int64        `json:"pulledAt,omitempty"` // ms since 1970
	Sandboxes []string     `json:"sandboxes"`
	Config    store.Config `json:"config"`
	Problem   string       `json:"problem,omitempty"`
	System    bool         `json:"system,omitempty"` // a part of the host's, for --root
	inner     bool         // ls hides it: it has no name, and other images or builds use it as a layer
}

func imageListingOf(e *store.Entry) imageListing {
	l := imageListing{
		ID: e.ID, Names: slices.AppendSeq([]string{}, maps.Keys(e.Names)), Digests: []string{}, Parent: e.Parent, Size: e.Size, Files: e.Files,
		Created: e.Created, Sandboxes: append([]string{}, e.Sandboxes...), Config: e.Config, Problem: e.Problem, System: e.System,
		inner: len(e.Names)+len(e.Sandboxes) == 0 && (e.Step != "" || e.System || len(e.Children) > 0),
	}
	slices.Sort(l.Names)
	for _, name := range l.Names {
		n := e.Names[name]
		if n.Digest != "" && !slices.Contains(l.Digests, n.Digest) {
			l.Digests = append(l.Digests, n.Digest)
		}
		l.PulledAt = max(l.PulledAt, n.PulledAt)
	}
	return l
}

func imageListCommand(h *host.Host) *cobra.Command {
	cmd := &cobra.Command{
		Use: "ls", Aliases: []string{"list"}, Short: "List the images", Args: cobra.NoArgs,
		Long: `List the images. Without --all those are left out that have no name, no sandbox uses, and
another image lies over or wolffia build keeps for the next build; --json lists all.`,
	}
	all := cmd.Flags().BoolP("all", "a", false, "also layers without a name")
	return host.List(h, cmd, &console.Table[imageListing]{
		Head: "ID\tSIZE\tPARENT\tPULLED\tSANDBOXES\tNAMES",
		Row: func(l imageListing) []any {
			pulled := "-"
			if l.PulledAt != 0 {
				pulled = console.Age(time.UnixMilli(l.PulledAt)) + " ago"
			}
			names := console.Printable(strings.Join(host.Mapped(l.Names, store.Familiar), " ")) + console.Printable(l.Problem)
			if l.System {
				names = "(host's system, for --root)"
			}
			return []any{store.Short(l.ID), units.BytesSize(float64(l.Size)), console.Dash(store.Short(l.Parent)), pulled, len(l.Sandboxes), console.Dash(names)}
		},
		IDs: "ids", ID: func(l imageListing) string { return l.ID },
		Shown: func(images []imageListing) (shown []imageListing, rest string) {
			if *all {
				return images, ""
			}
			var hidden, size int64
			images = slices.DeleteFunc(images, func(l imageListing) bool {
				if l.inner {
					hidden, size = hidden+1, size+l.Size
				}
				return l.inner
			})
			if hidden > 0 {
				rest = fmt.Sprintf("layers without a name that are not shown: %d, %s; --all shows them", hidden, units.BytesSize(float64(size)))
			}
			return images, rest
		},
	}, func(_ context.Context, rt *local.Runtime, _ []string) ([]imageListing, error) {
		all, err := store.Open(rt.StateDir()).List()
		return host.Partly(h, host.Mapped(all, imageListingOf), err)
	})
}

func imageTagCommand(h *host.Host) *cobra.Command {
	return &cobra.Command{
		Use:   "tag IMAGE NAME...",
		Short: "Give an image more names",
		Long:  "Give an image more names. A name that means another image now means this one.",
		Args:  cobra.MinimumNArgs(2),
		RunE: h.Over(func(ctx context.Context, rt *local.Runtime, args []string) error {
			names, err := newNames(args[1:])
			if err != nil {
				return err
			}
			images := store.Open(rt.StateDir())
			id, err := images.Find(args[0])
			if err != nil {
				return err
			}
			_, unpin, err := images.Pin(ctx, id)
			if err != nil {
				return err
			}
			defer unpin()
			return images.Tag(ctx, id, names)
		}),
	}
}

func imageRemoveCommand(h *host.Host) *cobra.Command {
	return &cobra.Command{
		Use:   "rm IMAGE...",
		Short: "Take names of images away; delete those that have none left",
		Long: `Take names of images away, and delete an image with its last name; by its id, or
twelve digits of it, an image with all its names. One that a sandbox uses, also a
stopped one, is not deleted. One that another image lies over stays without a name.`,
		Args: cobra.MinimumNArgs(1),
		RunE: h.Over(func(ctx context.Context, rt *local.Runtime, args []string) error {
			images := store.Open(rt.StateDir())
			return errors.Join(host.Mapped(args, func(ref string) error { return images.Remove(ctx, ref) })...)
		}),
	}
}

func imagePruneCommand(h *host.Host) *cobra.Command {
	var all, asJSON bool
	cmd := &cobra.Command{
		Use:   "prune [--all]",
		Short: "Delete images that have no name and that nothing uses",
		Long: `Delete images that have no name and that no sandbox and no other image uses, with
--all also those that have one, and what pulls and builds that were killed have left.
Prints what was deleted.`,
		Args: cobra.NoArgs,
		RunE: h.Over(func(ctx context.Context, rt *local.Runtime, _ []string) error {
			deleted, err := store.Open(rt.StateDir()).Prune(ctx, all)
			if asJSON {
				return errors.Join(h.PrintJSON(host.Mapped(deleted, imageListingOf)), err)
			}
			for _, e := range deleted {
				fmt.Fprintln(h.Out, e.ID)
			}
			return err
		}),
	}
	cmd.Flags().BoolVarP(&all, "all", "a", false, "also images that have a name")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print an array of JSON objects")
	return cmd
}
