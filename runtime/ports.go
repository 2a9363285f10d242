package runtime

import (
	"net"
	"net/netip"
	"path"
	"slices"
	"strconv"
	"unicode/utf8"
)

// A Publish makes a server inside reachable at a port of the host, with any network. It
// listens while the sandbox runs. TCP only.
type Publish struct {
	// Address is the IP address of the host to listen at; empty means 127.0.0.1. At any other
	// than a loopback address, other machines may reach the server.
	Address string `json:"address,omitempty"`
	Local   int    `json:"local"` // port of the host
	// Port is the port inside, at the sandbox's loopback: servers that listen at 127.0.0.1, at
	// all addresses, or at ::1 are reached.
	Port int `json:"port"`
}

// HostAddress returns the address and port of the host.
func (p *Publish) HostAddress() string {
	host := p.Address
	if host == "" {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, strconv.Itoa(p.Local))
}

// onLoopback reports whether it listens at an address at which a server inside may listen:
// 127.0.0.1 or ::1.
func (p *Publish) onLoopback() bool {
	at, err := netip.ParseAddr(p.Address)
	at = at.Unmap()
	return p.Address == "" || err == nil && (at.IsUnspecified() || at == netip.AddrFrom4([4]byte{127, 0, 0, 1}) || at == netip.IPv6Loopback())
}

// Circular returns the first of ports that would lead to itself, or from one of them to the next
// without end, instead of to a server, in a sandbox that shares the host's network. It returns nil
// if no port does.
func Circular(ports []Publish) *Publish {
	for i := range ports {
		at := i
		for range ports {
			port := ports[at].Port
			if at = slices.IndexFunc(ports, func(p Publish) bool { return p.Local == port && p.onLoopback() }); at < 0 {
				break
			}
		}
		if at >= 0 {
			return &ports[i]
		}
	}
	return nil
}

// An Expose lets the sandbox reach one service of the host's loopback at its own, with any
// network but the host's, with which it can already. TCP only.
type Expose struct {
	HostPort int `json:"hostPort"`
	Port     int `json:"port,omitempty"` // inside, at 127.0.0.1; 0 means HostPort
}

// InsidePort returns the port inside.
func (e *Expose) InsidePort() int {
	if e.Port == 0 {
		return e.HostPort
	}
	return e.Port
}

// A Socket lets the sandbox use one unix stream socket of the host, such as that of an ssh
// agent: what the program behind it does for its user, it does for the sandbox.
type Socket struct {
	Source string `json:"source"` // absolute, on the host
	// Target is where the socket is inside, absolute, below a directory that the sandbox's
	// user can write to. Empty means the name of Source in /tmp.
	Target string `json:"target,omitempty"`
	// Force permits a socket by which the host can be controlled, such as a container
	// engine's.
	Force bool `json:"force,omitempty"`
}

// InsidePath returns where the socket is inside.
func (s *Socket) InsidePath() string {
	if s.Target == "" {
		return path.Join("/tmp", path.Base(s.Source))
	}
	return s.Target
}

const (
	// maxPorts bounds each of SandboxConfig.Publish, Expose and Sockets.
	maxPorts = 64
	// maxSocketPath is the longest path of a unix socket, in bytes: unix(7).
	maxSocketPath = 107
)

// IsPort reports whether a number is that of a TCP port.
func IsPort(n int) bool { return 0 < n && n < 1<<16 }

// portDNS is the port at which programs inside look up names.
const portDNS = 53

// checkPorts checks what of the host and the sandbox is connected.
func checkPorts(c *SandboxConfig, bad problem) {
	for what, n := range map[string]int{"published": len(c.Publish), "exposed": len(c.Expose)} {
		if n > maxPorts {
			bad("%d ports are %s: at most %d can be", n, what, maxPorts)
		}
	}
	taken := map[string]bool{}
	for i := range c.Publish {
		p := &c.Publish[i]
		if !IsPort(p.Local) || !IsPort(p.Port) {
			bad("publish %d:%d: a port is from 1 to 65535", p.Local, p.Port)
		}
		if p.Address != "" {
			if at, err := netip.ParseAddr(p.Address); err != nil || at.Zone() != "" {
				bad("publish at %q: it must be an IP address of this host", p.Address)
			}
		}
		if at := p.HostAddress(); taken[at] {
			bad("publish %s: it is published already", at)
		} else {
			taken[at] = true
		}
	}
	if p := Circular(c.Publish); p != nil && c.Network == NetworkHost {
		bad("publish %s: it leads to port %d, which is published itself, since the sandbox has network %q: the server is at the host's port already: leave it out", p.HostAddress(), p.Port, NetworkHost)
	}
	inside := map[int]bool{}
	for i := range c.Expose {
		e := &c.Expose[i]
		if !IsPort(e.HostPort) || !IsPort(e.InsidePort()) {
			bad("expose %d:%d: a port is from 1 to 65535", e.HostPort, e.InsidePort())
		}
		if inside[e.InsidePort()] {
			bad("expose port %d inside: it is taken already", e.InsidePort())
		}
		inside[e.InsidePort()] = true
		if e.InsidePort() == portDNS && c.Network == NetworkFiltered {
			bad("expose port %d inside: network %q has its DNS there: choose another port, as --expose %d:PORT", portDNS, NetworkFiltered, e.HostPort)
		}
	}
	if len(c.Expose) > 0 && c.Network == NetworkHost {
		bad("expose: the sandbox has network %q and reaches all ports of the host already: leave it out", NetworkHost)
	}
	checkSockets(c, bad)
}

// checkSockets checks the paths of sockets.
func checkSockets(c *SandboxConfig, bad problem) {
	if len(c.Sockets) > maxPorts {
		bad("%d sockets: at most %d can be", len(c.Sockets), maxPorts)
	}
	taken := map[string]bool{}
	for i := range c.Sockets {
		s := &c.Sockets[i]
		target := s.InsidePath()
		switch {
		case !cleanAbs(s.Source) || !utf8.ValidString(s.Source):
			bad("socket %q: it must be an absolute path of UTF-8 without . and .. parts", s.Source)
		case len(s.Source) > maxSocketPath:
			bad("socket %q: a path of a socket has up to %d bytes: make a symbolic link to its directory", s.Source, maxSocketPath)
		case !CanMountAt(target):
			bad("socket %q inside: it must be an absolute path of UTF-8 without . and .. parts, not at a place that the sandbox needs itself: choose one below /tmp", target)
		case len(target) > maxSocketPath:
			bad("socket %q inside: a path of a socket has up to %d bytes", target, maxSocketPath)
		case taken[target]:
			bad("socket %q inside: another socket is there already", target)
		}
		taken[target] = true
	}
}
