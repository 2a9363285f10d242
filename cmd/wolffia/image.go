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
	"golang.org/x/term"

	"wolffia/image/puller"
	"wolffia/image/store"
	"wolffia/runtime"
)

func (a *app) imageCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "image",
		Short: "Pull, list and remove images to run on",
		Long: `Pull, list and remove images to run on.

IMAGE is a name in a registry (busybox, busybox:1.36, ghcr.io/team/tool@sha256:...),
oci:DIR[:TAG] for an OCI image layout, or docker-archive:FILE for what docker save
has written. wolffia run --image IMAGE pulls what is not there by itself.`,
	}
	cmd.AddCommand(a.imagePullCommand(), a.imageListCommand(), a.imageRemoveCommand(), a.imagePruneCommand())
	return cmd
}

func (a *app) imagePullCommand() *cobra.Command {
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
				id, err := a.pull(cmd.Context(), &puller.Request{Name: name, MaxSize: size})
				if err != nil {
					return err
				}
				fmt.Fprintln(a.out, id)
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&maxSize, "max-size", "", "how large an image may be, unpacked, such as 512m or 2g (default 64g)")
	return cmd
}

// images opens the image store.
func (a *app) images() (*store.Store, error) {
	rt, err := a.open("")
	if err != nil {
		return nil, err
	}
	return store.Open(rt.StateDir()), nil
}

// pull gets an image, with a progress bar if there is a terminal.
func (a *app) pull(ctx context.Context, req *puller.Request) (string, error) {
	rt, err := a.open("")
	if err != nil {
		return "", err
	}
	program, err := program(rt, puller.Program)
	if err != nil {
		return "", err
	}
	defer program.Close()
	req.StateDir = rt.StateDir()
	if term.IsTerminal(int(a.err.Fd())) {
		req.Terminal = a.err.file
	}
	return puller.Pull(ctx, program.ExecPath(), req)
}

// An imageListing is what --json prints of an image.
type imageListing struct {
	ID        string       `json:"id"`
	Names     []string     `json:"names"`
	Digests   []string     `json:"digests"` // of the manifests that the names stood for
	Size      int64        `json:"size"`    // bytes in files
	Files     int          `json:"files"`
	Created   string       `json:"created,omitempty"`
	PulledAt  int64        `json:"pulledAt,omitempty"` // ms since 1970
	Sandboxes []string     `json:"sandboxes"`
	Config    store.Config `json:"config"`
	Problem   string       `json:"problem,omitempty"`
}

func imageListingOf(e *store.Entry) imageListing {
	l := imageListing{
		ID: e.ID, Names: slices.Sorted(maps.Keys(e.Names)), Digests: []string{}, Size: e.Size, Files: e.Files,
		Created: e.Created, Sandboxes: e.Sandboxes, Config: e.Config, Problem: e.Problem,
	}
	for _, name := range l.Names {
		n := e.Names[name]
		if n.Digest != "" && !slices.Contains(l.Digests, n.Digest) {
			l.Digests = append(l.Digests, n.Digest)
		}
		l.PulledAt = max(l.PulledAt, n.PulledAt)
	}
	if l.Names == nil {
		l.Names = []string{}
	}
	if l.Sandboxes == nil {
		l.Sandboxes = []string{}
	}
	return l
}

func (a *app) imageListCommand() *cobra.Command {
	var f format
	cmd := &cobra.Command{
		Use:     "ls",
		Aliases: []string{"list"},
		Short:   "List the images",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			images, err := a.images()
			if err != nil {
				return err
			}
			all, err := images.List()
			if err != nil {
				return err
			}
			listings := []imageListing{}
			for _, e := range all {
				listings = append(listings, imageListingOf(e))
			}
			t := table[imageListing]{
				head: "ID\tSIZE\tPULLED\tSANDBOXES\tNAMES",
				row: func(l imageListing) []any {
					pulled := "-"
					if l.PulledAt != 0 {
						pulled = age(time.UnixMilli(l.PulledAt)) + " ago"
					}
					names := printable(strings.Join(l.Names, " ")) + printable(l.Problem)
					return []any{store.Short(l.ID), units.BytesSize(float64(l.Size)), pulled, len(l.Sandboxes), dash(names)}
				},
				id: func(l imageListing) string { return l.ID },
			}
			return t.print(a, f, listings)
		},
	}
	f.flagsWithIDs(cmd)
	return cmd
}

func (a *app) imageRemoveCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "rm IMAGE...",
		Short: "Take names of images away; delete those that have none left",
		Long: `Take names of images away, and delete an image with its last name; by its id, or
twelve digits of it, an image with all its names. One that a sandbox uses, also a
stopped one, is not deleted.`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			images, err := a.images()
			if err != nil {
				return err
			}
			var errs []error
			for _, ref := range args {
				errs = append(errs, images.Remove(cmd.Context(), ref))
			}
			return errors.Join(errs...)
		},
	}
}

func (a *app) imagePruneCommand() *cobra.Command {
	var all, asJSON bool
	cmd := &cobra.Command{
		Use:   "prune [--all]",
		Short: "Delete images that have no name and that no sandbox uses",
		Long: `Delete images that have no name and that no sandbox uses, with --all also those
that have one, and what pulls that were killed have left. Prints what was deleted.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			images, err := a.images()
			if err != nil {
				return err
			}
			deleted, err := images.Prune(cmd.Context(), all)
			if asJSON {
				listings := []imageListing{}
				for _, e := range deleted {
					listings = append(listings, imageListingOf(e))
				}
				if perr := a.printJSON(listings); perr != nil {
					return perr
				}
				return err
			}
			for _, e := range deleted {
				fmt.Fprintln(a.out, e.ID)
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "also images that have a name")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print an array of JSON objects")
	return cmd
}
