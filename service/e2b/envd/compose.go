package envd

import (
	"encoding/json"
	"net/http"

	"wolffia/internal/filecall"
	"wolffia/service/e2b/fault"
)

// A composeRequest is the body of POST /files/compose.
type composeRequest struct {
	Sources     []string `json:"source_paths"`
	Destination string   `json:"destination"`
	User        string   `json:"username"`
}

// compose serves POST /files/compose: it makes one file of several, and removes them.
func (h *Handler) compose(w http.ResponseWriter, r *http.Request) error {
	body, err := h.opts.Read(w, r, 1<<20)
	if err != nil {
		return err
	}
	var q composeRequest
	if json.Unmarshal(body, &q) != nil || len(q.Sources) == 0 || q.Destination == "" {
		return fault.Invalid("the request's body must have source_paths and destination")
	}
	c := callOf(r.Context())
	who, err := c.account(r.Context(), q.User)
	if err != nil {
		return err
	}
	ask := &filecall.Request{Op: filecall.OpJoin, Mode: who.mode}
	if ask.Path, err = who.path(q.Destination); err != nil {
		return err
	}
	for _, name := range q.Sources {
		at, err := who.path(name)
		if err != nil {
			return err
		}
		if at == ask.Path {
			return fault.Invalid("%s: it is both a source and the destination", at)
		}
		ask.Paths = append(ask.Paths, at)
	}
	entries, err := entriesOf(r.Context(), c.in.Files(), ask)
	if err != nil || len(entries) == 0 {
		return err
	}
	h.opts.JSON(w, http.StatusOK, written{entries[0].Name, entries[0].Path, "file", entries[0].Metadata})
	return nil
}
