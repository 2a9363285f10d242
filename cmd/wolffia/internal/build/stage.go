package build

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"path"
	goruntime "runtime"
	"slices"
	"strings"

	"github.com/moby/buildkit/frontend/dockerfile/shell"

	"wolffia/cmd/wolffia/internal/console"
	"wolffia/image/maker"
	"wolffia/internal/image/dockerfile"
	"wolffia/runtime"
)

// A stage is a stage that is being built.
type stage struct {
	*builder
	of     *dockerfile.Stage
	index  int
	id     string // of the image so far; "" for scratch
	config *maker.Config
	args   map[string]string // that were declared
	author string
	cmdSet bool     // CMD is this stage's
	before []string // instructions since the last layer, for the history
	step   int      // of those that make layers, and FROM
	built  bool
}

// build follows the instructions.
func (s *stage) build(ctx context.Context) error {
	if err := s.from(ctx); err != nil {
		return s.failed(s.of.Line, err)
	}
	for i := range s.of.Steps {
		in := &s.of.Steps[i]
		if err := s.do(ctx, in); err != nil {
			return s.failed(in.Line, err)
		}
	}
	s.built = true
	return nil
}

// failed gives an error its place.
func (s *stage) failed(line int, err error) error {
	return fmt.Errorf("%s:%d: %w", s.Shown, line, err)
}

// title returns the title of a step.
func (s *stage) title(text string) string {
	total := 1
	for _, in := range s.of.Steps {
		if slices.Contains(layered, in.Name) {
			total++
		}
	}
	name := ""
	if len(s.stages) > 1 {
		if name = s.of.Name + " "; s.of.Name == "" {
			name = fmt.Sprintf("stage-%d ", s.index)
		}
	}
	s.step++
	return fmt.Sprintf("[%s%d/%d] %s", name, s.step, total, text)
}

// layered are the instructions that make a layer.
var layered = []string{"RUN", "COPY", "ADD", "WORKDIR"}

// from takes the base.
func (s *stage) from(ctx context.Context) (err error) {
	name, err := s.base(s)
	if err != nil {
		return err
	}
	if p, err := (lexer{escapeOf(s.file)}).word(s.of.Platform, env(listOf(s.builder.args))); err != nil {
		return err
	} else if p != "" && p != "linux/"+goruntime.GOARCH && p != goruntime.GOARCH {
		return runtime.Errorf(runtime.ErrUnsupported, "--platform=%s: only linux/%s is built here", p, goruntime.GOARCH)
	}
	if name == "" {
		return runtime.Errorf(runtime.ErrInvalid, "FROM has an empty name: give the ARG in it a value, with --build-arg")
	}
	v := s.out.begin(s.title("FROM " + name))
	defer func() { v.end(false, err) }()
	s.args, s.config = map[string]string{}, &maker.Config{}
	if i := s.stageNamed(name, s.index); i >= 0 && sameStage(s.stages[i].of.Name, name) {
		above := s.stages[i]
		c := *above.config
		s.id, s.config, s.author = above.id, &c, above.author
		s.before = slices.Clone(above.before)
		return nil
	}
	if name == "scratch" { // as BuildKit begins
		s.config.WorkingDir, s.config.Env = "/", []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
		return nil
	}
	if s.id, err = s.image(ctx, name); err != nil {
		return err
	}
	if s.config, err = s.pin(ctx, s.id); err != nil {
		return err
	}
	if len(s.config.OnBuild) > 0 {
		return runtime.Errorf(runtime.ErrUnsupported, "image %s has ONBUILD instructions, which are not followed", name)
	}
	return nil
}

// vars returns the variables of the stage: those of ENV count more than those of ARG.
func (s *stage) vars() shell.EnvGetter { return env(listOf(s.args), s.config.Env) }

