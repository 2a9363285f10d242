package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"wolffia/cmd/wolffia/internal/host"
	"wolffia/image/maker"
	"wolffia/image/puller"
	"wolffia/image/store"
	"wolffia/runtime"
)

func imageExportCommand(h *host.Host) *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use:   "export [--format F] IMAGE FILE|DIR",
		Short: "Write an image to a file, for docker load and others",
		Long: `Write an image to a file or a directory, which must not exist, and print its id there.

  docker   an archive as of docker save: docker load -i FILE, podman load -i FILE;
           the default for a file
  oci      a tar archive of an OCI image layout: skopeo copy oci-archive:FILE ...
  oci-dir  an OCI image layout; the default for DIR/

An image that was pulled becomes one layer, with all that its layers have left, and so
has another id there. One of wolffia build or commit has the same id.`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			rt, err := h.Open("")
			if err != nil {
				return err
			}
			if format == "" {
				format = maker.FormatDocker
				if strings.HasSuffix(args[1], "/") {
					format = maker.FormatDir
				}
			}
			path, err := filepath.Abs(args[1])
			if err != nil {
				return err
			}
			if _, err := os.Lstat(path); err == nil {
				return runtime.Errorf(runtime.ErrConflict, "%s exists: name another file, or remove it", args[1])
			}
			images := store.Open(rt.StateDir())
			id, err := images.Find(args[0])
			if err != nil {
				return err
			}
			img, unpin, err := images.Pin(cmd.Context(), id)
			if err != nil {
				return err
			}
			defer unpin()
			names, err := namesToWrite(images, id, args[0])
			if err != nil {
				return err
			}
			defer h.During("write the image")()
			r, err := h.Make(cmd.Context(), rt, img.IDs != nil, &maker.Request{Export: &maker.Export{ID: id, Names: names, Path: path, Format: format}})
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(h.Out, r.ID)
			return err
		},
	}
	cmd.Flags().StringVar(&format, "format", "", "docker, oci or oci-dir (default: docker, for DIR/ oci-dir)")
	return cmd
}

// namesToWrite returns the names that a file has for an image: the one by which it was found, or all.
func namesToWrite(images *store.Store, id, ref string) ([]string, error) {
	names, err := images.NamesOf(id)
	if err != nil {
		return nil, err
	}
	if canonical, err := store.Canonical(ref); err == nil && names[canonical].ID != "" {
		names = map[string]store.Name{canonical: {}}
	}
	var familiar []string
	for _, n := range slices.Sorted(maps.Keys(names)) {
		if !store.Local(n) && !strings.Contains(n, "@") {
			familiar = append(familiar, store.Familiar(n))
		}
	}
	return familiar, nil
}

func imageImportCommand(h *host.Host) *cobra.Command {
	return &cobra.Command{
		Use:   "import FILE|DIR [NAME]",
		Short: "Read an image from a file: of docker save, or an OCI layout",
		Long: `Read an image from an archive of docker save or podman save, an OCI image layout, or a
tar archive of one, and print its id. It gets NAME, or the names that it has there.`,
		Args: cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			req := &puller.Request{Import: true}
			if len(args) > 1 {
				if _, err := newNames(args[1:]); err != nil {
					return err
				}
				req.As = args[1]
			}
			path, err := filepath.Abs(args[0])
			if err != nil {
				return err
			}
			req.Name = store.ArchivePrefix + path
			if st, err := os.Stat(path); err == nil && st.IsDir() {
				req.Name = store.LayoutPrefix + path
			}
			id, err := h.Pull(cmd.Context(), req)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(h.Out, id)
			return err
		},
	}
}
