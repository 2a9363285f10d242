package reach

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"wolffia/network"
)

// hosts returns the hosts of a list.
func hosts(t *testing.T, name string) []string {
	t.Helper()
	for _, l := range network.Lists() {
		if l.Name == name {
			return l.Hosts
		}
	}
	t.Fatalf("no list %s", name)
	return nil
}

func TestLists(t *testing.T) {
	name := func(list string) string { return strings.TrimSuffix(hosts(t, list)[0], ":443") }
	npm, node, models, modules := name("npm"), name("node"), name("huggingface"), hosts(t, "go")
	hex := name("hex")
	n := &Network{
		Lookup: func(_ context.Context, name string) ([]netip.Addr, error) {
			switch {
			case name == npm:
				return []netip.Addr{netip.MustParseAddr("10.1.2.3")}, nil
			case name == node, slices.Contains(modules, name+":443"):
				return []netip.Addr{netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("8.8.8.8")}, nil
			case name == models:
				return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
			}
			return nil, &net.DNSError{Err: "x", Name: name, IsTimeout: name == hex, IsNotFound: name != hex}
		},
		Dial: func(_ context.Context, address string) error {
			if address == node+":443" {
				return errors.New("refused")
			}
			return nil
		},
	}
	want := map[string][2]string{
		"@go":          {"", ""},
		"@npm":         {npm + " leads to a private address, 10.1.2.3\n", "--allow-host @npm@private"},
		"@node":        {node + ": port 443 does not answer\n", "if there is a mirror, in your configuration file: mirrors: {node: NAME}, or NAME@private"},
		"@huggingface": {models + " leads to a loopback address, 127.0.0.1\n", "if there is a mirror, in your configuration file: mirrors: {huggingface: NAME}, or NAME@private"},
	}
	for _, r := range n.Lists(t.Context()) {
		w, listed := want[r.Found]
		if listed && (r.Problem != w[0] || r.Fix != w[1] || r.OK != (w[0] == "")) || !listed && r.OK {
			t.Errorf("%+v, want %q", r, w)
		}
	}
	for _, r := range n.Lists(t.Context()) {
		if r.Found == "@hex" && !strings.Contains(r.Problem, hex+": this host's resolver does not answer in time\n") {
			t.Errorf("without an answer: %+v", r)
		}
	}
	n.Proxy = "http://user:secret@proxy.corp.example:3128/"
	for _, r := range n.Lists(t.Context()) {
		if r.Found == "@pypi" && r.Fix != "in your configuration file: upstream-proxy: http://proxy.corp.example:3128" {
			t.Errorf("behind a proxy: %+v", r)
		}
	}
}
