package opensandbox

import (
	"net/http"

	"wolffia/service"
)

// patchMetadata serves PATCH /v1/sandboxes/{id}/metadata: a label whose value is null is removed,
// others are added or replaced.
func (h *Handler) patchMetadata(w http.ResponseWriter, r *http.Request) error {
	var patch map[string]*string
	if err := h.decode(w, r, smallBody, &patch); err != nil {
		return err
	}
	if patch == nil {
		return &fault{http.StatusBadRequest, "INVALID_REQUEST_BODY", "the request's body must be a JSON object: labels, and null for those to remove"}
	}
	set := map[string]string{}
	for k, v := range patch {
		set[k] = ""
		if v != nil {
			set[k] = *v
		}
	}
	if err := checkMetadata(set); err != nil {
		return err
	}
	s, err := h.service.ChangeMetadata(r.Context(), service.CallerOf(r.Context()), r.PathValue("id"), patch)
	if err != nil {
		return err
	}
	h.opts.JSON(w, http.StatusOK, h.describe(s))
	return nil
}
