package network

import (
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
)

// MaxPorts is the maximum number of different ports in the rules of a policy: a listener
// inside the sandbox belongs to each.
const MaxPorts = 256

// A Policy is the list of destinations of a sandbox with a filtered network. The zero Policy
// allows nothing. It is a value without references to the outside; see the package's comment for
// the syntax of names and rules.
type Policy struct {
	// Allow are the rules: "NAME[:PORTS]", "*.DOMAIN[:PORTS]", "@LIST". PORTS is a list of
	// ports and ranges, as "443", "80,443", "8000-8010"; without it, 80 and 443.
	Allow []string `json:"allow,omitempty"`
	// Sources say where entries of Allow come from that an answer has added, for people.
	Sources map[string]string `json:"sources,omitempty"`
	// Hosts gives names addresses of their own, private ones and loopback too. The host's
	// resolver is not asked for such a name. A name that no rule of Allow has is allowed on
	// the default ports.
	Hosts map[string]string `json:"hosts,omitempty"`
	// Private are the names that may lead to private addresses (RFC 1918, unique local, 100.64/10),
	// as Allow has them without ports, or "@LIST". They allow nothing by themselves. Addresses of
	// this host, of loopback and of clouds' metadata stay refused.
	Private []string `json:"private,omitempty"`
	// NoNameCheck are the names for which neither the server name of TLS nor the Host header
	// of HTTP is checked.
	NoNameCheck []string `json:"noNameCheck,omitempty"`
	// Headers are the secrets that stay outside: http://NAME.wolffia inside is https://NAME
	// outside, with the header added.
	Headers []Header `json:"headers,omitempty"`
	// Upstream is an HTTP proxy that makes the connections, "http://HOST:PORT"; "" means none. It
	// resolves the names, so that only it can refuse addresses. Names of Hosts do not go through
	// it.
	Upstream string `json:"upstream,omitempty"`
	// Learn allows all names with public addresses, on the ports of the rules and the default
	// ports. What no rule allows is reported nonetheless.
	Learn bool `json:"learn,omitempty"`
	// Ask has names exist that no rule allows, and ports 22, 80 and 443 listened at, so that
	// each connection can be asked for. It allows nothing.
	Ask bool `json:"-"`
}

// PrivateSuffix is what a flag, or a line of a configuration file, has behind an entry of Allow
// that is one of Private, too.
const PrivateSuffix = "@private"

// A Header is an HTTP header that is added, outside the sandbox, to each request for a name. It
// permits the requests at NAME.wolffia without a rule, and no connection to NAME.
type Header struct {
	Name   string `json:"name"`   // of the host, exact
	Header string `json:"header"` // such as Authorization
	File   string `json:"file"`   // absolute path on the host of the file with the value; read at each request
}

// Compile checks a policy and prepares it for decisions. It does not retain the Policy. An error
// names the entry, the problem and the fix.
func (p *Policy) Compile() (*Compiled, error) {
	c := &Compiled{
		exact:   map[string][]rule{},
		below:   map[string][]rule{},
		hosts:   map[string]netip.Addr{},
		blind:   map[string]bool{},
		private: map[string]bool{},
		headers: map[string][]Header{},
		learn:   p.Learn,
		ask:     p.Ask,
	}
	for _, entry := range p.Allow {
		if err := c.allow(entry); err != nil {
			return nil, fmt.Errorf("network rule %q: %w", entry, err)
		}
	}
	for name, address := range p.Hosts {
		if err := c.host(name, address); err != nil {
			return nil, fmt.Errorf("network host %q: %w", name+":"+address, err)
		}
	}
	for _, entry := range p.Private {
		if err := c.allowPrivate(entry); err != nil {
			return nil, fmt.Errorf("network name with private addresses %q: %w", entry, err)
		}
	}
	for _, name := range p.NoNameCheck {
		normal, err := ruleName(name)
		if err != nil {
			return nil, fmt.Errorf("network name without check %q: %w", name, err)
		}
		c.blind[normal] = true
	}
	for _, h := range p.Headers {
		if err := c.header(h); err != nil {
			return nil, fmt.Errorf("network header %q of %q: %w", h.Header, h.Name, err)
		}
	}
	if p.Upstream != "" {
		var err error
		if c.upstream, err = upstream(p.Upstream); err != nil {
			return nil, fmt.Errorf("upstream proxy: %w", err) // not its text, which may have a password
		}
	}
	c.ports = c.collectPorts()
	if len(c.ports) > MaxPorts {
		return nil, fmt.Errorf("network rules: have %d different ports, %d are possible; narrow their ranges", len(c.ports), MaxPorts)
	}
	return c, nil
}

