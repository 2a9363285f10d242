package runtime

import "testing"

// A port of a sandbox with the host's network must lead to a server, not to a port that wolffia listens at.
func TestCircular(t *testing.T) {
	for what, c := range map[string]struct {
		ports []Publish
		want  int // index of the port; -1: none
	}{
		"none":              {nil, -1},
		"another":           {[]Publish{{Local: 8080, Port: 80}}, -1},
		"itself":            {[]Publish{{Local: 1, Port: 2}, {Local: 8080, Port: 8080}}, 1},
		"all addresses":     {[]Publish{{Address: "0.0.0.0", Local: 80, Port: 80}}, 0},
		"IPv6":              {[]Publish{{Address: "::1", Local: 80, Port: 80}}, 0},
		"all of IPv6":       {[]Publish{{Address: "::", Local: 80, Port: 80}}, 0},
		"mapped":            {[]Publish{{Address: "::ffff:127.0.0.1", Local: 80, Port: 80}}, 0},
		"another address":   {[]Publish{{Address: "127.0.0.2", Local: 80, Port: 80}}, -1},
		"another interface": {[]Publish{{Address: "192.0.2.1", Local: 80, Port: 80}}, -1},
		"a circle":          {[]Publish{{Local: 1, Port: 2}, {Local: 2, Port: 1}}, 0},
		"a chain":           {[]Publish{{Local: 8080, Port: 9090}, {Local: 9090, Port: 80}}, -1},
		"into a circle":     {[]Publish{{Local: 1, Port: 2}, {Local: 3, Port: 3}, {Local: 2, Port: 3}}, 0},
		"free":              {[]Publish{{Local: 0, Port: 80}}, -1},
	} {
		got := Circular(c.ports)
		if c.want < 0 && got != nil || c.want >= 0 && got != &c.ports[c.want] {
			t.Errorf("%s: got %+v; want (c.want >= 0 or got == nil) and (c.want < 0 or got == &c.ports[c.want])", what, got)
		}
		config := SandboxConfig{MountPoint: "/w", Network: NetworkHost, Publish: c.ports}
		if err := config.Validate(); what != "free" && (err != nil) != (c.want >= 0) {
			t.Errorf("%s, host: %v", what, err)
		}
		config.Network = NetworkNone
		if err := config.Validate(); what != "free" && err != nil {
			t.Errorf("%s, no network: %v", what, err)
		}
	}
}
