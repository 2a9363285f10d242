package console

import (
	"context"
	"encoding/json"
	"io"
	"net/http"

	"wolffia/ops/stream"
	"wolffia/runtime"
)

// Evidence is the log of what was done with sandboxes. It is safe for concurrent use.
type Evidence interface {
	// Find returns entries, newest first, as the JSON that the log has, and whether there are more.
	Find(ctx context.Context, q *EvidenceQuery) (entries []json.RawMessage, more bool, err error)
	// Export writes the lines of the log that q selects, oldest first, as they are.
	Export(ctx context.Context, q *EvidenceQuery, w io.Writer) error
	// Verify returns what a check of the whole log has found, as JSON.
	Verify(ctx context.Context) (any, error)
	// Record appends what the page's user has done.
	Record(r *EvidenceRecord) error
}

// An EvidenceQuery selects entries. The zero value selects all.
type EvidenceQuery struct {
	Since, Until int64  // ms since 1970; 0: without a bound
	Text         string // in any of the entry's texts, in any letter case
	Sandbox      string // id
	Kind         string
	Before       int64 // number of an entry: older ones only; 0: all
	Limit        int
}

// An EvidenceRecord is what a user has done.
type EvidenceRecord struct {
	Kind    string   // apply, discard
	Sandbox string   // id
	Count   int      // of changes
	Paths   []string // of them
	Who     string   // such as "console"
}

// keeper returns the log, for a caller who may use all sandboxes.
func (h *Handler) keeper(c *call) (Evidence, error) {
	if err := c.all("evidence"); err != nil {
		return nil, err
	}
	if h.opts.Evidence == nil {
		return nil, runtime.Errorf(runtime.ErrUnsupported, "this console has no evidence log")
	}
	return h.opts.Evidence, nil
}

func (c *call) evidenceQuery() (*EvidenceQuery, error) {
	v, q := c.URL.Query(), &EvidenceQuery{}
	var limit int64
	for _, n := range []struct {
		name      string
		to        *int64
		def, most int64
	}{{"since", &q.Since, 0, 1 << 53}, {"until", &q.Until, 0, 1 << 53}, {"before", &q.Before, 0, 1 << 53}, {"limit", &limit, 200, 1000}} {
		var err error
		if *n.to, err = c.number(n.name, n.def, 0, n.most); err != nil {
			return nil, err
		}
	}
	q.Limit, q.Text, q.Sandbox, q.Kind = int(limit), v.Get("q"), v.Get("sandbox"), v.Get("kind")
	return q, nil
}

func (h *Handler) evidence(c *call) (any, error) {
	log, err := h.keeper(c)
	if err != nil {
		return nil, err
	}
	q, err := c.evidenceQuery()
	if err != nil {
		return nil, err
	}
	entries, more, err := log.Find(c.Context(), q)
	return map[string]any{"entries": append([]json.RawMessage{}, entries...), "more": more}, err
}

func (h *Handler) verifyEvidence(c *call) (any, error) {
	log, err := h.keeper(c)
	if err != nil {
		return nil, err
	}
	return log.Verify(c.Context())
}

func (h *Handler) exportEvidence(c *call) (any, error) {
	log, err := h.keeper(c)
	if err != nil {
		return nil, err
	}
	q, err := c.evidenceQuery()
	if err != nil {
		return nil, err
	}
	c.w.Header().Set("Content-Type", "application/x-ndjson")
	c.w.Header().Set("Content-Disposition", `attachment; filename="wolffia-evidence.jsonl"`)
	if err := log.Export(c.Context(), q, &stream.Patient{ResponseWriter: c.w, Limit: writeLimit}); err != nil {
		panic(http.ErrAbortHandler) // the client sees that it is not complete
	}
	return nil, errAnswered
}

// record notes what the caller has done with changes.
func (h *Handler) record(c *call, kind string, count int, paths []string) {
	if h.opts.Evidence == nil {
		return
	}
	who := "console"
	if c.caller.Key != "" {
		who += ", key " + c.caller.Key
	}
	if err := h.opts.Evidence.Record(&EvidenceRecord{kind, c.id, count, paths, who}); err != nil {
		h.log.Error("the evidence log cannot be written", "error", err.Error())
	}
}
