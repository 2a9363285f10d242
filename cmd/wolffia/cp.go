package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"wolffia/internal/archive"
	"wolffia/local"
	"wolffia/runtime"
	"wolffia/runtime/launch"
)

func (a *app) cpCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "cp SANDBOX:PATH PATH | PATH SANDBOX:PATH",
		Short: "Copy a file or directory out of a running sandbox, or into it",
		Long: `Copy a file or directory out of a running sandbox, or into it, as cp -r does:
into the target if that is a directory, else to it.

It runs inside as any command does: what the rules hide is not there, and what
they do not let be written is not. What comes out never lands outside of the
target. Owners, hard links and set-id bits are not kept.`,
		Example: `  wolffia cp box:/workspace/dist ./dist
  wolffia cp notes.txt box:/tmp`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			from, fromInside := splitPlace(args[0])
			to, toInside := splitPlace(args[1])
			if (from == "") == (to == "") {
				return runtime.Errorf(runtime.ErrInvalid, "one of the two must be SANDBOX:PATH, the other a path (./a:b for one with a colon): %s %s", args[0], args[1])
			}
			rt, err := a.open("")
			if err != nil {
				return err
			}
			if from != "" {
				return copyOut(cmd.Context(), rt, from, fromInside, args[1])
			}
			return copyIn(cmd.Context(), rt, args[0], to, toInside)
		},
	}
}

// splitPlace splits SANDBOX:PATH; a path has no sandbox. As in scp, a slash
// before the colon makes it a path.
func splitPlace(s string) (sandbox, inside string) {
	sandbox, inside, ok := strings.Cut(s, ":")
	if !ok || strings.Contains(sandbox, "/") {
		return "", ""
	}
	if inside == "" {
		inside = "."
	}
	return sandbox, inside
}

// copyOut unpacks on the host what the guest's program packs inside. What it is called
// here is not for the sandbox to say: that could replace any file in the target.
func copyOut(ctx context.Context, rt *local.Runtime, id, from, to string) error {
	name := path.Base(path.Clean(from))
	if name == "." || name == ".." || name == "/" {
		if st, err := os.Stat(to); err == nil && st.IsDir() {
			return runtime.Errorf(runtime.ErrInvalid, "copy %s:%s: the source has no name of its own: name the target, as in %s/NAME", id, from, to)
		}
		name = "copy" // used if to has become a directory meanwhile
	}
	return withHelper(ctx, rt, id, "pack", from, func(p runtime.Process) error {
		return archive.Unpack(p.Stdout(), to, &archive.Options{Name: name})
	})
}

// copyIn unpacks inside what is packed on the host.
func copyIn(ctx context.Context, rt *local.Runtime, from, id, to string) error {
	if _, err := os.Lstat(from); err != nil {
		return runtime.Errorf(runtime.ErrNotFound, "copy %s: %w", from, errors.Unwrap(err))
	}
	return withHelper(ctx, rt, id, "unpack", to, func(p runtime.Process) error {
		err := archive.Pack(p.Stdin(), filepath.Clean(from))
		return errors.Join(err, p.Stdin().Close())
	})
}

// withHelper runs the guest's program as a command inside, beside do. Its
// standard error is the better explanation if both fail.
func withHelper(ctx context.Context, rt *local.Runtime, id, verb, inside string, do func(runtime.Process) error) error {
	if !path.IsAbs(inside) {
		inside = "./" + inside // never an option
	}
	p, err := rt.StartProcess(ctx, id, &runtime.ProcessSpec{
		Command: []string{launch.GuestPath, verb, inside}, Stdin: true,
	})
	if err != nil {
		return err
	}
	defer p.Close()
	stop := context.AfterFunc(ctx, func() { _ = p.Close() })
	defer stop()
	const most = 4 << 10 // bytes of complaint
	said := make(chan string, 1)
	go func() { // ends with the process
		var b bytes.Buffer
		_, _ = io.Copy(&b, io.LimitReader(p.Stderr(), most))
		_, _ = io.Copy(io.Discard, p.Stderr())
		said <- strings.TrimPrefix(strings.TrimSpace(b.String()), "wolffia-guest: ")
	}()
	failed := do(p)
	if failed != nil {
		// A second for the other end to say why: it may never end by itself.
		end := time.AfterFunc(time.Second, func() { _ = p.Close() })
		defer end.Stop()
		_ = p.Stdin().Close()
		_, _ = io.Copy(io.Discard, p.Stdout())
	}
	exit, err := p.Wait(ctx)
	switch complaint := <-said; {
	case err != nil:
		return err
	case exit.Code != 0 && complaint != "":
		return runtime.Errorf(runtime.ErrDenied, "copy %s:%s: %s", id, strings.TrimPrefix(inside, "./"), complaint)
	case failed != nil:
		return runtime.Errorf(runtime.ErrUnavailable, "copy: %w", failed)
	case exit.Code != 0:
		return runtime.Errorf(runtime.ErrUnavailable, "copy %s:%s: the helper ended with exit code %d", id, inside, exit.Code)
	}
	return nil
}
