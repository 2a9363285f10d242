package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"wolffia/cmd/wolffia/internal/build"
	"wolffia/cmd/wolffia/internal/host"
	"wolffia/cmd/wolffia/internal/sandboxflags"
	"wolffia/image/maker"
	"wolffia/image/store"
	"wolffia/local"
	"wolffia/runtime"
)

// commitFlags are the flags of commit.
type commitFlags struct {
	entrypoint, command, workdir, user string
	env, labels, changes               []string
	stop, asJSON                       bool
}

func commitCommand(h *host.Host) *cobra.Command {
	var f commitFlags
	cmd := &cobra.Command{
		Use:   "commit [flags] SANDBOX IMAGE[:TAG]",
		Short: "Make an image of what a sandbox has changed of its own",
		Long: `Make an image of what a stopped sandbox has changed of its image, and print its id. The
sandbox stays as it is. The image has the sandbox's image as its parent, which stays as
long as the image. The codebase, mounts, volumes, /tmp and the home directory are not
a part of it, nor are variables of the sandbox.

ENTRYPOINT and CMD are arrays of JSON, or a line for /bin/sh.`,
		Example: `  wolffia create --image debian:13 --root --allow-host @debian --name box
  wolffia exec box -- apt-get install -y nginx
  wolffia commit --stop --cmd '["nginx", "-g", "daemon off;"]' box web:1
  wolffia run --image web:1 --root`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			rt, err := h.Open("")
			if err != nil {
				return err
			}
			id, err := f.commit(cmd.Context(), h, rt, args[0], args[1])
			if err != nil {
				return err
			}
			if f.asJSON {
				return h.PrintJSON(map[string]string{"id": id})
			}
			_, err = fmt.Fprintln(h.Out, id)
			return err
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&f.entrypoint, "entrypoint", "", "the image's entrypoint")
	fl.StringVar(&f.command, "cmd", "", "the image's command")
	fl.StringVar(&f.workdir, "workdir", "", "the image's working directory")
	fl.StringVar(&f.user, "user", "", "the image's user")
	fl.StringArrayVarP(&f.env, "env", "e", nil, "a variable of the image: NAME, for one that is set here, or NAME=VALUE")
	fl.StringArrayVar(&f.labels, "label", nil, "a label of the image, K=V")
	fl.StringArrayVarP(&f.changes, "change", "c", nil, "a Dockerfile instruction without a layer; may be repeated")
	fl.BoolVar(&f.stop, "stop", false, "stop the sandbox if it runs, and start it again afterwards")
	fl.BoolVar(&f.asJSON, "json", false, "print a JSON object")
	return cmd
}

// commit makes an image of a sandbox's changes, and returns its id.
func (f *commitFlags) commit(ctx context.Context, h *host.Host, rt *local.Runtime, ref, name string) (id string, err error) {
	names, err := newNames([]string{name})
	if err != nil {
		return "", err
	}
	sb, err := rt.Get(ctx, ref)
	if err != nil {
		return "", err
	}
	if f.stop && sb.State.Runs() {
		if err := rt.Stop(ctx, sb.ID); err != nil {
			return "", err
		}
		defer func() {
			defer h.During("start the sandbox")()
			err = errors.Join(err, rt.Start(context.WithoutCancel(ctx), sb.ID))
		}()
	}
	changes, release, err := rt.ImageChanges(ctx, sb.ID)
	if err != nil {
		return "", err
	}
	defer release()
	images := store.Open(rt.StateDir())
	img, unpin, err := images.Pin(ctx, changes.ImageID)
	if err != nil {
		return "", err
	}
	defer unpin()
	c := &maker.Commit{
		Parent: img.ID, Upper: changes.Dir, UpperIDs: changes.IDs, Skip: changes.Own, Names: names,
		CreatedBy: "wolffia commit",
	}
	if c.Config, err = maker.ConfigOf(images, img.ID); err == nil {
		err = f.change(c.Config)
	}
	if err == nil {
		err = build.Change(ctx, h, rt, c.Config, f.changes)
	}
	if err != nil {
		return "", err
	}
	defer h.During("make the image")()
	r, err := h.Make(ctx, rt, img.IDs != nil || changes.Several, &maker.Request{Commit: c})
	if err != nil {
		return "", err
	}
	return r.ID, nil
}

// newNames returns the canonical names of images to make, which are not those of files.
func newNames(names []string) (canonical []string, err error) {
	for _, name := range names {
		c, err := store.Canonical(name)
		if err == nil && (store.Local(c) || strings.Contains(c, "@")) {
			err = runtime.Errorf(runtime.ErrInvalid, "image %q: an image is made with a name such as web or team/web:1", name)
		}
		if err != nil {
			return nil, err
		}
		canonical = append(canonical, c)
	}
	return canonical, nil
}

// change changes an image's configuration.
func (f *commitFlags) change(c *maker.Config) (err error) {
	if f.entrypoint != "" {
		if c.Entrypoint, err = execForm("entrypoint", f.entrypoint); err != nil {
			return err
		}
		c.Cmd = nil // it was written for the other one, as Docker has it
	}
	if f.command != "" {
		if c.Cmd, err = execForm("cmd", f.command); err != nil {
			return err
		}
	}
	if f.workdir != "" {
		if !strings.HasPrefix(f.workdir, "/") {
			return runtime.Errorf(runtime.ErrInvalid, "--workdir %q: it must be an absolute path inside", f.workdir)
		}
		c.WorkingDir = f.workdir
	}
	if f.user != "" {
		c.User = f.user
	}
	env, err := sandboxflags.Variables(f.env)
	if err != nil {
		return err
	}
	for k, v := range env {
		c.SetEnv(k, v)
	}
	labels, err := sandboxflags.Labels(f.labels)
	if err != nil {
		return err
	}
	for k, v := range labels {
		c.SetLabel(k, v)
	}
	return nil
}

// execForm reads an array of JSON, or a line for a shell.
func execForm(flag, text string) ([]string, error) {
	if !strings.HasPrefix(text, "[") {
		return []string{"/bin/sh", "-c", text}, nil
	}
	var words []string
	if err := json.Unmarshal([]byte(text), &words); err != nil {
		return nil, runtime.Errorf(runtime.ErrInvalid, "--%s %s: it must be an array of strings in JSON, or a line for a shell: %w", flag, text, err)
	}
	return words, nil
}
