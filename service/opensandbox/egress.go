package opensandbox

import (
	"net/http"

	"wolffia/runtime"
	"wolffia/service/gate"
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
	s, err := h.fleet.Get(r.Context(), gate.CallerOf(r.Context()), r.PathValue("id"))
	if err != nil {
		return err
	}
	reply := policyReply{
		"active", "deny_all", "network-namespace", "the sandbox has a network of its own, without a way out",
		networkPolicy{"deny", []egressRule{}},
	}
	switch s.Network {
	case runtime.NetworkFiltered:
		return unsupported("policy: the service does not list the names that a sandbox reaches: wolffia network show %s does", s.ID)
	case runtime.NetworkHost:
		reply = policyReply{"inactive", "allow_all", "none", "the sandbox has the network of the host", networkPolicy{"allow", []egressRule{}}}
	}
	h.reply(w, http.StatusOK, reply)
	return nil
}

func fixedPolicy(h *Handler, _ http.ResponseWriter, r *http.Request) error {
	if _, err := h.fleet.Get(r.Context(), gate.CallerOf(r.Context()), r.PathValue("id")); err != nil {
		return err
	}
	return unsupported("policy: a sandbox's network cannot be changed while it exists")
}

func noVault(*Handler, http.ResponseWriter, *http.Request) error {
	return unsupported("credential-vault: the service stores no credentials for sandboxes")
}
