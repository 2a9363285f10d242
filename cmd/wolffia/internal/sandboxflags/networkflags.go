package sandboxflags

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"wolffia/cmd/wolffia/internal/host"
	"wolffia/network"
	"wolffia/policy"
	"wolffia/runtime"
	"wolffia/service"
)

// The flags about the network.
const (
	flagNetwork    = "network"
	FlagAllowHost  = "allow-host"
	flagAddHost    = "add-host"
	flagNoSNICheck = "no-sni-check"
	FlagHeader     = "header"
	flagUpstream   = "upstream-proxy"
	flagMirror     = "mirror"
)

// NameFlags are those that name what a filtered network reaches.
var NameFlags = []string{FlagAllowHost, flagAddHost, flagNoSNICheck, FlagHeader}

// Named reports whether there are names to filter by.
func (f *Sandbox) Named() bool {
	return f.Learn || slices.ContainsFunc(NameFlags, func(name string) bool { return len(f.List(name)) > 0 })
}

// applyNetwork sets the network of a configuration.
func (f *Sandbox) applyNetwork(c *runtime.SandboxConfig) error {
	c.Network = runtime.Network(f.Text(flagNetwork))
	if !f.Named() {
		p := &network.Policy{Upstream: f.Text(flagUpstream)}
		if p.Upstream != "" {
			if _, err := p.Compile(); err != nil { // it may count later
				return runtime.WithClass(runtime.ErrInvalid, err)
			}
		}
		if c.Network == runtime.NetworkFiltered {
			c.Egress = p // names may come later
		}
		return nil
	}
	if !f.flags.Changed(flagNetwork) {
		c.Network = runtime.NetworkFiltered
	}
	if c.Network == runtime.NetworkNone || c.Network == runtime.NetworkHost {
		flag := FlagAllowHost
		for _, name := range NameFlags {
			if len(f.List(name)) > 0 {
				flag = name
				break
			}
		}
		return runtime.Errorf(runtime.ErrInvalid, "--%s and --network %s exclude each other: only --network filtered allows hosts by name; leave one of them out", flag, c.Network)
	}
	var err error
	c.Egress, err = f.Egress()
	return err
}

// applyFile adds what the policy file of made allows, if it has names, to a configuration with the
// flags. A network without names counts more if it was typed, or if it is none: then the file's
// names are left out.
func (f *Sandbox) applyFile(h *host.Host, c *runtime.SandboxConfig, made *policy.Policy) {
	set := f.flags.Changed(flagNetwork)
	typed := set && f.origins[flagNetwork] == ""
	if set && c.Network == runtime.NetworkNone || typed && c.Network == runtime.NetworkHost {
		made.Egress = nil
	}
	if made.Egress == nil {
		return
	}
	p := made.Egress
	if c.Egress != nil {
		p.Add(c.Egress)
		p.Learn = c.Egress.Learn
	}
	f.addMirrors(p)
	p.Upstream = f.Text(flagUpstream)
	c.Network, c.Egress, f.FromFile = runtime.NetworkFiltered, p, true
}

// Egress returns what the flags allow.
func (f *Sandbox) Egress() (*network.Policy, error) {
	p := &network.Policy{NoNameCheck: f.List(flagNoSNICheck), Learn: f.Learn, Upstream: f.Text(flagUpstream)}
	allow(p, f.List(FlagAllowHost)...)
	f.addMirrors(p)
	for _, s := range f.List(flagAddHost) {
		name, address, err := parseAddHost(s)
		if err != nil {
			return nil, err
		}
		if p.Hosts == nil {
			p.Hosts = map[string]string{}
		}
		p.Hosts[name] = address
	}
	for _, s := range f.List(FlagHeader) {
		h, err := parseHeader(s)
		if err != nil {
			return nil, err
		}
		p.Headers = append(p.Headers, h)
	}
	return p, nil
}

