// Package build makes images of Dockerfiles: each instruction that changes files is a layer of the
// image store. RUN is a sandbox with root inside over the layers so far.
package build

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/moby/patternmatcher/ignorefile"
	"golang.org/x/sys/unix"

	"wolffia/cmd/wolffia/internal/host"
	"wolffia/image/maker"
	"wolffia/image/store"
	"wolffia/internal/excerpt"
	"wolffia/internal/image/dockerfile"
	"wolffia/internal/sys/beneath"
	"wolffia/internal/sys/userns"
	"wolffia/local"
	"wolffia/runtime"
)

// Options are what a build is made of.
type Options struct {
	Dir     string            // the context, absolute
	File    string            // the Dockerfile, absolute
	Shown   string            // its name in messages
	Names   []string          // of the image, canonical
	Args    map[string]string // --build-arg
	Target  string            // the stage; "" is the last one
	NoCache bool
	Pull    string // when images are pulled, as for --pull
	// Public, if not nil, says of an image that is not in the store whether it is pulled from public
	// addresses only, and with whose credentials, as [puller.Request]; an error says that it must
	// not be.
	Public  func(name string) (public bool, login []byte, err error)
	Secrets map[string]Secret
	Config  *runtime.SandboxConfig // of RUN: backend, network, limits
}

// A builder builds one image.
type builder struct {
	*Options
	h       *host.Host
	rt      *local.Runtime
	images  *store.Store
	file    *dockerfile.File
	ignore  []string
	args    map[string]string // before the first FROM
	out     *progress
	stages  []*stage
	several bool // there are subordinate ids
	pins    []func()
	place   *store.Stage // has a directory for mounts; nil until there is one
	temp    string       // that directory
	temps   int
}

// Image builds an image, prints its progress to standard error, and returns the image's id. With
// --quiet it prints a step that has failed, and nothing else. An error of an instruction names the
// Dockerfile and the line.
func Image(ctx context.Context, h *host.Host, rt *local.Runtime, o *Options) (id string, err error) {
	b := &builder{Options: o, h: h, rt: rt, images: store.Open(rt.StateDir()), out: &progress{w: h.Err}}
	if h.Quiet {
		b.out.kept = excerpt.New(0, 0)
	}
	defer func() { err = errors.Join(err, b.close()) }()
	if ids, err := userns.Of(os.Geteuid(), os.Getegid()); err == nil && ids.Check() == nil {
		b.several = true
	}
	if err := b.images.Sweep(); err != nil {
		return "", err
	}
	if err := b.load(ctx); err != nil {
		return "", err
	}
	target, err := b.target()
	if err != nil {
		return "", err
	}
	for _, s := range b.needed(target) {
		if err := s.build(ctx); err != nil {
			return "", err
		}
	}
	return b.finish(ctx, b.stages[target])
}

// close releases what the build has used.
func (b *builder) close() error {
	for _, release := range b.pins {
		release()
	}
	if b.place == nil {
		return nil
	}
	return b.place.Close()
}

// maxFile bounds the bytes of a Dockerfile, of a .dockerignore, and of a secret.
const maxFile = 1 << 20

// ReadSmall returns the content of a file of at most a MiB.
func ReadSmall(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(b) > maxFile {
		err = fmt.Errorf("%s has more than %d bytes", path, maxFile)
	}
	return b, err
}

// load reads the Dockerfile and what the context ignores.
func (b *builder) load(ctx context.Context) (err error) {
	v := b.out.begin("[internal] load build definition from " + b.Shown)
	defer func() { v.end(false, err) }()
	text, err := ReadSmall(b.File)
	if err != nil {
		return runtime.Errorf(runtime.ErrNotFound, "%w; -f names another Dockerfile", err)
	}
	r, err := b.h.Make(ctx, b.rt, false, &maker.Request{Parse: text})
	if err != nil {
		return b.located(err)
	}
	b.file = new(dockerfile.File)
	if err := json.Unmarshal(r.Parsed, b.file); err != nil {
		return err
	}
	if b.args, err = baseArgs(b.file, b.Args); err != nil {
		return err
	}
	for i := range b.file.Stages {
		b.stages = append(b.stages, &stage{builder: b, of: &b.file.Stages[i], index: i})
	}
	return b.loadIgnore()
}

// located gives an error of the parser, which begins with a line and a colon, the file's name.
func (b *builder) located(err error) error {
	line, _, ok := strings.Cut(err.Error(), ":")
	if _, nerr := strconv.Atoi(line); !ok || nerr != nil {
		return fmt.Errorf("%s: %w", b.Shown, err)
	}
	return fmt.Errorf("%s:%w", b.Shown, err)
}

