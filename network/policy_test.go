package network_test

import (
	"encoding/json"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"wolffia/network"
)

func compile(t *testing.T, p network.Policy) *network.Compiled {
	t.Helper()
	c, err := p.Compile()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestAllows(t *testing.T) {
	c := compile(t, network.Policy{
		Allow: []string{
			"a.example", "Ports.Example.:22,8000-8002", "*.wild.example:443", "*.deep.wild.example:9000",
			"both.example:22", "both.example:443", "bücher.example", "@debian", "over.example:5432",
		},
		Hosts:   map[string]string{"only.example": "127.0.0.1", "over.example": "10.0.0.5", "x.wild.example": "10.0.0.6"},
		Headers: []network.Header{{Name: "Secret.example", Header: "authorization", File: "/f"}},
	})
	for _, row := range []struct {
		name    string
		port    uint16
		allowed bool
	}{
		{"a.example", 80, true},
		{"a.example", 443, true},
		{"a.example", 22, false},
		{"a.example", 0, false},
		{"b.a.example", 443, false},
		{"example", 443, false},
		{"xa.example", 443, false},
		{"", 443, false},
		{"ports.example", 22, true},
		{"ports.example", 8000, true},
		{"ports.example", 8002, true},
		{"ports.example", 8003, false},
		{"ports.example", 443, false},
		{"wild.example", 443, false},
		{"x.wild.example", 443, true},
		{"x.y.wild.example", 443, true},
		{"xwild.example", 443, false},
		{"x.wild.example", 80, false},
		{"x.deep.wild.example", 9000, true},
		{"x.deep.wild.example", 443, true}, // both wildcards hold
		{"both.example", 22, true},
		{"both.example", 443, true},
		{"xn--bcher-kva.example", 443, true},
		{"deb.debian.org", 80, true},
		{"deb.debian.org", 22, false},
		{"only.example", 443, true},
		{"only.example", 5432, false},
		{"over.example", 5432, true},
		{"over.example", 443, false},
		{"secret.example.wolffia", 80, true},
		{"secret.example.wolffia", 443, false},
		{"secret.example", 443, false},
		{"other.example.wolffia", 80, false},
		{".wolffia", 80, false},
		{"wolffia", 80, false},
	} {
		if c.Allows(row.name, row.port) != row.allowed {
			t.Errorf("%s:%d: allowed is %v, want %v", row.name, row.port, !row.allowed, row.allowed)
		}
		if row.allowed && !c.Known(row.name) {
			t.Errorf("%s is not known", row.name)
		}
	}
	for _, name := range []string{"wild.example", "other", "example", "", "secret.example", "a.example."} {
		if c.Known(name) {
			t.Errorf("%q is known", name)
		}
	}
	if !c.Named("a.example") || c.Named("q.wild.example") || !c.Named("x.wild.example") || !c.Named("secret.example.wolffia") {
		t.Error("a name of the policy is not told from one that a wildcard has")
	}
	want := []uint16{22, 80, 443, 5432, 8000, 8001, 8002, 9000}
	if !slices.Equal(c.Ports(), want) {
		t.Errorf("ports %v, want %v", c.Ports(), want)
	}
	if addr, found := c.Host("over.example"); !found || addr != netip.MustParseAddr("10.0.0.5") {
		t.Error("no address of over.example", addr)
	}
	if h := c.Headers("secret.example"); len(h) != 1 || h[0].Header != "Authorization" {
		t.Error("headers", h)
	}
}

func TestZeroPolicyAllowsNothing(t *testing.T) {
	c := compile(t, network.Policy{})
	if c.Known("a.example") || c.Allows("a.example", 443) || len(c.Ports()) > 0 {
		t.Error("the zero policy allows something")
	}
}

func TestLearn(t *testing.T) {
	c := compile(t, network.Policy{Learn: true, Allow: []string{"a.example:22"}})
	if !c.Allows("any.example", 443) || !c.Allows("any.example", 22) || c.Allows("any.example", 23) {
		t.Error("a policy that learns does not allow just its ports and the default ones")
	}
	if _, ruled := c.Rule("any.example", 443); ruled {
		t.Error("a rule allows what is only learnt")
	}
	if c.Known("x.wolffia") || c.Known("wolffia") || c.Known("x.localhost") || c.Allows("x.wolffia", 80) {
		t.Error("names of wolffia's own are learnt")
	}
}

func TestCompileRefuses(t *testing.T) {
	header := func(name, header, file string) network.Policy {
		return network.Policy{Headers: []network.Header{{Name: name, Header: header, File: file}}}
	}
	for _, row := range []struct {
		policy network.Policy
		want   string // in the error
	}{
		{network.Policy{Allow: []string{""}}, "is not a host name"},
		{network.Policy{Allow: []string{"*"}}, "elsewhere than in *.DOMAIN"},
		{network.Policy{Allow: []string{"a.*.example"}}, "elsewhere than in *.DOMAIN"},
		{network.Policy{Allow: []string{"*.*.example"}}, "elsewhere than in *.DOMAIN"},
		{network.Policy{Allow: []string{"*."}}, "is not a host name"},
		{network.Policy{Allow: []string{"10.0.0.1"}}, "--add-host NAME:ADDRESS"},
		{network.Policy{Allow: []string{"10.0.0.1:80"}}, "--add-host NAME:ADDRESS"},
		{network.Policy{Allow: []string{"*.0.0.1"}}, "--add-host NAME:ADDRESS"},
		{network.Policy{Allow: []string{"[::1]:80"}}, "--add-host NAME:ADDRESS"},
		{network.Policy{Allow: []string{"::1"}}, "--add-host NAME:ADDRESS"},
		{network.Policy{Allow: []string{"2130706433"}}, "--add-host NAME:ADDRESS"},
		{network.Policy{Allow: []string{"0x7f000001"}}, "--add-host NAME:ADDRESS"},
		{network.Policy{Allow: []string{"0177.1"}}, "--add-host NAME:ADDRESS"},
		{network.Policy{Allow: []string{"https://a.example"}}, `has a "/"`},
		{network.Policy{Allow: []string{"a.example/path"}}, `has a "/"`},
		{network.Policy{Allow: []string{"a b.example"}}, "is not a host name"},
		{network.Policy{Allow: []string{"a..example"}}, "is not a host name"},
		{network.Policy{Allow: []string{"-a.example"}}, "is not a host name"},
		{network.Policy{Allow: []string{"xn--0.example"}}, "is not a host name"},
		{network.Policy{Allow: []string{strings.Repeat("a", 64) + ".example"}}, "is not a host name"},
		{network.Policy{Allow: []string{strings.Repeat("a.", 127) + "example"}}, "is not a host name"},
		{network.Policy{Allow: []string{"a.example:"}}, "from 1 to 65535"},
		{network.Policy{Allow: []string{"a.example:0"}}, "from 1 to 65535"},
		{network.Policy{Allow: []string{"a.example:65536"}}, "from 1 to 65535"},
		{network.Policy{Allow: []string{"a.example:https"}}, "from 1 to 65535"},
		{network.Policy{Allow: []string{"a.example:80,"}}, "from 1 to 65535"},
		{network.Policy{Allow: []string{"a.example:+80"}}, "from 1 to 65535"},
		{network.Policy{Allow: []string{"a.example:90-80"}}, "write 80-90"},
		{network.Policy{Allow: []string{"a.example:1-65535"}}, "narrow their ranges"},
		{network.Policy{Allow: []string{"@nmp"}}, "did you mean @npm?"},
		{network.Policy{Allow: []string{"@NPM"}}, "did you mean @npm?"},
		{network.Policy{Allow: []string{"@crate"}}, "did you mean @crates?"},
		{network.Policy{Allow: []string{"@pip"}}, "did you mean @pypi?"},
		{network.Policy{Allow: []string{"@"}}, "the lists are @alpine, "},
		{network.Policy{Allow: []string{"@nothing"}}, "no list has this name; the lists are @alpine, "},
		{network.Policy{Allow: []string{"x.wolffia"}}, "wolffia's own"},
		{network.Policy{Allow: []string{"localhost"}}, "the sandbox itself"},
		{network.Policy{Hosts: map[string]string{"a.example": "b.example"}}, "is not an address"},
		{network.Policy{Hosts: map[string]string{"a.example": "010.0.0.1"}}, "is not an address"},
		{network.Policy{Hosts: map[string]string{"a.example": "fe80::1%eth0"}}, "has a zone"},
		{network.Policy{Hosts: map[string]string{"a.example": "0.0.0.0"}}, "of no single host"},
		{network.Policy{Hosts: map[string]string{"a.example": "::ffff:224.0.0.1"}}, "of no single host"},
		{network.Policy{Hosts: map[string]string{"a.example": "10.0.0.1", "A.example": "10.0.0.2"}}, "two addresses"},
		{network.Policy{NoNameCheck: []string{"*.example"}}, "elsewhere than in"},
		{header("a.example", "A B", "/f"), "is not the name of a header"},
		{header("a.example", "", "/f"), "is not the name of a header"},
		{header("a.example", "host", "/f"), "belongs to the connection"},
		{header("a.example", "Content-length", "/f"), "belongs to the connection"},
		{header("a.example", "Authorization", "f"), "use an absolute one"},
		{header("a.example.wolffia", "Authorization", "/f"), "wolffia's own"},
	} {
		_, err := row.policy.Compile()
		if err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%+v: error %v, want one with %q", row.policy, err, row.want)
		}
	}
}

