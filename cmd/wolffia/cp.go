package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"wolffia/cmd/wolffia/internal/attach"
	"wolffia/cmd/wolffia/internal/console"
	"wolffia/cmd/wolffia/internal/dockercli"
	"wolffia/cmd/wolffia/internal/host"
	"wolffia/cmd/wolffia/internal/usage"
	"wolffia/internal/archive"
	"wolffia/internal/filecall"
	"wolffia/internal/fileclient"
	"wolffia/internal/shellword"
	"wolffia/local"
	"wolffia/runtime"
	"wolffia/runtime/launch"
)

// standardStream is the place that means standard input or output.
const standardStream = "-"

func cpCommand(h *host.Host) *cobra.Command {
	var asJSON, recursive bool
	cmd := &cobra.Command{
		Use:   "cp SRC... DST",
		Short: "Copy files and directories out of a running sandbox, or into it",
		Long: `Copy files and directories out of a running sandbox, or into it, as cp -r does: into
DST if that is a directory, else to it. SANDBOX:PATH is a place inside. Either all of
SRC are inside, or DST is. Several SRC need a directory as DST.

- is standard input, or output: for the content of one file of up to 1 GiB. For a
directory: wolffia exec SANDBOX -- tar -c DIR

It runs inside as any command does: what the rules hide is not there, and what
they do not let be written is not. What comes out never lands outside of the
target. Owners, hard links and set-id bits are not kept; FIFOs, sockets and devices
are left out, and named.`,
		Example: `  wolffia cp box:/workspace/dist ./dist
  wolffia cp notes.txt data box:/tmp
  wolffia cp box:report.json - | jq .
  date | wolffia cp - box:/tmp/now`,
		Args: cobra.MinimumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := copyOf(args)
			switch {
			case err != nil:
				return usage.Errorf(cmd, "%w", err)
			case asJSON && c.to.path == standardStream && c.to.sandbox == "":
				return usage.Errorf(cmd, "--json and the target - exclude each other: both use standard output")
			}
			rt, err := h.Open("")
			if err != nil {
				return err
			}
			sb, err := rt.Get(cmd.Context(), c.sandbox())
			if err != nil {
				return err
			}
			for _, from := range c.from {
				if err := copyOne(cmd.Context(), h, rt, sb.ID, from, c.to, len(c.from) > 1); err != nil {
					return err
				}
			}
			if asJSON {
				return h.PrintJSON(&copied{sb.ID, args[:len(args)-1], args[len(args)-1]})
			}
			return nil
		},
	}
	h.AddResume(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON object when all is copied")
	cmd.Flags().BoolVarP(&recursive, "recursive", "r", false, "accepted for those who are used to it: directories are always copied with what is below")
	return cmd
}

func dockerCommand(h *host.Host) *cobra.Command {
	return dockercli.Command(h, func(ctx context.Context, h *host.Host, rt *local.Runtime, from, to string) error {
		c, err := copyOf([]string{from, to})
		if err != nil {
			return runtime.Errorf(runtime.ErrInvalid, "%w", err)
		}
		return copyOne(ctx, h, rt, c.sandbox(), c.from[0], c.to, false)
	})
}

// A copied is what --json prints.
type copied struct {
	SandboxID string   `json:"sandboxId"`
	From      []string `json:"from"`
	To        string   `json:"to"`
}

// A place is a path in a sandbox, or on the host.
type place struct {
	sandbox string // "": on the host
	path    string
	given   string // as the user wrote it
}

// stream reports whether the place is a standard stream.
func (p place) stream() bool { return p.sandbox == "" && p.path == standardStream }

// at returns where the helper for files works on a place in the sandbox id.
func (p place) at(id string) fileclient.Place {
	at := fileclient.Place{Sandbox: id}
	if path.IsAbs(p.path) {
		at.Dir = "/" // the sandbox's working directory may be gone
	}
	return at
}

// placeOf reads SANDBOX:PATH or a path of the host. As in scp, a slash before the colon
// makes it a path.
func placeOf(s string) place {
	sandbox, inside, ok := strings.Cut(s, ":")
	if !ok || sandbox == "" || strings.Contains(sandbox, "/") {
		return place{path: s, given: s}
	}
	if inside == "" {
		inside = "."
	}
	return place{sandbox: sandbox, path: inside, given: s}
}

// A copying is what cp is to do.
type copying struct {
	from []place
	to   place
}

