package probe

import (
	"bufio"
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

	"wolffia/internal/runsc"
)

// runscFacts are what matters for gVisor.
type runscFacts struct {
	found  *runsc.Found
	none   error  // why there is none
	run    error  // of a program in a sandbox
	stderr string // what it said
}

func probeRunsc(ctx context.Context, h *host) Result {
	var f runscFacts
	if f.found, f.none = runsc.Find(ctx, filepath.Dir(h.program)); f.none == nil {
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
	defer os.Remove(dir)
	return output(ctx, exec.CommandContext(ctx, path, "--rootless", "--network=none", "--ignore-cgroups", "--root="+dir, "do", "true"))
}

// decideRunsc says what the facts mean.
func decideRunsc(f runscFacts) Result {
	const fix = runsc.Fix + " # in wolffia's sources"
	switch {
	case errors.Is(f.none, runsc.ErrNone):
		return Result{Problem: f.none.Error(), Fix: fix}
	case f.none != nil:
		return Result{Problem: "none can be used: " + strings.ReplaceAll(f.none.Error(), "\n", "; "), Fix: fix}
	}
	r := Result{Found: "runsc " + f.found.Version + " at " + f.found.Path, OK: f.run == nil}
	if f.run != nil {
		said := firstLine(f.stderr)
		if said == "" {
			said = f.run.Error()
		}
		r.Problem = "a sandbox does not start: " + said
	}
	return r
}

// An answer is what came from one Docker socket.
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

// ping asks the engine at addr whether it is there. It speaks HTTP by hand: the
// package for it would cost every start of the command.
func ping(ctx context.Context, addr string) (server string, err error) {
	network, where, ok := strings.Cut(addr, "://")
	if !ok || network != "unix" && network != "tcp" {
		return "", errors.New("only unix:// and tcp:// addresses are known here")
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
	return readInfo(io.LimitReader(conn, maxInfo))
}

// maxInfo bounds what is read of an engine's description, in bytes.
const maxInfo = 1 << 20

// readInfo reads what an engine says of itself (Docker Engine API, SystemInfo).
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
		return "", fmt.Errorf("its answer is not JSON: %w", err)
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

// readHeader reads the head of an answer that is what was asked for.
func readHeader(b *bufio.Reader) (server string, err error) {
	for n := 0; ; n++ {
		line, err := b.ReadString('\n')
		line = strings.TrimRight(line, "\r\n")
		switch {
		case n == 0 && !strings.HasPrefix(line, "HTTP/1."):
			return "", errors.New("what answers does not speak HTTP")
		case n == 0:
			if status := strings.Fields(line); len(status) < 2 || status[1] != "200" {
				return "", fmt.Errorf("it answers %q", firstLine(line))
			}
		case err != nil:
			return "", errors.New("its answer is incomplete")
		case line == "" && server == "":
			return "an engine that does not name itself", nil
		case line == "":
			return server, nil
		}
		if key, value, _ := strings.Cut(line, ":"); strings.EqualFold(key, "Server") {
			server = firstLine(strings.TrimSpace(value))
		}
	}
}

// decideDocker says what the answers of all sockets mean; named tells that the
// user chose the one by DOCKER_HOST.
func decideDocker(answers []answer, named bool, h *host) Result {
	for _, a := range answers {
		if a.err == nil {
			r := Result{OK: true, Found: a.server + " at " + a.addr}
			if strings.HasSuffix(a.server, ", rootless") || strings.HasSuffix(a.server, ", userns-remap") {
				r.OK, r.Problem = false, "it shows files by other numbers than the host's: --runtime docker refuses it"
				r.Fix = "# use the system's engine, or --runtime bwrap, which needs none"
			}
			return r
		}
	}
	for _, a := range answers {
		switch {
		case errors.Is(a.err, fs.ErrPermission):
			return Result{
				Found:   a.addr,
				Problem: "this user may not talk to the engine at " + a.addr,
				Fix:     h.sudo("usermod -aG docker "+h.name()) + "\n# then log in again; the group is as good as root",
			}
		case errors.Is(a.err, syscall.ECONNREFUSED):
			return Result{
				Found:   a.addr,
				Problem: "no engine runs behind " + a.addr,
				Fix:     h.sudo("systemctl enable --now docker"),
			}
		case named || !errors.Is(a.err, fs.ErrNotExist):
			return Result{Found: a.addr, Problem: fmt.Sprintf("the engine at %s does not answer: %v", a.addr, a.err)}
		}
	}
	return Result{
		Problem: "there is no Docker or Podman socket",
		Fix: h.install("docker", "debian=docker.io", "fedora=moby-engine") +
			"\n# or, without root, with Podman: systemctl --user enable --now podman.socket",
	}
}
