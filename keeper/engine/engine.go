// Package engine is the keeper's client of a container engine. [configs] decides what it
// requests; it changes only containers that have the sandbox's labels.
package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/system"
	"github.com/moby/moby/client"
	"github.com/moby/moby/client/pkg/versions"
	"golang.org/x/sys/unix"

	"wolffia/internal/host/boot"
	"wolffia/internal/sys/cleanup"
	"wolffia/internal/sys/proc"
	"wolffia/keeper/mark"
	"wolffia/runtime"
	"wolffia/runtime/launch"
)

// answerLimit is how long an engine may take to answer a ping, of which a socket may have to start
// it first.
const answerLimit = 15 * time.Second

// createLimit is how long an engine may take to create a container.
const createLimit = time.Minute

// madeLimit is how long to wait for a container that a killed keeper may have requested.
const madeLimit = 5 * time.Second

// removedLimit is how long to wait for a removal that the engine has begun.
const removedLimit = 30 * time.Second

// An Engine manages one sandbox's container in a container engine. It is safe for
// concurrent use.
type Engine struct {
	client *client.Client
	place  place
	id     string // empty: all sandboxes of the place
	config *runtime.SandboxConfig
	answer time.Duration // answerLimit
	podman atomic.Bool   // set by the first answer of Podman
	// rootless: it is this user's own rootless Podman.
	rootless bool
	// pid1 is a pidfd of PID 1 (pidfd_open(2)), once its mounts have been checked; else -1.
	pid1 int
}

// Open returns an Engine for a sandbox of the state directory; with an empty id, for all
// of them. It does not connect.
func Open(stateDir, id string, config *runtime.SandboxConfig) (*Engine, error) {
	if config.Docker == nil || config.Docker.Host == "" {
		return nil, runtime.Errorf(runtime.ErrInvalid, "sandbox %s: the configuration has no engine", id)
	}
	e := &Engine{place: place{stateDir, os.Geteuid()}, id: id, config: config, answer: answerLimit, pid1: -1}
	c, err := client.New(client.WithHost(config.Docker.Host), client.WithHTTPResponseHook(func(r *http.Response) {
		if strings.HasPrefix(r.Header.Get("Server"), "Libpod/") {
			e.podman.Store(true)
		}
	}))
	if err != nil {
		return nil, runtime.Errorf(runtime.ErrInvalid, "engine %s: %w", config.Docker.Host, err)
	}
	e.client = c
	return e, nil
}

// Start starts PID 1. It returns the connection to it, which the caller closes, and a
// channel on which the end of PID 1 or the engine is sent, with its reason. Closing the
// connection ends PID 1. Start marks the sandbox before it creates anything (see
// [mark.Making]). After an error, or if ctx ends meanwhile, the caller must call End.
func (e *Engine) Start(ctx context.Context, spec *launch.Spec, step func(string)) (_ *os.File, _ <-chan error, err error) {
	step("ask the engine at " + e.config.Docker.Host)
	info, err := e.info(ctx)
	if err != nil {
		return nil, nil, err
	}
	if err := suits(info, &e.config.Resources, e.rootless); err != nil {
		return nil, nil, err
	}
	if len(spec.Seccomp) == 0 {
		return nil, nil, errors.New("no seccomp filter: a sandbox without one is not started")
	}
	if err := os.WriteFile(spec.FilterFile(), spec.Seccomp, 0o644); err != nil {
		return nil, nil, runtime.WithClass(runtime.ErrUnavailable, err)
	}
	if c, ours, err := e.find(ctx); err != nil {
		return nil, nil, err
	} else if c != nil && !ours {
		return nil, nil, runtime.Errorf(runtime.ErrConflict, "container %s in the engine at %s was not created from this state directory, and is left alone: rename or remove it", containerName(e.id), e.config.Docker.Host)
	}
	old, err := e.End(ctx, false, mark.Making(spec.Dir))
	if err != nil {
		return nil, nil, err
	}
	if old == "" {
		if mark.Keeps(spec.Dir) {
			return nil, nil, runtime.Errorf(runtime.ErrConflict, "container %s, which had what the sandbox has changed of its image, was removed from the engine at %s, as docker container prune does: the changes are lost; remove the sandbox (wolffia rm %s) and create it again", containerName(e.id), e.config.Docker.Host, e.id)
		}
		if old, err = e.create(ctx, spec, step); err != nil {
			return nil, nil, err
		}
	}
	if e.config.Image != "" {
		if err := e.checkVolumes(ctx, spec, old); err != nil {
			return nil, nil, err
		}
	}
	if mark.IsAdrift(spec.Dir) {
		if err := e.flush(ctx, old); err != nil {
			return nil, nil, err
		}
	}
	return e.run(ctx, spec, old, step)
}