// copyOf reads the arguments of cp, at least two.
func copyOf(args []string) (*copying, error) {
	c := &copying{to: placeOf(args[len(args)-1])}
	for _, arg := range args[:len(args)-1] {
		from := placeOf(arg)
		switch {
		case (from.sandbox == "") == (c.to.sandbox == ""):
			return nil, errors.New("one of SRC and DST must be SANDBOX:PATH, the other a path (./a:b for one with a colon): " + strings.Join(args, " "))
		case len(c.from) > 0 && from.sandbox != c.from[0].sandbox:
			return nil, errors.New("several SRC must be in the same sandbox: " + strings.Join(args, " "))
		}
		c.from = append(c.from, from)
	}
	if len(c.from) > 1 {
		for _, p := range append(c.from, c.to) {
			if p.stream() {
				return nil, errors.New("- cannot be one of several SRC, nor DST of them: it is the content of one file")
			}
		}
	}
	return c, nil
}

// sandbox returns the sandbox of the copying.
func (c *copying) sandbox() string { return c.to.sandbox + c.from[0].sandbox }

// copy copies one source; into says that the target must be a directory. id is the
// sandbox's.
func copyOne(ctx context.Context, h *host.Host, rt *local.Runtime, id string, from, to place, into bool) error {
	switch {
	case to.stream():
		return copyToStdout(ctx, h, rt, id, from)
	case from.stream():
		return copyFromStdin(ctx, h, rt, id, to)
	case from.sandbox != "":
		return copyOut(ctx, h, rt, id, from, to.path, into, *h.Umask)
	}
	return copyIn(ctx, h, rt, id, from.path, to, into)
}

// copyOut unpacks on the host what the guest's program packs inside. What it is called
// here is not for the sandbox to say: that could replace any file in the target.
func copyOut(ctx context.Context, h *host.Host, rt *local.Runtime, id string, from place, to string, into bool, umask uint32) error {
	name := path.Base(path.Clean(from.path))
	st, err := os.Stat(to)
	isDir := err == nil && st.IsDir()
	switch nameless := name == "." || name == ".." || name == "/"; {
	case into && !isDir:
		return runtime.Errorf(runtime.ErrInvalid, "copy to %s: the target of several sources must be an existing directory", to)
	case nameless && isDir:
		return runtime.Errorf(runtime.ErrInvalid, "copy %s: the source has no name of its own: name the target, as in %s/NAME", from.given, to)
	case nameless:
		name = "copy" // used if to has become a directory meanwhile
	}
	p := &helper{Host: h, place: from, args: []string{"pack", inSandbox(from.path)}}
	return p.run(ctx, rt, id, func(p runtime.Process) error {
		return archive.Unpack(p.Stdout(), to, &archive.Options{Name: name, Umask: umask})
	})
}

// copyIn unpacks inside what is packed on the host.
func copyIn(ctx context.Context, h *host.Host, rt *local.Runtime, id, from string, to place, into bool) error {
	if _, err := os.Lstat(from); err != nil {
		return runtime.Errorf(runtime.ErrNotFound, "copy %s: %w", from, errors.Unwrap(err))
	}
	inside := inSandbox(to.path)
	if into {
		inside += "/." // which only a directory has
	}
	p := &helper{Host: h, place: to, args: []string{"unpack", inside}}
	return p.run(ctx, rt, id, func(p runtime.Process) error {
		skipped, err := archive.Pack(p.Stdin(), filepath.Clean(from))
		if skipped != "" {
			h.Note("copy %s: %s", from, console.Printable(skipped))
		}
		return errors.Join(err, p.Stdin().Close())
	})
}

// copyToStdout prints the content of a file inside.
func copyToStdout(ctx context.Context, h *host.Host, rt *local.Runtime, id string, from place) error {
	f := &files{h, fileclient.New(rt), from, from.at(id)}
	defer f.End(ctx, f.at)
	part, err := f.Get(ctx, f.at, &filecall.Request{Op: filecall.OpGet, Path: inSandbox(from.path), Most: -1})
	if err == nil {
		defer part.Close()
		if part.Size <= filecall.MaxFile {
			_, err = io.Copy(h.Out, part)
			return cmp.Or(ctx.Err(), err)
		}
		err = &filecall.Error{Kind: filecall.KindTooLarge}
	}
	return f.failed(ctx, err, fmt.Sprintf("; for a directory: wolffia exec %s -- tar -c %s", from.sandbox, shellword.Quote(from.path)),
		fmt.Sprintf("copy %s: the file has more than 1 GiB: copy it to a file, with wolffia cp %s FILE", from.given, from.given))
}

