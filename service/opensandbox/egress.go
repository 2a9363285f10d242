package opensandbox

import (
	"net/http"

	"wolffia/runtime"
	"wolffia/service/gate"
)

// policy serves GET /policy of a sandbox's egress proxy: what the network of the sandbox is.
func (h *Handler) policy(w http.ResponseWriter, r *http.Request) error {
	s, err := h.fleet.Get(r.Context(), gate.CallerOf(r.Context()), r.PathValue("id"))
	if err != nil {
		return err
	}
	reply := map[string]any{
		"status": "active", "mode": "deny_all", "enforcementMode": "network-namespace",
		"reason": "the sandbox has a network of its own, without a way out",
		"policy": networkPolicy{"deny", []egressRule{}},
	}
	if s.Network == runtime.NetworkHost {
		reply = map[string]any{
			"status": "inactive", "mode": "allow_all", "enforcementMode": "none", "reason": "the sandbox has the network of the host",
			"policy": networkPolicy{"allow", []egressRule{}},
		}
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