// do follows one instruction.
func (s *stage) do(ctx context.Context, in *dockerfile.Instruction) error {
	if in.Unsupported != "" {
		return runtime.Errorf(runtime.ErrUnsupported, "%s: %s is not supported", in.Name, in.Unsupported)
	}
	if slices.Contains(layered, in.Name) {
		v := s.out.begin(s.title(in.Text))
		cached, err := s.change(ctx, in, v)
		v.end(cached, err)
		return err
	}
	l, vars := lexer{escapeOf(s.file)}, s.vars()
	if in.Name != "ARG" {
		s.before = append(s.before, in.Text)
	}
	c := s.config
	switch in.Name {
	case "ARG":
		return s.declare(l, in.Args)
	case "ENV":
		return l.pairs(in.Pairs, vars, c.SetEnv)
	case "LABEL":
		return l.pairs(in.Pairs, vars, c.SetLabel)
	case "EXPOSE":
		return s.expose(l, in.Words, vars)
	case "VOLUME":
		all, err := l.all(in.Words, vars)
		if err != nil {
			return err
		}
		c.Volumes = withKeys(c.Volumes, all)
	case "CMD":
		c.Cmd, s.cmdSet = s.command(in), true
	case "ENTRYPOINT":
		c.Entrypoint = s.command(in)
		if !s.cmdSet { // it was written for the base's
			c.Cmd = nil
		}
	case "SHELL":
		c.Shell = in.Words
	case "MAINTAINER":
		s.author = in.Value
	case "HEALTHCHECK":
		c.Healthcheck = in.Health
	case "ONBUILD":
		c.OnBuild = append(slices.Clip(c.OnBuild), in.Words...)
	case "USER", "STOPSIGNAL":
		value, err := l.word(in.Value, vars)
		if err != nil {
			return err
		}
		if in.Name == "USER" {
			c.User = value
		} else {
			c.StopSignal = value
		}
	default:
		return runtime.Errorf(runtime.ErrUnsupported, "%s is not supported", in.Name)
	}
	return nil
}

// declare gives arguments their values: the caller's, else those before the first FROM, else the
// defaults.
func (s *stage) declare(l lexer, args []dockerfile.Arg) error {
	for _, a := range args {
		v, ok := s.Args[a.Key]
		if !ok && a.Value != nil {
			var err error
			if v, err = l.word(*a.Value, s.vars()); err != nil {
				return err
			}
			ok = true
		}
		if !ok {
			v, ok = s.builder.args[a.Key]
		}
		if ok {
			s.args[a.Key] = v
		}
	}
	return nil
}

// command returns the exec form of CMD or ENTRYPOINT.
func (s *stage) command(in *dockerfile.Instruction) []string {
	if !in.Shell || len(in.Words) == 0 {
		return in.Words
	}
	return append(s.shell(), strings.Join(in.Words, " "))
}

// shell returns the program for a text.
func (s *stage) shell() []string {
	if len(s.config.Shell) > 0 {
		return slices.Clone(s.config.Shell)
	}
	return []string{"/bin/sh", "-c"}
}

func withKeys(set map[string]struct{}, keys []string) map[string]struct{} {
	all := maps.Clone(set)
	if all == nil {
		all = map[string]struct{}{}
	}
	for _, k := range keys {
		all[k] = struct{}{}
	}
	return all
}

// expose records ports: PORT[/PROTOCOL], or a range of them.
func (s *stage) expose(l lexer, words []string, vars shell.EnvGetter) error {
	var all []string
	for _, w := range words {
		ports, err := l.words(w, vars)
		if err != nil {
			return err
		}
		for _, p := range ports {
			ports, protocol, ok := strings.Cut(p, "/")
			if !ok {
				protocol = "tcp"
			}
			var first, last int
			if n, _ := fmt.Sscanf(ports, "%d-%d", &first, &last); n == 1 {
				last = first
			}
			if first < 1 || last < first || last > 65535 || protocol != "tcp" && protocol != "udp" && protocol != "sctp" {
				return runtime.Errorf(runtime.ErrInvalid, "EXPOSE %q: it must be PORT or PORT/tcp, /udp or /sctp", p)
			}
			for n := first; n <= last; n++ {
				all = append(all, fmt.Sprintf("%d/%s", n, protocol))
			}
		}
	}
	s.config.ExposedPorts = withKeys(s.config.ExposedPorts, all)
	return nil
}