// copyFromStdin makes standard input the content of a file inside, which changes at once or not at
// all.
func copyFromStdin(ctx context.Context, h *host.Host, rt *local.Runtime, id string, to place) error {
	f := &files{h, fileclient.New(rt), to, to.at(id)}
	defer f.End(ctx, f.at)
	content, pass := io.Pipe() // ends with ctx also if the input does not
	defer context.AfterFunc(ctx, func() { _ = pass.CloseWithError(ctx.Err()) })()
	go func() { // ends with the input, or with the program
		_, err := io.Copy(pass, h.Input(nil))
		_ = pass.CloseWithError(err)
	}()
	const maxReply = 64 << 10
	_, err := f.Do(ctx, f.at, &filecall.Request{Op: filecall.OpPut, Path: inSandbox(to.path)}, content, maxReply)
	var bad *fileclient.BadContent
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.As(err, &bad):
		return runtime.Errorf(runtime.ErrUnavailable, "standard input: %w", bad)
	}
	return f.failed(ctx, err, ": name the file that standard input becomes",
		fmt.Sprintf("copy standard input to %s: more than 1 GiB: write it to a file, and copy that", to.given))
}

// files does something with the content of the file at a place.
type files struct {
	*host.Host
	*fileclient.Client
	place place
	at    fileclient.Place
}

// failed returns an error of the client as one of cp, and reports what was denied. remedy is for a
// place that is not a regular file, large the error for a content that is too large.
func (f *files) failed(ctx context.Context, err error, remedy, large string) error {
	e, is := errors.AsType[*filecall.Error](err)
	switch {
	case !is:
		return err
	case e.Kind == filecall.KindNotRegular:
		return runtime.Errorf(runtime.ErrInvalid, "copy %s: not a regular file%s", f.place.given, remedy)
	case e.Kind == filecall.KindTooLarge:
		return runtime.Errorf(runtime.ErrInvalid, "%s", large)
	}
	r := f.End(ctx, f.at)
	attach.NoteDenied(f.Host, &r, f.place.sandbox, false)
	return runtime.Errorf(runtime.ErrDenied, "copy %s: %s", f.place.given, plainComplaint(e.Message))
}

// inSandbox returns a path inside that is never an option.
func inSandbox(p string) string {
	if path.IsAbs(p) {
		return p
	}
	return "./" + p
}

// A helper runs the guest's program as a command inside.
type helper struct {
	*host.Host
	place place // that it works on
	args  []string
}

// run runs the helper beside do. Its standard error is the better explanation if both fail.
func (h *helper) run(ctx context.Context, rt *local.Runtime, id string, do func(runtime.Process) error) error {
	spec := &runtime.Command{Command: append([]string{launch.GuestPath}, h.args...), OpenStdin: true}
	spec.Cwd = h.place.at(id).Dir
	p, err := rt.StartProcess(ctx, id, spec)
	if err != nil {
		return err
	}
	defer p.Close()
	giveUp := p.Close
	if h.args[0] == "unpack" {
		// then it removes what it has half written, for which it has a second below
		giveUp = p.Stdin().Close
	}
	stop := context.AfterFunc(ctx, func() { _ = giveUp() })
	defer stop()
	const most = 4 << 10 // bytes of complaint
	said := make(chan string, 1)
	go func() { // ends with the process
		var b bytes.Buffer
		_, _ = io.Copy(&b, io.LimitReader(p.Stderr(), most))
		_, _ = io.Copy(io.Discard, p.Stderr())
		said <- b.String()
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
	// of a copy that has worked, nothing that matters was denied
	if err == nil && exit.ExitCode != 0 {
		attach.NoteDenied(h.Host, &exit, h.place.sandbox, false)
	}
	complaint := plainComplaint(<-said)
	switch {
	case err != nil:
		return err
	case ctx.Err() != nil && (failed != nil || exit.ExitCode != 0):
		return ctx.Err()
	case exit.ExitCode != 0 && complaint != "":
		return runtime.Errorf(runtime.ErrDenied, "copy %s: %s", h.place.given, complaint)
	case failed != nil:
		return runtime.Errorf(runtime.ErrUnavailable, "copy %s: %w", h.place.given, failed)
	case exit.ExitCode != 0:
		return runtime.Errorf(runtime.ErrUnavailable, "copy %s: the helper ended with exit code %d", h.place.given, exit.ExitCode)
	case complaint != "":
		h.Note("copy %s: %s", h.place.given, console.Printable(complaint))
	}
	return nil
}

// plainComplaint returns what a helper says without what it does and the path that it works
// on, which the user knows.
func plainComplaint(s string) string {
	s = strings.TrimPrefix(strings.TrimSpace(s), "wolffia-guest: ")
	for _, verb := range []string{"pack ", "unpack to ", "read ", "write to ", "write "} {
		rest, is := strings.CutPrefix(s, verb)
		if !is {
			continue
		}
		top, err := strconv.QuotedPrefix(rest)
		if err != nil {
			return s
		}
		s = strings.TrimPrefix(rest[len(top):], ": ")
		if name, err := strconv.Unquote(top); err == nil {
			s = strings.TrimPrefix(s, strconv.Quote(path.Base(name))+": ")
			if _, why, ok := strings.Cut(s, " "+name+": "); ok { // of a system call
				s = why
			}
		}
		return s
	}
	return s
}