// ping returns an error if the engine does not answer. It is the first request of what may take
// long: an engine that hangs accepts connections, too.
func (e *Engine) ping(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, e.answer)
	defer cancel()
	_, err := e.client.Ping(limited, client.PingOptions{NegotiateAPIVersion: true})
	if err != nil && limited.Err() != nil && ctx.Err() == nil {
		return e.silent(e.answer)
	}
	return e.explain("ask for its abilities", err)
}

// silent is the error for an engine that hangs; limit is 0 if it answered at first.
func (e *Engine) silent(limit time.Duration) error {
	within := "any more"
	if limit > 0 {
		within = "within " + limit.String()
	}
	return runtime.Errorf(runtime.ErrUnavailable, "the engine at %s accepts connections, but does not answer %s: look at its log, and restart it", e.config.Docker.Host, within)
}

// create creates the container, and returns its id.
func (e *Engine) create(ctx context.Context, spec *launch.Spec, step func(string)) (string, error) {
	image := e.config.ImageID
	if e.config.Image == "" {
		step("make the image for the host's directories")
		var err error
		if image, err = e.skeleton(ctx, spec); err != nil {
			return "", err
		}
	}
	step("create the container")
	if err := mark.Set(spec.Dir, mark.InMaking); err != nil {
		return "", runtime.WithClass(runtime.ErrUnavailable, err)
	}
	can := abilities{recursive: versions.GreaterThanOrEqualTo(e.client.ClientVersion(), "1.44"), podman: e.podman.Load(), rootless: e.rootless}
	config, host := configs(spec, e.place, image, can)
	// Not cancelled with ctx: an answer says whether there is a container.
	whole, cancel := context.WithTimeout(context.WithoutCancel(ctx), createLimit)
	defer cancel()
	made, err := e.client.ContainerCreate(whole, client.ContainerCreateOptions{Config: config, HostConfig: host, Name: containerName(e.id)})
	if errors.Is(err, context.DeadlineExceeded) { // the engine may still create it
		return "", e.explain("create the container", err)
	}
	if err = errors.Join(e.explain("create the container", err), mark.Set(spec.Dir, "")); err != nil {
		return "", err
	}
	// An engine leaves out a setting that it cannot apply, with a warning.
	if weaker := slices.DeleteFunc(made.Warnings, harmless); len(weaker) > 0 {
		return "", runtime.Errorf(runtime.ErrUnsupported, "the engine cannot apply all settings of the sandbox: %s", strings.Join(weaker, "; "))
	}
	return made.ID, nil
}

// harmless reports whether a warning is not about a setting of the container.
func harmless(warning string) bool {
	return strings.Contains(warning, "platform") // the image's, which the kernel may emulate
}

