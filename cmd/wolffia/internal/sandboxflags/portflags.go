package sandboxflags

import (
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"wolffia/runtime"
)

// applyPorts puts the ports and sockets of the host into a configuration.
func (f *Sandbox) applyPorts(c *runtime.SandboxConfig) error {
	for _, s := range f.List("publish") {
		if s == publishNone || s == publishAuto && f.forwards {
			continue
		}
		p, err := parsePublish(s)
		if err != nil {
			return err
		}
		c.Publish = append(c.Publish, p)
	}
	for _, s := range f.List("expose") {
		e, err := parseExpose(s)
		if err != nil {
			return err
		}
		c.Expose = append(c.Expose, e)
	}
	for _, s := range f.List("socket") {
		socket, err := parseSocket(s)
		if err != nil {
			return err
		}
		socket.Force = f.Truth("socket-force")
		c.Sockets = append(c.Sockets, socket)
		// A program finds the agent by this variable.
		if agent := os.Getenv("SSH_AUTH_SOCK"); agent != "" && agent == socket.Source && c.Env["SSH_AUTH_SOCK"] == "" {
			c.Env["SSH_AUTH_SOCK"] = socket.InsidePath()
		}
	}
	return nil
}

// Values of --publish that are no ports.
const (
	publishAuto = "auto"
	publishNone = "none"
)

// Servers returns what becomes of a server inside whose address the command of run or shell
// prints: whether the user gets a note, and whether it is made reachable. typed says that the
// user is at a terminal.
func (f *Sandbox) Servers(typed bool) (tell, publish bool) {
	list := f.List("publish")
	return !slices.Contains(list, publishNone), typed || slices.Contains(list, publishAuto)
}

// parsePort reads the number of a port.
func parsePort(s string) (int, bool) {
	n, err := strconv.ParseUint(s, 10, 16) // no sign
	return int(n), err == nil && runtime.IsPort(int(n))
}

// parsePublish reads [ADDR:]LOCAL:PORT, or PORT for the same on both sides. An IPv6 address
// is in brackets.
func parsePublish(s string) (p runtime.Publish, err error) {
	rest, inside := s, s
	if i := strings.LastIndexByte(s, ':'); i >= 0 {
		rest, inside = s[:i], s[i+1:]
	}
	local := rest
	if strings.Contains(rest, ":") {
		if p.Address, local, err = net.SplitHostPort(rest); err != nil || p.Address == "" {
			return p, runtime.Errorf(runtime.ErrInvalid, "--publish %q: it must be [ADDR:]LOCAL:PORT, with an IPv6 address in brackets", s)
		}
	}
	var ok, ok2 bool
	p.Local, ok = parsePort(local)
	p.Port, ok2 = parsePort(inside)
	if !ok || !ok2 {
		return p, runtime.Errorf(runtime.ErrInvalid, "--publish %q: it must be [ADDR:]LOCAL:PORT, ports from 1 to 65535; auto is for run and shell", s)
	}
	return p, nil
}

// parseExpose reads HOST_PORT[:PORT].
func parseExpose(s string) (e runtime.Expose, err error) {
	outside, inside, two := strings.Cut(s, ":")
	var ok bool
	if e.HostPort, ok = parsePort(outside); ok && two {
		e.Port, ok = parsePort(inside)
	}
	if !ok {
		return e, runtime.Errorf(runtime.ErrInvalid, "--expose %q: it must be HOST_PORT[:PORT], ports from 1 to 65535: only services of the host's loopback can be exposed", s)
	}
	return e, nil
}

// parseSocket reads PATH[:INSIDE].
func parseSocket(s string) (socket runtime.Socket, err error) {
	source, target, two := strings.Cut(s, ":")
	if source == "" || two && target == "" {
		return socket, runtime.Errorf(runtime.ErrInvalid, "--socket %q: it must be PATH[:INSIDE]", s)
	}
	if socket.Source, err = filepath.Abs(source); err != nil {
		return socket, err
	}
	socket.Target = target
	return socket, nil
}

// ParseForward reads [LOCAL:]PORT; LOCAL may be 0.
func ParseForward(s string) (p runtime.Publish, err error) {
	outside, inside, two := strings.Cut(s, ":")
	if !two {
		inside = outside
	}
	var ok, ok2 bool
	if p.Local, ok = parsePort(outside); outside == "0" {
		ok = two
	}
	if p.Port, ok2 = parsePort(inside); !ok || !ok2 {
		return p, runtime.Errorf(runtime.ErrInvalid, "port %q: it must be [LOCAL:]PORT, ports from 1 to 65535, LOCAL also 0", s)
	}
	return p, nil
}