// loadIgnore reads .dockerignore, or that of the Dockerfile.
func (b *builder) loadIgnore() error {
	dir, err := os.OpenFile(b.Dir, os.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return runtime.WithClass(runtime.ErrInvalid, err)
	}
	defer dir.Close()
	text, err := ReadSmall(b.File + ".dockerignore")
	if errors.Is(err, os.ErrNotExist) {
		text, err = beneath.ReadFile(int(dir.Fd()), ".dockerignore", maxFile)
	}
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err == nil {
		b.ignore, err = ignorefile.ReadAll(strings.NewReader(string(text)))
	}
	if err != nil {
		return runtime.Errorf(runtime.ErrInvalid, ".dockerignore: %w", err)
	}
	return nil
}

// target returns the stage to build.
func (b *builder) target() (int, error) {
	if len(b.stages) == 0 {
		return 0, runtime.Errorf(runtime.ErrInvalid, "%s has no FROM", b.Shown)
	}
	if b.Target == "" {
		return len(b.stages) - 1, nil
	}
	if i := b.stageNamed(b.Target, len(b.stages)); i >= 0 {
		return i, nil
	}
	return 0, runtime.Errorf(runtime.ErrInvalid, "%s has no stage %q", b.Shown, b.Target)
}

// stageNamed returns the index of a stage before another one, by its name or number; -1 for none.
func (b *builder) stageNamed(name string, before int) int {
	for i := before - 1; i >= 0; i-- {
		if sameStage(b.stages[i].of.Name, name) {
			return i
		}
	}
	if n, err := strconv.Atoi(name); err == nil && n >= 0 && n < before {
		return n
	}
	return -1
}

// needed returns the stages that a stage needs, and it, in order.
func (b *builder) needed(target int) (all []*stage) {
	need := map[int]bool{target: true}
	for i := target; i >= 0; i-- {
		if !need[i] {
			continue
		}
		s := b.stages[i]
		from := []string{}
		if name, err := b.base(s); err == nil {
			from = append(from, name)
		}
		for _, in := range s.of.Steps {
			if in.Copy != nil {
				from = append(from, in.Copy.From)
			}
			for _, m := range in.Mounts {
				from = append(from, m.From)
			}
		}
		for _, name := range from {
			if n := b.stageNamed(name, i); n >= 0 {
				need[n] = true
			}
		}
		all = append(all, s)
	}
	slices.Reverse(all)
	return all
}

// base returns the name of a stage's base.
func (b *builder) base(s *stage) (string, error) {
	return lexer{escapeOf(b.file)}.word(s.of.Base, env(listOf(b.args)))
}

// pin keeps an image until the end of the build, and returns its configuration.
func (b *builder) pin(ctx context.Context, id string) (*maker.Config, error) {
	_, release, err := b.images.Pin(ctx, id)
	if err != nil {
		return nil, err
	}
	b.pins = append(b.pins, release)
	return maker.ConfigOf(b.images, id)
}

// image returns the id of an image that the Dockerfile names.
func (b *builder) image(ctx context.Context, name string) (string, error) {
	public, login := b.Public != nil, []byte(nil)
	if _, err := b.images.Find(name); public && (err != nil || b.Pull == host.PullAlways || store.Local(name)) {
		if public, login, err = b.Public(name); err != nil {
			return "", err
		}
	}
	img, err := b.h.HaveImage(ctx, name, b.Pull, public, login)
	if err != nil {
		return "", err
	}
	return img.ID, nil
}

// finish gives the image of a stage its configuration and names.
func (b *builder) finish(ctx context.Context, s *stage) (id string, err error) {
	v := b.out.begin("exporting to image")
	defer func() { v.end(false, err) }()
	if s.id == "" {
		return "", runtime.Errorf(runtime.ErrInvalid, "%s makes no file: an image has at least one", b.Shown)
	}
	has, err := maker.ConfigOf(b.images, s.id)
	if err != nil {
		return "", err
	}
	if textOf(has) != textOf(s.config) {
		if _, err := s.layer(ctx, &maker.Commit{Step: keyOf("config", s.config)}, v); err != nil {
			return "", err
		}
	}
	v.print("writing image %s", s.id)
	for _, name := range b.Names {
		v.print("naming to %s", name)
	}
	return s.id, b.images.Tag(ctx, s.id, b.Names)
}