// run attaches to a container and starts it.
func (e *Engine) run(ctx context.Context, spec *launch.Spec, container string, step func(string)) (_ *os.File, _ <-chan error, err error) {
	step("start the container")
	var undo cleanup.Stack
	defer undo.Unwind(&err)
	attached, err := e.client.ContainerAttach(ctx, container, client.ContainerAttachOptions{Stream: true, Stdin: true, Stdout: true, Stderr: true})
	if err != nil {
		return nil, nil, e.explain("attach to the container", err)
	}
	defer attached.Conn.Close() // file is a duplicate
	conn, ok := attached.Conn.(*net.UnixConn)
	if !ok || attached.Reader.Buffered() > 0 {
		return nil, nil, runtime.Errorf(runtime.ErrUnavailable, "the engine sent output of the container before its start")
	}
	file, err := conn.File()
	if err != nil {
		return nil, nil, runtime.WithClass(runtime.ErrUnavailable, err)
	}
	undo.Add(file.Close)
	podman := e.podman.Load()
	if podman { // PID 1 exists now, and waits
		if err := e.checkMounts(ctx, spec, container); err != nil {
			return nil, nil, err
		}
	}
	gone := e.wait(container)
	if _, err := e.client.ContainerStart(ctx, container, client.ContainerStartOptions{}); err != nil {
		refused := !errors.Is(err, context.DeadlineExceeded) && !client.IsErrConnectionFailed(err)
		if err = e.explain("start the container", err); refused && e.config.Image != "" {
			err = fmt.Errorf("%w; if that is for what image %s has there, --runtime bwrap may start it", err, e.config.Image)
		}
		return nil, nil, err
	}
	if !podman {
		if err := e.checkMounts(ctx, spec, container); err != nil {
			return nil, nil, err
		}
	}
	if e.keepsChanges() {
		if err := mark.Set(spec.Dir, container); err != nil {
			return nil, nil, runtime.WithClass(runtime.ErrUnavailable, err)
		}
	}
	undo.Release()
	return file, gone, nil
}

// wait returns a channel on which the end of the container's next run is sent: nil, or
// the reason.
func (e *Engine) wait(id string) <-chan error {
	w := e.client.ContainerWait(context.Background(), id, client.ContainerWaitOptions{Condition: container.WaitConditionNextExit})
	gone := make(chan error, 1)
	go func() { // ends with the container, or with the engine
		select {
		case r := <-w.Result:
			switch {
			case r.Error != nil:
				gone <- runtime.Errorf(runtime.ErrUnavailable, "the engine: %s", r.Error.Message)
			case r.StatusCode == 137:
				gone <- runtime.Errorf(runtime.ErrUnavailable, "PID 1 was killed, by the kernel because memory was short, or from the host")
			default:
				gone <- nil
			}
		case err := <-w.Error:
			gone <- runtime.Errorf(runtime.ErrUnavailable, "the engine has ended, or has removed the container: %w", err)
		}
	}()
	return gone
}

// End kills the sandbox's container. It removes it too, unless the container has changes
// to an image and forGood is not set; then it returns its id. making says that the engine
// may still be creating the container, for a keeper that was killed. Other containers are
// not changed. After an error PID 1 has ended too, if this Engine has started it.
func (e *Engine) End(ctx context.Context, forGood, making bool) (kept string, err error) {
	// An engine that was killed, or hangs, ends nothing, and PID 1's connection stays open.
	killed := e.killPID1()
	defer func() {
		if err != nil {
			err = errors.Join(err, killed, e.awaitPID1())
		}
	}()
	if err := e.ping(ctx); err != nil {
		return "", err
	}
	c, ours, err := e.find(ctx)
	if c == nil && err == nil && making {
		c, ours, err = e.awaitMade(ctx)
	}
	if !ours || err != nil {
		return "", err
	}
	// A container that has run may have changes to its image.
	keep := !forGood && e.keepsChanges() && c.State != nil && c.State.Status != container.StateCreated
	if !keep {
		return "", e.explain("remove the container", e.remove(ctx, c.ID))
	}
	if c.State.Running {
		if err := e.kill(ctx, c.ID); err != nil {
			return "", err
		}
	}
	return c.ID, nil
}

// Freeze has the engine pause the sandbox's container, or unpause it. That it is so is not an error.
func (e *Engine) Freeze(ctx context.Context, freeze bool) error {
	c, ours, err := e.find(ctx)
	switch {
	case err != nil:
		return err
	case !ours || c.State == nil:
		return runtime.Errorf(runtime.ErrUnavailable, "the engine does not have the container")
	case c.State.Paused == freeze:
		return nil
	case freeze:
		_, err = e.client.ContainerPause(ctx, c.ID, client.ContainerPauseOptions{})
	default:
		_, err = e.client.ContainerUnpause(ctx, c.ID, client.ContainerUnpauseOptions{})
	}
	return e.explain("pause or unpause the container", err)
}

