package build

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"wolffia/cmd/wolffia/internal/attach"
	"wolffia/cmd/wolffia/internal/console"
	"wolffia/cmd/wolffia/internal/hint"
	"wolffia/cmd/wolffia/internal/sandboxflags"
	"wolffia/image/maker"
	"wolffia/internal/image/dockerfile"
	"wolffia/local/defaults"
	"wolffia/runtime"
)

// run follows RUN: a sandbox over the image so far runs the command, and its changes become a layer.
func (s *stage) run(ctx context.Context, in *dockerfile.Instruction, v *vertex) (cached bool, err error) {
	if s.id == "" {
		return false, runtime.Errorf(runtime.ErrInvalid, "RUN needs a program, and scratch has none: COPY one first")
	}
	c := s.sandbox(in)
	vars := maps.Clone(c.Env) // without secrets
	mounts, err := s.mounts(ctx, in, c)
	if err != nil {
		return false, err
	}
	command := in.Words
	if in.Shell {
		command = append(s.shell(), strings.Join(in.Words, " "))
	}
	key := keyOf("RUN", command, in.Script, vars, c.Cwd, s.config.User, c.Network, mounts)
	if id := s.images.StepOf(s.id, key); id != "" && !s.NoCache {
		return true, s.take(ctx, id)
	}
	if in.Script != nil {
		if command, err = s.script(ctx, in.Script, c); err != nil {
			return false, err
		}
	}
	return false, s.execute(ctx, c, command, v, &maker.Commit{Step: key, CreatedBy: in.Text})
}

// sandbox returns the configuration of the sandbox of a RUN.
func (s *stage) sandbox(in *dockerfile.Instruction) *runtime.SandboxConfig {
	c := *s.Config
	c.ImageID, c.Root, c.BareImage, c.BoundToCaller = s.id, true, true, true
	c.Env = map[string]string{}
	maps.Copy(c.Env, s.Config.Env)
	maps.Copy(c.Env, s.args)
	for _, kv := range s.config.Env {
		k, v, _ := strings.Cut(kv, "=")
		c.Env[k] = v
	}
	c.Cwd = cmp.Or(s.config.WorkingDir, "/")
	if in.Network == "none" {
		c.Network, c.Egress = runtime.NetworkNone, nil
	}
	return &c
}

// scriptsPath is where a program that a RUN has as its text is inside.
const scriptsPath = "/run/wolffia-build"

// script mounts a program, and returns the command that runs it.
func (s *stage) script(ctx context.Context, text []byte, c *runtime.SandboxConfig) ([]string, error) {
	dir, err := s.tempDir(ctx)
	if err != nil {
		return nil, err
	}
	file := filepath.Join(dir, "script")
	if err := os.WriteFile(file, text, 0o755); err != nil {
		return nil, err
	}
	c.Mounts = append(c.Mounts, runtime.Mount{Source: dir, Target: scriptsPath})
	return []string{path.Join(scriptsPath, "script")}, os.Chmod(file, 0o755)
}

// tempDir makes a directory for a mount, which is removed with the build.
func (b *builder) tempDir(ctx context.Context) (_ string, err error) {
	if b.place == nil {
		if b.place, err = b.images.Stage(ctx); err != nil {
			return "", err
		}
		if b.temp, err = b.place.Temp(); err != nil {
			return "", err
		}
		if os.Geteuid() == 0 { // the sandbox's user is another one
			if err := os.Chmod(b.temp, 0o711); err != nil {
				return "", err
			}
		}
	}
	b.temps++
	dir := filepath.Join(b.temp, strconv.Itoa(b.temps))
	if err := os.Mkdir(dir, 0o755); err != nil {
		return "", err
	}
	return dir, os.Chmod(dir, 0o755)
}

// execute runs a command in a sandbox, and makes a layer of what it has changed.
func (s *stage) execute(ctx context.Context, c *runtime.SandboxConfig, command []string, v *vertex, commit *maker.Commit) (err error) {
	id, err := sandboxflags.CreateAndStart(ctx, s.h, s.rt, c)
	if err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, s.rt.Destroy(context.WithoutCancel(ctx), id))
	}()
	if err := s.execCommand(ctx, id, c, command, v); err != nil {
		return err
	}
	if err := s.rt.Stop(ctx, id); err != nil {
		return err
	}
	changes, release, err := s.rt.ImageChanges(ctx, id)
	if err != nil {
		return err
	}
	defer release()
	commit.Upper, commit.Move, commit.UpperIDs, commit.Skip = changes.Dir, true, changes.IDs, changes.Own
	_, err = s.layer(ctx, commit, v)
	return err
}

// maxLine bounds the bytes of a line of output; a longer one is printed in parts.
const maxLine = 64 << 10

