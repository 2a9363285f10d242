package main

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"

	"wolffia/internal/dockertest"
	"wolffia/runtime"
	"wolffia/runtime/docker"
	"wolffia/shim"
)

// docker compares sandboxes in an engine with docker run and docker exec, turn
// by turn, in an engine of its own, or in DOCKER_HOST's for who is not root.
func (b *bench) docker() (err error) {
	host := os.Getenv("DOCKER_HOST")
	if os.Geteuid() == 0 {
		e, err := dockertest.Start()
		if err != nil {
			return err
		}
		defer func() { _ = e.Stop() }()
		host = "unix://" + e.Socket
	}
	if host == "" {
		fmt.Fprintln(b.table, "docker: not measured: it needs root, or DOCKER_HOST\t\t\t\t\t")
		return nil
	}
	if err := os.Setenv("DOCKER_HOST", host); err != nil {
		return err
	}
	rt, err := docker.New(&shim.Options{StateDir: b.state, Binary: b.wolffia})
	if err != nil {
		return err
	}
	defer rt.Close()
	d := *b
	d.rt = rt.Runtime
	image, err := d.dockerImage()
	if err != nil {
		return err
	}
	if err := d.dockerStart(image); err != nil {
		return err
	}
	return d.dockerExec(image)
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

// peer are the flags of docker run for the same program in the same image.
func (b *bench) peer(image string, more ...string) []string {
	args := append([]string{"run", "--network=none", "--log-driver=none", "-v", "/usr:/usr:ro", "-v", b.codebase + ":/workspace"}, more...)
	return append(args, image)
}

// dockerStart compares the life of a sandbox with docker run.
func (b *bench) dockerStart(image string) error {
	const rounds = 30
	var peer, first, destroy times
	for i := range rounds + 3 {
		p, err := took(func() error { return dockerCLI(append(b.peer(image, "--rm"), "true")...) })
		if err != nil {
			return err
		}
		var id string
		f, err := took(func() error {
			var err error
			if id, err = b.create(); err != nil {
				return err
			}
			return b.execIn(id, "true")
		})
		if err != nil {
			return err
		}
		d, err := took(func() error { return b.rt.Destroy(b.ctx, id) })
		if err != nil {
			return err
		}
		if i >= 3 { // warm
			peer, first, destroy = append(peer, p), append(first, f), append(destroy, d)
		}
	}
	slices.Sort(peer)
	slices.Sort(first)
	b.row("docker run --rm true", peer, "")
	b.row("docker: create, mount the tree, true", first, fmt.Sprintf("<= 1.3x docker run: %.2fx", float64(first.at(0.5))/float64(peer.at(0.5))))
	b.row("docker: destroy", destroy, "")
	return nil
}

// dockerExec compares commands in a live sandbox with docker exec.
func (b *bench) dockerExec(image string) error {
	id, err := b.create()
	if err != nil {
		return err
	}
	defer func() { _ = b.rt.Destroy(b.ctx, id) }()
	name := "wolffia-bench-peer"
	if err := dockerCLI(append(b.peer(image, "--detach", "--name", name), "sleep", "3600")...); err != nil {
		return err
	}
	defer func() { _ = dockerCLI("rm", "--force", name) }()
	s, err := b.rt.CreateSession(b.ctx, id, nil)
	if err != nil {
		return err
	}
	in := func(command string) func() error {
		return func() error {
			res, err := b.rt.SessionExec(b.ctx, s.ID, &runtime.SessionExecRequest{Command: command})
			if err == nil && res.ExitCode != 0 {
				err = fmt.Errorf("%q in a session: exit code %d: %s", command, res.ExitCode, res.Stderr)
			}
			return err
		}
	}
	var theirs, ours, builtin, program times
	for i := range 105 {
		for _, m := range []struct {
			to  *times
			run func() error
		}{
			{&theirs, func() error { return dockerCLI("exec", name, "true") }},
			{&ours, func() error { return b.execIn(id, "true") }},
			{&builtin, in(":")},
			{&program, in("/bin/true")},
		} {
			d, err := took(m.run)
			if err != nil {
				return err
			}
			if i >= 5 {
				*m.to = append(*m.to, d)
			}
		}
	}
	slices.Sort(theirs)
	slices.Sort(ours)
	b.row("docker exec true", theirs, "")
	b.row("docker: exec of true, Go API", ours, fmt.Sprintf(">= 10x faster than docker exec: %.1fx", float64(theirs.at(0.5))/float64(ours.at(0.5))))
	b.row("docker: session, a builtin, Go API", builtin, "")
	b.row("docker: session, /bin/true, Go API", program, "")
	idle, parts, err := pssOfTree(id)
	if err != nil {
		return err
	}
	fmt.Fprintf(b.table, "docker: idle sandbox with a session, %d processes, the engine's not among them\t\t%.1f MB PSS\t\t\t\n", parts, idle)
	return nil
}