// kill kills a container, and waits for its end.
func (e *Engine) kill(ctx context.Context, id string) error {
	ended := e.client.ContainerWait(ctx, id, client.ContainerWaitOptions{Condition: container.WaitConditionNotRunning})
	if _, err := e.client.ContainerKill(ctx, id, client.ContainerKillOptions{Signal: "KILL"}); err != nil && !e.stopped(ctx, id) {
		return e.explain("kill the container", err)
	}
	select {
	case <-ended.Result:
		return nil
	case err := <-ended.Error:
		return e.explain("wait for the container's end", err)
	}
}

// flush starts a container and kills it, without a connection to it. Docker 20.10, if it was
// killed while the container ran, gives to the next run what is left of the connection to that
// one: the end, by which PID 1 ends.
func (e *Engine) flush(ctx context.Context, id string) error {
	if _, err := e.client.ContainerStart(ctx, id, client.ContainerStartOptions{}); err != nil {
		return e.explain("start the container", err)
	}
	return e.kill(ctx, id)
}

// killPID1 kills PID 1, and with it all processes of the container, without the engine. It does
// not wait.
func (e *Engine) killPID1() error {
	if e.pid1 < 0 {
		return nil
	}
	if err := unix.PidfdSendSignal(e.pid1, unix.SIGKILL, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return runtime.Errorf(runtime.ErrUnavailable, "kill PID 1 of the container: %w", err)
	}
	return nil
}

// awaitPID1 waits for the end of a PID 1 that was killed.
func (e *Engine) awaitPID1() error {
	if e.pid1 < 0 {
		return nil
	}
	if dead, err := proc.AwaitDeath(e.pid1, time.Now().Add(boot.KillLimit)); err != nil || dead {
		return err
	}
	return runtime.Errorf(runtime.ErrUnavailable, "PID 1 of the container was killed and does not end")
}

// keepsChanges reports whether a container is kept when the sandbox is stopped, with its changes
// to the image.
func (e *Engine) keepsChanges() bool {
	return e.config.Image != "" && !e.config.BoundToCaller && !e.config.Docker.ReadOnlyRoot
}

// awaitMade is find for a container that the engine may still be creating.
func (e *Engine) awaitMade(ctx context.Context) (c *container.InspectResponse, ours bool, err error) {
	waiting, cancel := context.WithTimeout(ctx, madeLimit)
	defer cancel()
	made := e.client.Events(waiting, client.EventsListOptions{
		Filters: make(client.Filters).Add("type", "container").Add("event", "create").Add("container", containerName(e.id)),
	})
	if c, ours, err = e.find(ctx); c != nil || err != nil {
		return c, ours, err
	}
	select {
	case <-made.Messages:
	case err := <-made.Err:
		if !errors.Is(err, context.DeadlineExceeded) {
			return nil, false, e.explain("wait for the container", err)
		}
	}
	return e.find(ctx)
}

// remove kills and removes a container. It is not an error if there is none.
func (e *Engine) remove(ctx context.Context, id string) error {
	for retry := false; ; retry = true {
		_, err := e.client.ContainerRemove(ctx, id, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
		if errdefs.IsNotFound(err) {
			return nil
		}
		if errdefs.IsConflict(err) && strings.Contains(err.Error(), "in progress") {
			return e.awaitRemoved(ctx, id)
		}
		// Podman fails to kill a container that ends by itself meanwhile.
		if err == nil || retry || !e.stopped(ctx, id) {
			return err
		}
	}
}

// awaitRemoved waits until the engine has removed a container that it is removing: for
// another keeper, or after a call whose answer was lost.
func (e *Engine) awaitRemoved(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(ctx, removedLimit)
	defer cancel()
	w := e.client.ContainerWait(ctx, id, client.ContainerWaitOptions{Condition: container.WaitConditionRemoved})
	select {
	case <-w.Result:
		return nil
	case err := <-w.Error:
		if errdefs.IsNotFound(err) {
			return nil
		}
		return err
	}
}

// stopped reports whether a container is known not to run.
func (e *Engine) stopped(ctx context.Context, id string) bool {
	r, err := e.client.ContainerInspect(ctx, id, client.ContainerInspectOptions{})
	return errdefs.IsNotFound(err) || err == nil && r.Container.State != nil && !r.Container.State.Running
}

// find returns the container with the name of the sandbox's, or nil, and whether it is
// the sandbox's. If not, it must not be changed.
func (e *Engine) find(ctx context.Context) (c *container.InspectResponse, ours bool, err error) {
	name := containerName(e.id)
	r, err := e.client.ContainerInspect(ctx, name, client.ContainerInspectOptions{})
	if errdefs.IsNotFound(err) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, e.explain("look for the container", err)
	}
	c = &r.Container
	if c.Config == nil {
		return c, false, nil
	}
	id, ours := e.place.has(c.Name, c.Config.Labels)
	return c, ours && id == e.id, nil
}

