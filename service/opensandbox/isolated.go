package opensandbox

import (
	"net/http"

	"wolffia/service"
)

// A capabilityReply says whether there are sandboxes in sandboxes.
type capabilityReply struct {
	Available bool   `json:"available"`
	Message   string `json:"message"`
	Setpriv   bool   `json:"setpriv_available"`
	Userns    bool   `json:"userns_available"`
	Commit    bool   `json:"commit_supported"`
	Diff      bool   `json:"diff_supported"`
}

const noIsolated = "isolated sessions: a sandbox here is isolated itself, and costs as little: create a sandbox for each session"

const noOperations = "operations: the service does not name commands by the client's ids: use POST /command with background"

// isolation serves GET /v1/isolated/capabilities.
func (d *execd) isolation(w http.ResponseWriter, _ *http.Request, _ *service.Inside) error {
	d.opts.JSON(w, http.StatusOK, capabilityReply{Message: noIsolated})
	return nil
}

// without returns the function that serves what has no meaning here, or is not built, in a running
// sandbox.
func without(reason string) func(*execd, http.ResponseWriter, *http.Request, *service.Inside) error {
	return func(*execd, http.ResponseWriter, *http.Request, *service.Inside) error {
		return unsupported("%s", reason)
	}
}
