package probe

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"wolffia/internal/sys/rmtree"
	"wolffia/internal/sys/runsc"
)

// runscFacts are the facts about gVisor.
type runscFacts struct {
	found  *runsc.Found
	none   error  // of runsc.Find
	run    error  // of a program in a sandbox
	stderr string // of that program
}

func probeRunsc(ctx context.Context, h *host) Result {
	var f runscFacts
	if f.found, f.none = runsc.Find(ctx, filepath.Dir(h.Program)); f.none == nil {
		f.stderr, f.run = tryRunsc(ctx, f.found.Path)
	}
	return decideRunsc(f)
}

// tryRunsc runs a program in gVisor.
func tryRunsc(ctx context.Context, path string) (stderr string, err error) {
	dir, err := os.MkdirTemp("", "wolffia-probe")
	if err != nil {
		return "", err
	}
	// runsc leaves its files if it is killed
	defer func() { _ = rmtree.RemovePath(filepath.Split(dir)) }()
	return output(ctx, exec.CommandContext(ctx, path, "--rootless", "--network=none", "--ignore-cgroups", "--root="+dir, "do", "true"))
}

// decideRunsc returns the result for the facts.
func decideRunsc(f runscFacts) Result {
	const fix = "# in wolffia's sources: " + runsc.Fix
	switch {
	case errors.Is(f.none, runsc.ErrNone):
		return Result{Problem: f.none.Error(), Code: "runsc-missing", Fix: fix}
	case f.none != nil:
		return Result{Problem: "no usable runsc: " + strings.ReplaceAll(f.none.Error(), "\n", "; "), Code: "runsc-other", Fix: fix}
	}
	r := Result{Found: "runsc " + f.found.Version + " at " + f.found.Path, OK: f.run == nil}
	if f.run != nil {
		r.Code, r.Problem = "runsc-start", "a sandbox does not start: "+cmp.Or(firstLine(f.stderr), f.run.Error())
	}
	return r
}

// An answer is the answer of one Docker socket.
type answer struct {
	addr   string // unix:///path or tcp://host:port
	err    error
	server string // the engine and its version
}

func probeDocker(ctx context.Context, h *host) Result {
	named := os.Getenv("DOCKER_HOST")
	addrs := []string{named}
	if named == "" {
		addrs = []string{"unix:///var/run/docker.sock"}
		if dir := os.Getenv("XDG_RUNTIME_DIR"); dir != "" {
			addrs = append(addrs, "unix://"+dir+"/docker.sock", "unix://"+dir+"/podman/podman.sock")
		}
	}
	var answers []answer
	for _, addr := range addrs {
		server, err := ping(ctx, addr)
		answers = append(answers, answer{addr, err, server})
	}
	return decideDocker(answers, named != "", h)
}

// ping queries the engine at addr. It implements the HTTP that it needs, since package
// net/http would cost time in every start of the command.
func ping(ctx context.Context, addr string) (server string, err error) {
	network, where, ok := strings.Cut(addr, "://")
	if !ok || network != "unix" && network != "tcp" {
		return "", errors.New("only unix:// and tcp:// addresses are supported")
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, network, where)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if deadline, ok := ctx.Deadline(); ok {
		if err := conn.SetDeadline(deadline); err != nil {
			return "", err
		}
	}
	if _, err := io.WriteString(conn, "GET /info HTTP/1.0\r\nHost: docker\r\n\r\n"); err != nil {
		return "", err
	}
	return readInfo(io.LimitReader(conn, 1<<20))
}

// readInfo returns the name and version of an engine (Docker Engine API, SystemInfo).
func readInfo(r io.Reader) (server string, err error) {
	b := bufio.NewReader(r)
	server, err = readHeader(b)
	if err != nil {
		return "", err
	}
	var info struct {
		ServerVersion   string
		SecurityOptions []string
	}
	if err := json.NewDecoder(b).Decode(&info); err != nil {
		return "", fmt.Errorf("the answer is not JSON: %w", err)
	}
	if info.ServerVersion != "" && !strings.Contains(server, firstLine(info.ServerVersion)) {
		server += " " + firstLine(info.ServerVersion)
	}
	for _, o := range info.SecurityOptions {
		switch {
		case strings.Contains(o, "name=rootless"):
			server += ", rootless"
		case strings.Contains(o, "name=userns"):
			server += ", userns-remap"
		}
	}
	return server, nil
}

// readHeader reads the header of an answer, whose status must be 200.
func readHeader(b *bufio.Reader) (server string, err error) {
	line, _ := b.ReadString('\n')
	status := strings.Fields(line)
	switch {
	case !strings.HasPrefix(line, "HTTP/1."):
		return "", errors.New("the answer is not HTTP")
	case len(status) < 2 || status[1] != "200":
		return "", fmt.Errorf("the answer is %q", firstLine(line))
	}
	for {
		line, err := b.ReadString('\n')
		key, value, _ := strings.Cut(line, ":")
		switch {
		case err != nil:
			return "", errors.New("the answer is incomplete")
		case strings.TrimSpace(line) == "":
			return cmp.Or(server, "an unnamed engine"), nil
		case strings.EqualFold(key, "Server"):
			server = firstLine(strings.TrimSpace(value))
		}
	}
}

// decideDocker returns the result for the answers of all sockets. named tells that the
// user chose the one socket by DOCKER_HOST.
func decideDocker(answers []answer, named bool, h *host) Result {
	for _, a := range answers {
		if a.err == nil {
			r := Result{OK: true, Found: a.server + " at " + a.addr}
			if strings.HasSuffix(a.server, ", rootless") || strings.HasSuffix(a.server, ", userns-remap") {
				r.OK, r.Code, r.Problem = false, "docker-ids", "its containers have other user ids than the host: --runtime docker refuses it"
				r.Fix = "# use the system's engine, or --runtime bwrap, which needs no engine"
			}
			return r
		}
	}
	for _, a := range answers {
		switch {
		case errors.Is(a.err, fs.ErrPermission):
			return Result{
				Found: a.addr, Code: "docker-denied",
				Problem: "this user may not talk to the engine at " + a.addr,
				Fix:     h.Sudo("usermod -aG docker "+h.Name()) + "\n# then log in again; the group is as good as root",
			}
		case errors.Is(a.err, syscall.ECONNREFUSED):
			return Result{Found: a.addr, Code: "docker-stopped", Problem: "no engine listens at " + a.addr, Fix: h.Sudo("systemctl enable --now docker")}
		case named || !errors.Is(a.err, fs.ErrNotExist):
			return Result{Found: a.addr, Code: "docker-silent", Problem: fmt.Sprintf("the engine at %s does not answer: %v", a.addr, a.err)}
		}
	}
	return Result{
		Code: "docker-missing", Problem: "no Docker or Podman socket found",
		Fix: h.Install("docker", "debian=docker.io", "fedora=moby-engine") +
			"\n# or, without root, with Podman:\n# systemctl --user enable --now podman.socket",
	}
}