// allow adds an entry of Policy.Allow.
func (c *Compiled) allow(entry string) error {
	if list, is := strings.CutPrefix(entry, "@"); is {
		return c.allowList(list)
	}
	name, ports, err := splitRule(entry)
	if err != nil {
		return err
	}
	domain, wild := strings.CutPrefix(name, "*.")
	normal, err := ruleName(domain)
	if err != nil {
		return err
	}
	to := c.exact
	if wild {
		to = c.below
	}
	to[normal] = append(to[normal], rule{entry: entry, ports: ports})
	return nil
}

// allowPrivate adds an entry of Policy.Private.
func (c *Compiled) allowPrivate(entry string) error {
	if list, is := strings.CutPrefix(entry, "@"); is {
		i := slices.IndexFunc(lists, func(l List) bool { return l.Name == list })
		if i < 0 {
			return fmt.Errorf("no list has this name; the lists are @%s", strings.Join(listNames(), ", @"))
		}
		for _, host := range lists[i].Hosts {
			name, _, _ := strings.Cut(host, ":")
			c.private[name] = true
		}
		return nil
	}
	domain, wild := strings.CutPrefix(entry, "*.")
	normal, err := ruleName(domain)
	if err != nil {
		return err
	}
	if wild {
		normal = "*." + normal
	}
	c.private[normal] = true
	return nil
}

// allowList adds the rules of a named list, which then carry its name.
func (c *Compiled) allowList(name string) error {
	i := slices.IndexFunc(lists, func(l List) bool { return l.Name == name })
	if i < 0 {
		if meant := meantList(name); meant != "" {
			return fmt.Errorf("no list has this name: did you mean @%s?", meant)
		}
		return fmt.Errorf("no list has this name; the lists are @%s", strings.Join(listNames(), ", @"))
	}
	for _, host := range lists[i].Hosts {
		name, ports, err := splitRule(host)
		if err != nil {
			return err
		}
		c.exact[name] = append(c.exact[name], rule{entry: "@" + lists[i].Name, ports: ports})
	}
	return nil
}

// host adds an entry of Policy.Hosts.
func (c *Compiled) host(name, address string) error {
	normal, err := ruleName(name)
	if err != nil {
		return err
	}
	addr, err := netip.ParseAddr(address)
	switch {
	case err != nil:
		return fmt.Errorf("%q is not an address; write it as 10.0.0.5 or fd00::5", address)
	case addr.Zone() != "":
		return fmt.Errorf("address %s has a zone; leave out %%%s", address, addr.Zone())
	case addr.Unmap().IsUnspecified() || addr.Unmap().IsMulticast():
		return fmt.Errorf("address %s is of no single host; name the address of one", address)
	}
	if other, twice := c.hosts[normal]; twice && other != addr.Unmap() {
		return fmt.Errorf("the name has two addresses, %s too; leave one out", other)
	}
	c.hosts[normal] = addr.Unmap()
	if len(c.exact[normal]) == 0 && c.ruleBelow(normal) == nil {
		c.exact[normal] = []rule{{entry: normal + " (" + addr.String() + ")", ports: defaultPorts}}
	}
	return nil
}

// header adds an entry of Policy.Headers.
func (c *Compiled) header(h Header) error {
	name, err := ruleName(h.Name)
	if err != nil {
		return err
	}
	key, err := headerName(h.Header)
	switch {
	case err != nil:
		return err
	case !filepath.IsAbs(h.File):
		return fmt.Errorf("file %q: is a relative path; use an absolute one", h.File)
	case slices.ContainsFunc(c.headers[name], func(o Header) bool { return o.Header == key }):
		return fmt.Errorf("the name has this header twice; leave one out")
	}
	c.headers[name] = append(c.headers[name], Header{Name: name, Header: key, File: h.File})
	return nil
}
