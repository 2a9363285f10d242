package network

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
)

// A Compiled is a [Policy] that was checked; the zero one allows nothing. It does not change, and
// is safe for concurrent use. Names are those that [NormalName] returns: other forms are not
// found.
type Compiled struct {
	exact, below map[string][]rule
	hosts        map[string]netip.Addr
	blind        map[string]bool
	private      map[string]bool     // names, and "*.DOMAIN"
	headers      map[string][]Header // by name, without LocalSuffix
	ports        []uint16
	learn, ask   bool
	upstream     string // HOST:PORT
}

// Upstream returns HOST:PORT of the proxy that makes the connections, "" without a proxy.
func (c *Compiled) Upstream() string { return c.upstream }

// Rule returns the entry of the policy that allows connections to a port of a name, and
// whether one does. For NAME.wolffia, the name of a [Header], port 80 is allowed.
func (c *Compiled) Rule(name string, port uint16) (entry string, allowed bool) {
	if host, local := strings.CutSuffix(name, LocalSuffix); local {
		if port != 80 || len(c.headers[host]) == 0 {
			return "", false
		}
		return "header of " + host, true
	}
	for _, r := range c.exact[name] {
		if r.has(port) {
			return r.entry, true
		}
	}
	for domain, more := parent(name); more; domain, more = parent(domain) {
		for _, r := range c.below[domain] {
			if r.has(port) {
				return r.entry, true
			}
		}
	}
	return "", false
}

// Allows reports whether connections to a port of a name may be made. A policy that learns
// allows each name on each of Ports.
func (c *Compiled) Allows(name string, port uint16) bool {
	if _, allowed := c.Rule(name, port); allowed {
		return true
	}
	return c.learn && c.listens(port) && !reserved(name)
}

// listens reports whether a port is one of Ports.
func (c *Compiled) listens(port uint16) bool {
	_, found := slices.BinarySearch(c.ports, port)
	return found
}

// Known reports whether a name exists for the sandbox: whether some port of it is allowed.
func (c *Compiled) Known(name string) bool {
	if host, local := strings.CutSuffix(name, LocalSuffix); local {
		return len(c.headers[host]) > 0
	}
	return len(c.exact[name]) > 0 || c.ruleBelow(name) != nil || (c.learn || c.ask) && !reserved(name)
}

// MayAsk reports whether a connection to a port of a name, which no rule allows, can be asked for.
func (c *Compiled) MayAsk(name string, port uint16) bool {
	return c.ask && port > 0 && !reserved(name)
}

// Named reports whether the policy has the name itself. Else, if it is known, a wildcard has
// it, or the policy learns or asks: then the program inside chose the name.
func (c *Compiled) Named(name string) bool {
	host, _ := strings.CutSuffix(name, LocalSuffix)
	return len(c.exact[name]) > 0 || len(c.headers[host]) > 0 || c.hosts[name].IsValid()
}

// Ports returns the ports that some rule allows, in order, at most [MaxPorts]. The caller must
// not change them.
func (c *Compiled) Ports() []uint16 { return c.ports }

// Host returns the address that the policy gives a name, and whether it does.
func (c *Compiled) Host(name string) (netip.Addr, bool) {
	addr, found := c.hosts[name]
	return addr, found
}

// ChecksName reports whether the destination in a connection's data must be the name: the server
// name of TLS, the Host header of HTTP.
func (c *Compiled) ChecksName(name string) bool { return !c.blind[name] }

// Private reports whether a name may lead to private addresses.
func (c *Compiled) Private(name string) bool {
	if c.private[name] {
		return true
	}
	for domain, more := parent(name); more; domain, more = parent(domain) {
		if c.private["*."+domain] {
			return true
		}
	}
	return false
}

// Headers returns the headers that are added to requests at NAME.wolffia, for its NAME. The
// caller must not change them.
func (c *Compiled) Headers(name string) []Header { return c.headers[name] }

// ruleBelow returns the rules of the nearest wildcard that has a name.
func (c *Compiled) ruleBelow(name string) []rule {
	for domain, more := parent(name); more; domain, more = parent(domain) {
		if rules := c.below[domain]; len(rules) > 0 {
			return rules
		}
	}
	return nil
}

// parent returns a name without its first label.
func parent(name string) (domain string, more bool) {
	_, domain, more = strings.Cut(name, ".")
	return domain, more
}

// reserved reports whether a name is wolffia's or the sandbox's own.
func reserved(name string) bool {
	return strings.HasSuffix("."+name, LocalSuffix) || strings.HasSuffix("."+name, ".localhost")
}

// collectPorts returns all ports that a rule has, and more than MaxPorts only so far that the
// excess can be said.
func (c *Compiled) collectPorts() []uint16 {
	all := map[uint16]bool{}
	for _, rules := range []map[string][]rule{c.exact, c.below} {
		for _, of := range rules {
			for _, r := range of {
				for _, p := range r.ports {
					for port := int(p.first); port <= int(p.last); port++ {
						all[uint16(port)] = true
					}
				}
			}
		}
	}
	if len(c.headers) > 0 {
		all[80] = true
	}
	if c.learn || c.ask {
		all[80], all[443] = true, true
	}
	if c.ask {
		all[22] = true // of git
	}
	return slices.Sorted(maps.Keys(all))
}

// Remedy returns the flag of the command line that allows connections to a port of a name; with
// port 0 those to the default ports. If a named list has the name, the flag names the list; for
// NAME.wolffia it is the one that adds a header.
func Remedy(name string, port uint16) string {
	if host, local := strings.CutSuffix(name, LocalSuffix); local {
		return "--header " + host + ":HEADER=@FILE"
	}
	list := "" // with the shortest name: "crates", not "crates-git"
	for _, l := range lists {
		for _, host := range l.Hosts {
			n, ports, err := splitRule(host)
			has := err == nil && n == name && (port == 0 || rule{ports: ports}.has(port))
			if has && (list == "" || len(l.Name) < len(list)) {
				list = l.Name
			}
		}
	}
	if list != "" {
		return "--allow-host @" + list
	}
	if port == 0 || (rule{ports: defaultPorts}).has(port) {
		return "--allow-host " + name
	}
	return fmt.Sprintf("--allow-host %s:%d", name, port)
}

// Targets returns what an answer to a question about a port of a name may allow, as entries of
// [Policy].Allow, from the narrowest. wide says that the domain of the name may be among them.
func Targets(name, port string, wide bool) []string {
	targets := []string{name + ":" + port}
	if port == "80" || port == "443" {
		targets = append(targets, name)
	}
	if _, domain, more := strings.Cut(name, "."); more && wide {
		targets = append(targets, "*."+domain+":"+port)
	}
	return targets
}