// skeleton imports the image for spec.Root, unless the engine has it, and returns its name.
func (e *Engine) skeleton(ctx context.Context, spec *launch.Spec) (string, error) {
	name, image, err := skeleton(spec, func(path string) bool {
		st, err := os.Stat(path)
		return err == nil && !st.IsDir()
	})
	if err != nil {
		return "", err
	}
	if _, err := e.client.ImageInspect(ctx, name); err == nil {
		return name, nil
	}
	answer, err := e.client.ImageImport(ctx, client.ImageImportSource{Source: strings.NewReader(string(image)), SourceName: "-"}, name, client.ImageImportOptions{})
	if err == nil {
		_, err = io.Copy(io.Discard, io.LimitReader(answer, 1<<20))
		err = errors.Join(err, answer.Close())
	}
	return name, e.explain("make an image", err)
}

// explain returns an error for a request that the engine has failed; nil if err is nil.
func (e *Engine) explain(what string, err error) error {
	host := e.config.Docker.Host
	switch {
	case err == nil:
		return nil
	case errors.Is(err, os.ErrPermission):
		return runtime.Errorf(runtime.ErrUnavailable, "this user may not talk to the engine at %s; wolffia doctor says what helps", host)
	case errors.Is(err, context.DeadlineExceeded):
		return runtime.Errorf(runtime.ErrUnavailable, "%s: %w", what, e.silent(0))
	case client.IsErrConnectionFailed(err):
		return runtime.Errorf(runtime.ErrUnavailable, "no engine answers at %s: %w; wolffia doctor says what helps", host, err)
	}
	return runtime.Errorf(runtime.ErrUnavailable, "engine at %s: %s: %w", host, what, err)
}

// suits returns an error for an engine that cannot apply a sandbox's settings.
func suits(info *system.Info, want *runtime.Resources, rootlessPodman bool) error {
	if rootlessPodman && (want.Memory > 0 || want.CPUs > 0 || want.PIDs > 0) {
		return runtime.Errorf(runtime.ErrUnsupported, "rootless Podman starts a container without its limits if it cannot apply them, and does not report it: leave out the limits of memory, processors and processes, or use root's engine")
	}
	for _, o := range info.SecurityOptions {
		for kv := range strings.SplitSeq(o, ",") {
			switch kv {
			case "name=rootless":
				if rootlessPodman {
					continue
				}
				return runtime.Errorf(runtime.ErrUnsupported, "the engine is rootless, and maps the owners of files to other numbers than the host's: use root's engine, your own rootless Podman, or --runtime bwrap, which needs no engine")
			case "name=userns":
				return runtime.Errorf(runtime.ErrUnsupported, "the engine has userns-remap, which maps the owners of files to other numbers than the host's: remove it from the engine's configuration")
			}
		}
	}
	if !slices.ContainsFunc(info.SecurityOptions, func(o string) bool { return strings.HasPrefix(o, "name=seccomp") }) {
		return runtime.Errorf(runtime.ErrUnsupported, "the engine has no seccomp: enable it in the kernel or the engine")
	}
	for _, l := range []struct {
		what       string
		asked, can bool
	}{{"memory", want.Memory > 0, info.MemoryLimit}, {"processors", want.CPUs > 0, info.CPUCfsQuota}, {"processes", want.PIDs > 0, info.PidsLimit}} {
		if l.asked && !l.can {
			return runtime.Errorf(runtime.ErrUnsupported, "the engine cannot limit %s: its kernel or its control groups do not support it", l.what)
		}
	}
	return nil
}
