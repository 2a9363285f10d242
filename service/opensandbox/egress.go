package opensandbox

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"strings"

	"wolffia/network"
	"wolffia/runtime"
	"wolffia/service"
)

// A policyReply says what the network of a sandbox is.
type policyReply struct {
	Status          string        `json:"status"`
	Mode            string        `json:"mode"`
	EnforcementMode string        `json:"enforcementMode"`
	Reason          string        `json:"reason"`
	Policy          networkPolicy `json:"policy"`
}

// policy serves GET /policy of a sandbox's egress proxy: what the network of the sandbox is.
func (h *Handler) policy(w http.ResponseWriter, r *http.Request) error {
	s, err := h.service.Get(r.Context(), service.CallerOf(r.Context()), r.PathValue("id"))
	if err != nil {
		return err
	}
	reply, err := h.policyOf(r.Context(), s)
	if err != nil {
		return err
	}
	h.opts.JSON(w, http.StatusOK, reply)
	return nil
}

// policyOf describes the network of a sandbox.
func (h *Handler) policyOf(ctx context.Context, s *service.Sandbox) (*policyReply, error) {
	switch s.Network {
	case runtime.NetworkHost:
		return &policyReply{"inactive", "allow_all", "none", "the sandbox has the network of the host", networkPolicy{"allow", []egressRule{}}}, nil
	case runtime.NetworkFiltered:
		p, err := h.service.Egress(ctx, service.CallerOf(ctx), s.ID)
		if err != nil {
			return nil, err
		}
		return filteredPolicy(p), nil
	}
	return &policyReply{
		"active", "deny_all", "network-namespace", "the sandbox has a network of its own, without a way out",
		networkPolicy{"deny", []egressRule{}},
	}, nil
}

// filteredPolicy describes what a sandbox with a filtered network can reach.
func filteredPolicy(p *network.Policy) *policyReply {
	reply := &policyReply{
		"active", "enforcing", "network-namespace", "the sandbox has a network of its own, with a gateway that connects to the names of the policy",
		networkPolicy{"deny", []egressRule{}},
	}
	if p == nil {
		return reply
	}
	if p.Learn {
		reply.Mode, reply.Reason, reply.Policy.DefaultAction = "learn", "the sandbox reaches all public names: what no rule allows is reported", "allow"
	}
	names := slices.AppendSeq(slices.Clone(p.Allow), maps.Keys(p.Hosts))
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		reply.Policy.Egress = append(reply.Policy.Egress, egressRule{"allow", name})
	}
	return reply
}

// patchPolicy serves PATCH /policy: rules that are added. The first one for a target counts.
func (h *Handler) patchPolicy(w http.ResponseWriter, r *http.Request) error {
	var rules []egressRule
	if err := h.decode(w, r, smallBody, &rules); err != nil {
		return err
	}
	return h.changePolicy(w, r, rules)
}

// trimPolicy serves DELETE /policy: targets whose rules are removed.
func (h *Handler) trimPolicy(w http.ResponseWriter, r *http.Request) error {
	var targets []string
	if err := h.decode(w, r, smallBody, &targets); err != nil {
		return err
	}
	var rules []egressRule
	for _, t := range targets {
		rules = append(rules, egressRule{remove, t})
	}
	return h.changePolicy(w, r, rules)
}

// replacePolicy serves PUT /v1/sandboxes/{id}/networkpolicy: all that a sandbox
// can reach from now on.
func (h *Handler) replacePolicy(w http.ResponseWriter, r *http.Request) error {
	var q networkPolicy
	if err := h.decode(w, r, smallBody, &q); err != nil {
		return err
	}
	_, egress, err := q.reach()
	if err != nil {
		return err
	}
	return h.editPolicy(w, r, func(*network.Policy) ([]string, error) {
		if egress == nil {
			return nil, nil
		}
		return egress.Allow, nil
	})
}

// remove is the action of a rule that only takes back the rule for its target.
const remove = "remove"

// changePolicy applies rules to what a sandbox can reach, and answers with the new policy.
func (h *Handler) changePolicy(w http.ResponseWriter, r *http.Request, rules []egressRule) error {
	s, err := h.service.Get(r.Context(), service.CallerOf(r.Context()), r.PathValue("id"))
	if err != nil {
		return err
	}
	if s.Network != runtime.NetworkFiltered && !slices.ContainsFunc(rules, func(e egressRule) bool { return e.Action == "allow" }) {
		if s.Network == runtime.NetworkHost && len(rules) > 0 {
			return unsupported("policy: the sandbox has the network of the host, where nothing can be denied")
		}
		return h.policy(w, r) // nothing was allowed
	}
	return h.editPolicy(w, r, func(p *network.Policy) (allow []string, err error) { return changed(p, rules) })
}

// editPolicy has a sandbox reach what edit returns, and answers with the new policy.
func (h *Handler) editPolicy(w http.ResponseWriter, r *http.Request, edit func(*network.Policy) ([]string, error)) error {
	p, err := h.service.ChangeEgress(r.Context(), service.CallerOf(r.Context()), r.PathValue("id"), func(p *network.Policy) (err error) {
		p.Allow, err = edit(p)
		return err
	})
	if err == nil {
		h.opts.JSON(w, http.StatusOK, filteredPolicy(p))
	}
	return err
}

// changed returns the targets that a policy allows after rules were applied. A rule that denies
// what another one allows is refused.
func changed(p *network.Policy, rules []egressRule) ([]string, error) {
	allow, seen := slices.Clone(p.Allow), map[string]bool{}
	var denied []string
	for _, e := range rules {
		if e.Action != "allow" && e.Action != "deny" && e.Action != remove {
			return nil, invalid("policy: action %q: it must be \"allow\" or \"deny\"", e.Action)
		}
		target := normalTarget(e.Target)
		if seen[target] {
			continue
		}
		seen[target] = true
		allow = slices.DeleteFunc(allow, func(t string) bool { return normalTarget(t) == target })
		switch e.Action {
		case "allow":
			allow = append(allow, e.Target)
		case "deny":
			denied = append(denied, e.Target)
		}
	}
	after := *p
	after.Allow = allow
	compiled, err := after.Compile()
	if err != nil {
		return nil, invalid("policy: %v", err)
	}
	for _, t := range denied {
		if len(allow)+len(p.Hosts) > 0 && mayBeKnown(compiled, t) {
			return nil, unsupported("policy: %q: another rule allows it, and a rule cannot take back what another allows: allow the names that are needed one by one", t)
		}
	}
	return allow, nil
}

// normalTarget returns the form in which targets are compared: that of the name, with *. before and ports behind it as
// they are. What is no target stays as it is.
func normalTarget(target string) string {
	name, ports, has := strings.Cut(target, ":")
	domain, wild := strings.CutPrefix(name, "*.")
	normal, err := network.NormalName(domain)
	if err != nil {
		return target
	}
	if wild {
		normal = "*." + normal
	}
	if has {
		normal += ":" + ports
	}
	return normal
}

func noTemplates(*Handler, http.ResponseWriter, *http.Request) error {
	return unsupported("templates: a sandbox is made of an image: use wolffia build or wolffia commit, and name the image")
}

func noVault(*Handler, http.ResponseWriter, *http.Request) error {
	return unsupported("credential-vault: the service stores no credentials for sandboxes")
}
