package main

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"wolffia/cmd/wolffia/internal/build"
	"wolffia/cmd/wolffia/internal/host"
	"wolffia/cmd/wolffia/internal/sandboxflags"
	"wolffia/runtime"
)

func buildCommand(h *host.Host) *cobra.Command {
	var flags sandboxflags.Sandbox
	var file, target string
	var tags, args, secrets []string
	var noCache bool
	cmd := &cobra.Command{
		Use:   "build [flags] DIR",
		Short: "Make an image of a Dockerfile",
		Long: `Make an image of DIR/Dockerfile, and print its id. Progress is printed to standard error.

Each RUN is a sandbox with root inside, over the layers so far. It has no network but
what --allow-host names. Nothing of this host is in it but what the Dockerfile copies
of DIR and what --secret names. The user needs subordinate ids: wolffia doctor.

What a layer was made of decides whether it is made again: the instruction, what is
below, and the content of files. wolffia image prune deletes layers without a name.

What is not supported is an error with its line: ADD of what is not a file here, RUN
--mount=type=ssh and tmpfs, other platforms, # syntax=.`,
		Example: `  wolffia build -t web .
  wolffia build --allow-host @debian --allow-host @npm -t web:1 .
  wolffia build --target test --build-arg VERSION=2 --secret id=token,src=token .`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, dirs []string) error {
			rt, err := h.Open(flags.Text("runtime"))
			if err != nil {
				return err
			}
			o := &build.Options{Target: target, NoCache: noCache, Pull: flags.Text("pull"), Args: map[string]string{}}
			if o.Config, err = flags.BuildConfig(); err == nil {
				err = host.CheckPull(o.Pull, false)
			}
			if err == nil {
				o.Names, err = newNames(tags)
			}
			if err == nil {
				o.Secrets, err = readSecrets(secrets)
			}
			if err != nil {
				return err
			}
			for _, a := range args {
				k, v, is := strings.Cut(a, "=")
				if !is {
					v, is = os.LookupEnv(k)
				}
				if is {
					o.Args[k] = v
				}
			}
			if err := setPlaces(o, dirs[0], file); err != nil {
				return err
			}
			id, err := build.Image(cmd.Context(), h, rt, o)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(h.Out, id)
			return err
		},
	}
	fl := cmd.Flags()
	fl.StringVarP(&file, "file", "f", "", "the Dockerfile (default DIR/Dockerfile)")
	fl.StringArrayVarP(&tags, "tag", "t", nil, "a name of the image; may be repeated")
	fl.StringArrayVar(&args, "build-arg", nil, "a value of an ARG: K=V, or K, for a variable that is set here; may be repeated")
	fl.StringVar(&target, "target", "", "the stage to build (default: the last one)")
	fl.BoolVar(&noCache, "no-cache", false, "make each layer again")
	fl.StringArrayVar(&secrets, "secret", nil, "a secret for RUN --mount=type=secret: id=ID,src=FILE or id=ID,env=VARIABLE; may be repeated")
	flags.Build(h, cmd)
	return cmd
}

// setPlaces sets where the context and the Dockerfile are.
func setPlaces(o *build.Options, dir, file string) (err error) {
	if o.Dir, err = filepath.Abs(dir); err != nil {
		return err
	}
	if st, err := os.Stat(o.Dir); err != nil || !st.IsDir() {
		return runtime.Errorf(runtime.ErrInvalid, "%s is not a directory: wolffia build takes the directory that COPY copies from", dir)
	}
	o.Shown, o.File = filepath.Join(dir, "Dockerfile"), filepath.Join(o.Dir, "Dockerfile")
	if file != "" {
		o.Shown = file
		o.File, err = filepath.Abs(file)
	}
	return err
}

// readSecrets reads the secrets that flags name.
func readSecrets(flags []string) (map[string]build.Secret, error) {
	all := map[string]build.Secret{}
	for _, flag := range flags {
		of := map[string]string{}
		for field := range strings.SplitSeq(flag, ",") {
			k, v, _ := strings.Cut(field, "=")
			of[k] = v
		}
		id, src := of["id"], cmp.Or(of["src"], of["source"])
		text, isSet := "", false
		if name, ok := of["env"]; ok {
			text, isSet = os.LookupEnv(name)
		} else if id != "" && src != "" {
			b, err := build.ReadSmall(src)
			if err != nil {
				return nil, runtime.Errorf(runtime.ErrInvalid, "--secret %s: %w", flag, err)
			}
			text, isSet = string(b), true
		}
		if id == "" || !isSet {
			return nil, runtime.Errorf(runtime.ErrInvalid, "--secret %q: it must be id=ID,src=FILE, or id=ID,env=VARIABLE with a variable that is set", flag)
		}
		all[id] = build.Secret{Text: []byte(text)}
	}
	return all, nil
}
