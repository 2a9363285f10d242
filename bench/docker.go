package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"wolffia/internal/test/dockertest"
	"wolffia/local"
	"wolffia/runtime/docker"
)

// docker compares sandboxes in an engine with docker run and docker exec, turn
// by turn, in an engine of its own, or, unless root runs it, in DOCKER_HOST's.
func (b *bench) docker() error {
	return b.inDocker(func(d *bench) error {
		image, err := d.dockerImage()
		if err != nil {
			return err
		}
		if err := d.dockerStart(image); err != nil {
			return err
		}
		return d.dockerExec(image)
	})
}

// inDocker calls f with the runtime of an engine, if there is one.
func (b *bench) inDocker(f func(*bench) error) error {
	d, end, err := b.besideEngine()
	if errors.Is(err, errNoEngine) {
		b.notMeasured("docker", err)
		return nil
	}
	if err != nil {
		return err
	}
	defer end()
	return f(d)
}

var errNoEngine = errors.New("it needs root, or DOCKER_HOST")

// besideEngine returns b with the runtime of an engine. end ends both.
func (b *bench) besideEngine() (d *bench, end func(), err error) {
	host, stop := os.Getenv("DOCKER_HOST"), func() {}
	if os.Geteuid() == 0 {
		e, err := dockertest.Start()
		if err != nil {
			return nil, nil, err
		}
		host, stop = "unix://"+e.Socket, func() { _ = e.Stop() }
	}
	if host == "" {
		return nil, nil, errNoEngine
	}
	rt, err := local.New(&local.Options{StateDir: b.state, Binary: b.wolffia}, docker.Backend())
	if err == nil {
		err = os.Setenv("DOCKER_HOST", host)
	}
	if err != nil {
		stop()
		return nil, nil, err
	}
	with := *b
	with.rt = rt
	return &with, func() { _ = rt.Close(); stop() }, nil
}

// dockerCLI runs the engine's own command.
func dockerCLI(args ...string) error {
	out, err := exec.Command("/usr/bin/docker", args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("docker %v: %w: %s", args, err, out)
	}
	return nil
}

// dockerImage is the image that sandboxes run on, to which a peer mounts /usr.
func (b *bench) dockerImage() (string, error) {
	id, err := b.create()
	if err != nil {
		return "", err
	}
	image, err := exec.Command("/usr/bin/docker", "inspect", "--format", "{{.Config.Image}}", "wolffia-"+id).Output()
	if err != nil {
		return "", err
	}
	return strings.TrimSpace(string(image)), b.rt.Destroy(b.ctx, id)
}

// dockerRun are the flags of docker run for the same program in the same image.
func (b *bench) dockerRun(image string, more ...string) []string {
	args := append([]string{"run", "--network=none", "--log-driver=none", "-v", "/usr:/usr:ro", "-v", b.codebase + ":/workspace"}, more...)
	return append(args, image)
}

var dockerPeer = peer{backend: "docker", once: "docker run --rm true", exec: "docker exec true", start: 1.3, faster: 10}

// dockerStart compares the life of a sandbox with docker run.
func (b *bench) dockerStart(image string) error {
	return b.lives(&dockerPeer, 30, func() error { return dockerCLI(append(b.dockerRun(image, "--rm"), "true")...) })
}

// dockerExec compares commands in a live sandbox with docker exec.
func (b *bench) dockerExec(image string) error {
	id, err := b.create()
	if err != nil {
		return err
	}
	defer func() { _ = b.rt.Destroy(b.ctx, id) }()
	name := "wolffia-bench-peer"
	if err := dockerCLI(append(b.dockerRun(image, "--detach", "--name", name), "sleep", "3600")...); err != nil {
		return err
	}
	defer func() { _ = dockerCLI("rm", "--force", name) }()
	if err := b.beside(&dockerPeer, id, func() error { return dockerCLI("exec", name, "true") }); err != nil {
		return err
	}
	idle, parts, err := pssOfTree(id)
	if err != nil {
		return err
	}
	fmt.Fprintf(b.table, "docker: idle sandbox with a session, %d processes, the engine's not among them\t\t%.1f MB PSS\t\t\t\n", parts, idle)
	return nil
}

// dockerTrue is docker run as a peer of whole processes.
func (b *bench) dockerTrue() (*program, func(), error) {
	p := &program{name: "docker run --rm true"}
	d, end, err := b.besideEngine()
	if err != nil {
		return p, nil, err
	}
	image, err := d.dockerImage()
	if err != nil {
		end()
		return p, nil, err
	}
	p.command = func() *exec.Cmd {
		return exec.Command("/usr/bin/docker", append(d.dockerRun(image, "--rm"), "true")...)
	}
	return p.tried(end)
}