func TestJSON(t *testing.T) {
	text := `{"allow":["@npm"],"hosts":{"db.example":"10.0.0.5"},"noNameCheck":["a.example"],` +
		`"headers":[{"name":"a.example","header":"Authorization","file":"/f"}],"learn":true}`
	var p network.Policy
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		t.Fatal(err)
	}
	if again, err := json.Marshal(p); err != nil || string(again) != text {
		t.Errorf("json.Marshal: got %s, %v; want %s, nil", again, err, text)
	}
	if c := compile(t, p); c.ChecksName("a.example") || !c.ChecksName("db.example") {
		t.Error("the check of names")
	}
}

// Lists are in order, with rules that compile, each with a reason.
func TestLists(t *testing.T) {
	var before string
	for _, l := range network.Lists() {
		if l.Name <= before || len(l.Hosts) == 0 || l.Reason == "" {
			t.Errorf("list %q after %q: %v, %q", l.Name, before, l.Hosts, l.Reason)
		}
		before = l.Name
		c := compile(t, network.Policy{Allow: []string{"@" + l.Name}})
		for _, host := range l.Hosts {
			name, _, explicit := strings.Cut(host, ":")
			if normal, err := network.NormalName(name); err != nil || normal != name || !explicit {
				t.Errorf("list %q: host %q: %v", l.Name, host, err)
			}
			if entry, allowed := c.Rule(name, 443); !allowed || entry != "@"+l.Name {
				t.Errorf("list %q does not allow %s:443", l.Name, name)
			}
		}
	}
}