// change follows an instruction that makes a layer. cached: the store had it.
func (s *stage) change(ctx context.Context, in *dockerfile.Instruction, v *vertex) (cached bool, err error) {
	l := lexer{escapeOf(s.file)}
	switch in.Name {
	case "RUN":
		return s.run(ctx, in, v)
	case "WORKDIR":
		dir, err := l.word(in.Value, s.vars())
		if err != nil {
			return false, err
		}
		dir = inside(s.config, dir)
		s.config.WorkingDir = dir
		return s.layer(ctx, &maker.Commit{Recipe: &maker.Recipe{Dest: dir, Fresh: s.NoCache}, Step: "WORKDIR", CreatedBy: in.Text}, v)
	}
	r, err := s.recipe(ctx, l, in.Copy)
	if err != nil {
		return false, err
	}
	return s.layer(ctx, &maker.Commit{Recipe: r, Step: in.Name, CreatedBy: in.Text}, v)
}

// recipe returns what COPY or ADD copies.
func (s *stage) recipe(ctx context.Context, l lexer, c *dockerfile.Copy) (*maker.Recipe, error) {
	vars := s.vars()
	dest, err := l.word(c.Dest, vars)
	if err != nil {
		return nil, err
	}
	r := &maker.Recipe{Unpacks: c.Unpack, Fresh: s.NoCache, Dest: inside(s.config, dest)}
	r.IntoDir = strings.HasSuffix(dest, "/") || dest == "." || strings.HasSuffix(dest, "/.")
	if r.Chown, err = l.word(c.Chown, vars); err == nil {
		r.Chmod, err = l.word(c.Chmod, vars)
	}
	if err != nil {
		return nil, err
	}
	from, err := s.source(ctx, c.From)
	if err != nil {
		return nil, err
	}
	if from.Exclude, err = l.all(c.Exclude, vars); err != nil {
		return nil, err
	}
	for _, name := range c.Sources {
		if from.Name, err = l.word(name, vars); err != nil {
			return nil, err
		}
		r.Sources = append(r.Sources, from)
	}
	for _, d := range c.Contents {
		data := d.Data
		if d.Expand {
			if data, err = l.raw(data, vars); err != nil {
				return nil, err
			}
		}
		r.Sources = append(r.Sources, maker.Source{Name: d.Name, Text: []byte(data)})
	}
	return r, nil
}

// source returns where files are taken from: a stage or an image, or without a name the context.
func (s *stage) source(ctx context.Context, name string) (from maker.Source, err error) {
	if name == "" {
		return maker.Source{Dir: s.Dir, Ignore: s.ignore}, nil
	}
	if i := s.stageNamed(name, s.index); i >= 0 {
		if from.Image = s.stages[i].id; from.Image == "" {
			err = runtime.Errorf(runtime.ErrInvalid, "stage %q has no file", name)
		}
		return from, err
	}
	if from.Image, err = s.image(ctx, name); err == nil {
		_, err = s.pin(ctx, from.Image)
	}
	return from, err
}

// inside returns an absolute path for one that may be relative to the working directory.
func inside(c *maker.Config, name string) string {
	if path.IsAbs(name) {
		return path.Clean(name)
	}
	return path.Join("/", c.WorkingDir, name)
}

// layer makes the next image of the stage, unless the store has it.
func (s *stage) layer(ctx context.Context, c *maker.Commit, v *vertex) (cached bool, err error) {
	if c.Recipe == nil && c.Upper == "" && !s.NoCache {
		if id := s.images.StepOf(s.id, c.Step); id != "" {
			return true, s.take(ctx, id)
		}
	}
	c.Parent, c.Config, c.Before, c.Author = s.id, s.config, s.before, s.author
	r, err := s.h.Make(ctx, s.rt, s.several, &maker.Request{Commit: c})
	if err != nil {
		return false, err
	}
	if r.Skipped != "" {
		v.print("WARNING: %s", console.Printable(r.Skipped))
	}
	return r.Cached, s.take(ctx, r.ID)
}

// take makes an image that of the stage so far.
func (s *stage) take(ctx context.Context, id string) error {
	_, err := s.pin(ctx, id)
	s.id, s.before = id, nil
	return err
}

// keyOf returns the key of a step.
func keyOf(parts ...any) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(textOf(parts)))) }

// textOf returns a value as JSON, whose maps are sorted.
func textOf(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // the values are plain
	}
	return string(b)
}