// allow adds the values of --allow-host to a policy.
func allow(p *network.Policy, values ...string) {
	for _, s := range values {
		entry, private := strings.CutSuffix(s, network.PrivateSuffix)
		p.Allow = append(p.Allow, entry)
		if private {
			name, _, _ := strings.Cut(entry, ":")
			p.Private = append(p.Private, name)
		}
	}
}

// addMirrors adds the hosts of --mirror whose list a policy allows.
func (f *Sandbox) addMirrors(p *network.Policy) {
	for _, s := range f.List(flagMirror) {
		list, host, _ := strings.Cut(s, "=")
		if slices.Contains(p.Allow, "@"+strings.TrimPrefix(list, "@")) {
			allow(p, host)
		}
	}
}

// parseAddHost reads NAME:ADDR.
func parseAddHost(s string) (name, address string, err error) {
	if name, address, err = network.ParseHost(s); err != nil {
		err = runtime.Errorf(runtime.ErrInvalid, "--%s %q: %w", flagAddHost, s, err)
	}
	return name, address, err
}

// parseHeader reads NAME:HEADER=@FILE. A shell leaves a ~ in it as it is.
func parseHeader(s string) (network.Header, error) {
	var h network.Header
	name, rest, ok := strings.Cut(s, ":")
	header, file, ok2 := strings.Cut(rest, "=@")
	if !ok || !ok2 || name == "" || header == "" || file == "" {
		return h, runtime.Errorf(runtime.ErrInvalid, "--%s %q: it must be NAME:HEADER=@FILE, with the header's value in FILE, such as github.com:Authorization=@token", FlagHeader, s)
	}
	if below, is := strings.CutPrefix(file, "~/"); is {
		home, err := os.UserHomeDir()
		if err != nil {
			return h, runtime.Errorf(runtime.ErrInvalid, "--%s %q: HOME is not set: write the file's whole path", FlagHeader, s)
		}
		file = filepath.Join(home, below)
	}
	file, err := filepath.Abs(file)
	if err != nil {
		return h, err
	}
	if st, err := os.Stat(file); err != nil || !st.Mode().IsRegular() {
		return h, runtime.Errorf(runtime.ErrInvalid, "--%s %q: %s is not a file that can be read: write the header's value into it", FlagHeader, s, file)
	}
	return network.Header{Name: name, Header: header, File: file}, nil
}

// MayReach returns why a request to the service must not give its sandbox a network, or nil:
// what the flags of serve say holds, and what is of this host only they can allow.
func (f *Sandbox) MayReach(p *service.Params) error {
	denied := func(format string, args ...any) error {
		return runtime.Errorf(runtime.ErrDenied, format, args...)
	}
	switch e := p.Egress; {
	case f.Named() || f.FromFile || f.flags.Changed(flagNetwork):
		return denied("network %q: the flags and the policy file of wolffia serve say what the sandboxes reach: leave network and egress out, or start wolffia serve without these", p.Network)
	case p.Network == runtime.NetworkHost:
		return denied("network %q: only wolffia serve --network host gives it: use %q with egress", p.Network, runtime.NetworkFiltered)
	case e != nil && len(e.Hosts) > 0:
		return denied("egress.hosts: they can be addresses of this host: only wolffia serve --%s gives them", flagAddHost)
	case e != nil && len(e.Private) > 0:
		return denied("egress.private: only wolffia serve --%s NAME@private gives addresses of this host's network", FlagAllowHost)
	case e != nil && len(e.Headers) > 0:
		return denied("egress.headers: they are files of this host: only wolffia serve --%s gives them", FlagHeader)
	case e != nil && e.Upstream != "":
		return denied("egress.upstream: it can be a service of this host: only wolffia serve --%s gives it", flagUpstream)
	case e != nil && e.Learn:
		return denied("egress.learn: it allows all public hosts: name those that are needed in egress.allow")
	}
	return nil
}