func TestRemedy(t *testing.T) {
	for _, row := range []struct {
		name string
		port uint16
		want string
	}{
		{"a.example", 443, "--allow-host a.example"},
		{"a.example", 0, "--allow-host a.example"},
		{"a.example", 22, "--allow-host a.example:22"},
		{"pypi.org", 443, "--allow-host @pypi"},
		{"pypi.org", 0, "--allow-host @pypi"},
		{"pypi.org", 80, "--allow-host pypi.org"},
	} {
		if got := network.Remedy(row.name, row.port); got != row.want {
			t.Errorf("%s:%d: %s, want %s", row.name, row.port, got, row.want)
		}
		flag := strings.TrimPrefix(network.Remedy(row.name, row.port), "--allow-host ")
		if c := compile(t, network.Policy{Allow: []string{flag}}); !c.Known(row.name) || row.port != 0 && !c.Allows(row.name, row.port) {
			t.Errorf("%s does not allow %s:%d", flag, row.name, row.port)
		}
	}
}

func TestUpstream(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "http://proxy.example:3128": "proxy.example:3128", "http://10.0.0.1": "10.0.0.1:80", "http://[::1]:8080/": "[::1]:8080",
	} {
		if c, err := (&network.Policy{Upstream: text}).Compile(); err != nil || c.Upstream() != want {
			t.Errorf("%q: got err %v; want err == nil and c.Upstream() == %v", text, err, want)
		}
	}
	for _, text := range []string{"proxy.example:3128", "https://proxy.example", "http://", "http://u:p@proxy.example", "http://a:0", "http://a:99999", "http://a/x", "socks5://a:1080", "http://a?b"} {
		if _, err := (&network.Policy{Upstream: text}).Compile(); err == nil {
			t.Errorf("%q is accepted", text)
		}
	}
}