// execCommand runs a command and prints its output.
func (s *stage) execCommand(ctx context.Context, id string, c *runtime.SandboxConfig, command []string, v *vertex) error {
	p, err := s.rt.StartProcess(ctx, id, &runtime.Command{Command: command, Merge: true, User: s.config.User})
	if err != nil {
		return err
	}
	defer p.Close()
	stop := context.AfterFunc(ctx, func() { _ = p.Close() })
	defer stop()
	sb := &runtime.Sandbox{Network: c.Network, Image: c.ImageID, Root: true}
	watch, w := hint.WatchOutput(sb, command, io.Discard)
	for r := bufio.NewReaderSize(io.TeeReader(p.Stdout(), w[0]), maxLine); ; {
		line, err := r.ReadSlice('\n')
		if len(line) > 0 {
			v.line(string(line))
		}
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			if errors.Is(err, io.EOF) {
				break
			}
			return errors.Join(ctx.Err(), err)
		}
	}
	result, err := p.Wait(ctx)
	if err != nil {
		return errors.Join(ctx.Err(), err)
	}
	if result.ExitCode != 0 || result.Signal != 0 {
		err := fmt.Errorf("%q: %w", strings.Join(command, " "), &runtime.ExitError{Result: result})
		for _, why := range append(attach.Refused(&result, "build again with these"), watch.Hint(console.CodeFor(result), true)) {
			if why != "" {
				err = fmt.Errorf("%w\n%s", err, console.Printable(why))
			}
		}
		return err
	}
	return nil
}

// A Secret is a text for RUN --mount=type=secret.
type Secret struct{ Text []byte }

// mounts adds what RUN mounts to the configuration, and returns what of it the key of the step has:
// no secret, and no content of a cache.
func (s *stage) mounts(ctx context.Context, in *dockerfile.Instruction, c *runtime.SandboxConfig) (key []any, err error) {
	l, vars := lexer{escapeOf(s.file)}, s.vars()
	for _, m := range in.Mounts {
		for _, text := range []*string{&m.Source, &m.Target, &m.ID} {
			if *text, err = l.word(*text, vars); err != nil {
				return nil, err
			}
		}
		if m.Target != "" && !path.IsAbs(m.Target) {
			m.Target = path.Join("/", s.config.WorkingDir, m.Target)
		}
		digest := ""
		switch m.Type {
		case "cache":
			id := cmp.Or(m.ID, path.Clean(m.Target))
			c.Volumes = append(slices.Clip(c.Volumes), runtime.VolumeMount{Name: "build-" + keyOf(id)[:24], Target: m.Target})
		case "secret":
			err = s.secret(ctx, m, c)
		case "bind":
			digest, err = s.bind(ctx, m, c)
		default:
			err = runtime.Errorf(runtime.ErrUnsupported, "--mount=type=%s is not supported", m.Type)
		}
		if err != nil {
			return nil, err
		}
		key = append(key, []any{m, digest})
	}
	return key, nil
}

// secret mounts a secret as a file, or sets a variable to it.
func (s *stage) secret(ctx context.Context, m dockerfile.Mount, c *runtime.SandboxConfig) error {
	id := cmp.Or(m.ID, path.Base(m.Target))
	secret, ok := s.Secrets[id]
	if !ok {
		if m.Required {
			return runtime.Errorf(runtime.ErrInvalid, "secret %q is required: --secret id=%[1]s,src=FILE", id)
		}
		return nil
	}
	if m.Env != nil {
		c.Env[cmp.Or(*m.Env, id)] = string(secret.Text)
		if m.Target == "" {
			return nil
		}
	}
	dir, err := s.tempDir(ctx)
	if err != nil {
		return err
	}
	file := filepath.Join(dir, "secret")
	if err := os.WriteFile(file, secret.Text, 0o400); err != nil {
		return err
	}
	if os.Geteuid() == 0 {
		uid, gid, err := defaults.UserOf("")
		if err != nil {
			return err
		}
		if err := os.Chown(file, uid, gid); err != nil {
			return err
		}
	}
	c.Mounts = append(slices.Clip(c.Mounts), runtime.Mount{Source: file, Target: cmp.Or(m.Target, "/run/secrets/"+id)})
	return nil
}

// bind mounts a copy of files of the context, or of an image, and returns its digest.
func (s *stage) bind(ctx context.Context, m dockerfile.Mount, c *runtime.SandboxConfig) (string, error) {
	from, err := s.source(ctx, m.From)
	if err != nil {
		return "", err
	}
	from.Name, from.Exact = m.Source, true
	dir, err := s.tempDir(ctx)
	if err != nil {
		return "", err
	}
	r, err := s.h.Make(ctx, s.rt, s.several, &maker.Request{Fill: &maker.Fill{Dir: dir, Recipe: &maker.Recipe{Dest: "/", IntoDir: true, Sources: []maker.Source{from}}}})
	if err != nil {
		return "", err
	}
	source := dir
	if base := path.Base(path.Clean("/" + m.Source)); base != "/" {
		names, err := os.ReadDir(dir)
		if err != nil {
			return "", err
		}
		if len(names) == 1 && names[0].Name() == base && names[0].Type().IsRegular() {
			source = filepath.Join(dir, base)
		}
	}
	c.Mounts = append(slices.Clip(c.Mounts), runtime.Mount{Source: source, Target: m.Target})
	return r.Digest, nil
}
