package network

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Add adds what another policy allows.
func (p *Policy) Add(more *Policy) {
	union := func(to *[]string, values []string) {
		for _, v := range values {
			if !slices.Contains(*to, v) {
				*to = append(*to, v)
			}
		}
	}
	union(&p.Allow, more.Allow)
	union(&p.NoNameCheck, more.NoNameCheck)
	union(&p.Private, more.Private)
	for name, address := range more.Hosts {
		maps.DeleteFunc(p.Hosts, func(old, _ string) bool { return sameName(old, name) })
		if p.Hosts == nil {
			p.Hosts = map[string]string{}
		}
		p.Hosts[name] = address
	}
	for _, h := range more.Headers {
		p.Headers = slices.DeleteFunc(p.Headers, func(old Header) bool {
			return sameName(old.Name, h.Name) && strings.EqualFold(old.Header, h.Header)
		})
		p.Headers = append(p.Headers, h)
	}
}

// sameName reports whether two texts are the same name of a host.
func sameName(a, b string) bool {
	x, err := NormalName(a)
	y, err2 := NormalName(b)
	return a == b || err == nil && err2 == nil && x == y
}

// Remove removes the rules for a rule or a name from the policy, and reports whether it removed
// any.
func (p *Policy) Remove(rule string) (found bool) {
	is := func(entry string) bool {
		name, _, ports := strings.Cut(entry, ":")
		return entry == rule || ports && !strings.Contains(rule, ":") && sameName(name, rule) || sameName(entry, rule)
	}
	remove := func(list *[]string) {
		n := len(*list)
		*list = slices.DeleteFunc(*list, is)
		found = found || len(*list) < n
	}
	remove(&p.Allow)
	remove(&p.NoNameCheck)
	remove(&p.Private)
	hosts, headers := len(p.Hosts), len(p.Headers)
	maps.DeleteFunc(p.Hosts, func(name, _ string) bool { return is(name) })
	p.Headers = slices.DeleteFunc(p.Headers, func(h Header) bool { return is(h.Name) })
	return found || len(p.Hosts) < hosts || len(p.Headers) < headers
}

// StillAllowed returns the rule that allows a name, other than the rule of that name, for a
// message. It returns "" if no rule does.
func (p *Policy) StillAllowed(rule string) string {
	name, _, _ := strings.Cut(rule, ":")
	name, err := NormalName(name)
	c, err2 := p.Compile()
	if err != nil || err2 != nil || !c.Known(name) {
		return ""
	}
	for _, port := range c.Ports() {
		if entry, ok := c.Rule(name, port); ok {
			return fmt.Sprintf(" is allowed by %q", entry)
		}
	}
	return ""
}

// A Reach is one statement of a policy about a name.
type Reach struct{ What, Name, Value string }

// Reaches returns the statements of a policy, which may be nil, one for each name.
func (p *Policy) Reaches() (all []Reach) {
	if p == nil {
		return nil
	}
	for _, entry := range p.Allow {
		value := p.Sources[entry]
		for _, l := range Lists() {
			if entry == "@"+l.Name {
				value = strings.Join(l.Hosts, " ")
			}
		}
		all = append(all, Reach{"allow", entry, value})
	}
	for _, name := range slices.Sorted(maps.Keys(p.Hosts)) {
		all = append(all, Reach{"address", name, p.Hosts[name]})
	}
	for _, name := range p.Private {
		all = append(all, Reach{"private", name, "may lead to private addresses"})
	}
	for _, name := range p.NoNameCheck {
		all = append(all, Reach{"no check", name, "of the name in TLS and HTTP"})
	}
	if p.Upstream != "" {
		all = append(all, Reach{"proxy", p.Upstream, "makes the connections"})
	}
	for _, h := range p.Headers {
		all = append(all, Reach{"header", h.Name, h.Header + " of " + h.File})
	}
	return all
}
