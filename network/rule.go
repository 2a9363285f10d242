package network

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// A rule allows ports of a name.
type rule struct {
	entry string // of the policy, for people
	ports []portRange
}

// A portRange is the ports from first to last.
type portRange struct{ first, last uint16 }

// defaultPorts are those of an entry without ports.
var defaultPorts = []portRange{{80, 80}, {443, 443}}

// has reports whether one of the ranges has a port.
func (r rule) has(port uint16) bool {
	return slices.ContainsFunc(r.ports, func(p portRange) bool { return p.first <= port && port <= p.last })
}

// splitRule splits NAME[:PORTS], and does not look at the name.
func splitRule(entry string) (name string, ports []portRange, err error) {
	name, text, has := strings.Cut(entry, ":")
	switch {
	case strings.Contains(entry, "/"):
		return "", nil, errors.New(`has a "/"; write only the name and its ports, as registry.example:443`)
	case strings.HasPrefix(entry, "["), strings.Contains(text, ":"):
		return "", nil, errAddress
	case !has:
		return name, defaultPorts, nil
	}
	ports, err = parsePorts(text)
	return name, ports, err
}

// ParseHost splits NAME:ADDR, an entry of [Policy.Hosts] as text. An IPv6 address may be in
// brackets. It does not check the name: [Policy.Compile] does.
func ParseHost(text string) (name, address string, err error) {
	name, address, ok := strings.Cut(text, ":")
	address = strings.TrimSuffix(strings.TrimPrefix(address, "["), "]")
	if _, err := netip.ParseAddr(address); !ok || name == "" || err != nil {
		return "", "", errors.New("it must be NAME:ADDR with an IP address, such as db.internal:127.0.0.1")
	}
	return name, address, nil
}

// parsePorts parses a list of ports and ranges.
func parsePorts(text string) ([]portRange, error) {
	var ports []portRange
	for part := range strings.SplitSeq(text, ",") {
		from, to, is := strings.Cut(part, "-")
		first, err := parsePort(from)
		if err != nil {
			return nil, err
		}
		last := first
		if is {
			if last, err = parsePort(to); err != nil {
				return nil, err
			}
		}
		if last < first {
			return nil, fmt.Errorf("ports %q: the range ends before it begins; write %d-%d", part, last, first)
		}
		ports = append(ports, portRange{first, last})
	}
	slices.SortFunc(ports, func(a, b portRange) int { return cmp.Compare(a.first, b.first) })
	return ports, nil
}

func parsePort(text string) (uint16, error) {
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil || n == 0 || text[0] == '+' {
		return 0, fmt.Errorf("port %q: is not a number from 1 to 65535; write ports as 443, 80,443 or 8000-8010", text)
	}
	return uint16(n), nil
}
