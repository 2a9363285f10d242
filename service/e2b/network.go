package e2b

import (
	"encoding/json"
	"net/http"
	"net/netip"
	"slices"

	"wolffia/network"
	"wolffia/runtime"
	"wolffia/service"
	"wolffia/service/e2b/fault"
)

// reach is what a request says of the network of a sandbox.
type reach struct {
	Internet *bool           `json:"allow_internet_access"`
	Network  *networkRequest `json:"network"`
}

// A networkRequest is what a sandbox is to reach, and to be reached by.
type networkRequest struct {
	AllowOut []string `json:"allowOut,omitempty"`
	DenyOut  []string `json:"denyOut,omitempty"`
	Public   *bool    `json:"allowPublicTraffic,omitempty"`

	// The others are refused.
	Rules      map[string]json.RawMessage `json:"rules,omitempty"`
	Proxy      json.RawMessage            `json:"egressProxy,omitempty"`
	MaskHost   string                     `json:"maskRequestHost,omitempty"`
	HTTPSPorts []int                      `json:"httpsPorts,omitempty"`
	DNS        []string                   `json:"dnsServers,omitempty"`
}

// everything is E2B's word for all addresses.
const everything = "0.0.0.0/0"

// of returns the network that a request asks for; empty: that of the service.
func (q *reach) of() (runtime.Network, *network.Policy, error) {
	none := q.Internet != nil && !*q.Internet
	n := q.Network
	if n == nil {
		n = &networkRequest{}
	}
	switch {
	case len(n.Rules) > 0:
		return "", nil, fault.Invalid("network.rules: only wolffia serve --header adds headers to what a sandbox sends")
	case len(n.Proxy) > 0 && string(n.Proxy) != "null":
		return "", nil, fault.Invalid("network.egressProxy: only wolffia serve --upstream-proxy gives sandboxes one")
	case n.MaskHost != "" || len(n.HTTPSPorts) > 0:
		return "", nil, fault.Invalid("network.maskRequestHost, httpsPorts: a server inside gets HTTP for localhost:PORT")
	case len(n.DNS) > 0:
		return "", nil, fault.Invalid("network.dnsServers: names are resolved outside of the sandbox, by the host's resolver")
	}
	if len(n.AllowOut) > 0 {
		egress, err := names(n.AllowOut)
		return runtime.NetworkFiltered, egress, err // what is not allowed is denied
	}
	for _, d := range n.DenyOut {
		if d != everything {
			return "", nil, fault.Invalid("network.denyOut %q: deny %s, or name in network.allowOut what is allowed", d, everything)
		}
		none = true
	}
	if none {
		return runtime.NetworkNone, nil, nil
	}
	return "", nil, nil
}

// names returns the policy that allows names, on the default ports.
func names(allow []string) (*network.Policy, error) {
	for _, name := range allow {
		_, notPrefix := netip.ParsePrefix(name)
		_, notAddr := netip.ParseAddr(name)
		if notPrefix == nil || notAddr == nil {
			return nil, fault.Invalid("network.allowOut %q: it must be a name: only wolffia serve --network host gives addresses", name)
		}
	}
	p := &network.Policy{Allow: slices.Clone(allow)}
	if _, err := p.Compile(); err != nil {
		return nil, fault.Invalid("network.allowOut: %v", err)
	}
	return p, nil
}

// changeNetwork serves PUT /sandboxes/{id}/network, which replaces what a sandbox can reach.
func (h *Handler) changeNetwork(w http.ResponseWriter, r *http.Request) error {
	var flat struct {
		networkRequest
		Internet *bool `json:"allow_internet_access"`
	}
	if err := h.decode(w, r, &flat); err != nil {
		return err
	}
	if flat.Public != nil {
		return fault.Invalid("network.allowPublicTraffic: it is as in the request that has created the sandbox, and stays")
	}
	q := reach{flat.Internet, &flat.networkRequest}
	kind, egress, err := q.of()
	if err != nil {
		return err
	}
	b, err := h.sandbox(r)
	switch {
	case err != nil:
		return err
	case kind == "":
		return fault.Invalid("network: the sandbox would reach everything: name hosts in allowOut, or deny %s", everything)
	case kind == runtime.NetworkNone && b.Network == runtime.NetworkNone:
		h.reply(w, http.StatusNoContent, nil)
		return nil
	case b.Network != runtime.NetworkFiltered:
		return fault.Invalid("network: that of sandbox %s, %s, stays: create one with network.allowOut", b.ID, b.Network)
	case egress == nil:
		egress = &network.Policy{}
	}
	_, err = h.service.ChangeEgress(r.Context(), service.CallerOf(r.Context()), b.ID, func(p *network.Policy) error {
		p.Allow = egress.Allow
		return nil
	})
	if err != nil {
		return err
	}
	h.reply(w, http.StatusNoContent, nil)
	return nil
}
