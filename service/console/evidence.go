package console

import (
	"context"
	"io"
	"net/http"

	"wolffia/ops/stream"
	"wolffia/runtime"
)

// Evidence is the log of what was done with sandboxes. It is safe for concurrent use.
type Evidence interface {
	// Find returns entries, newest first, and whether there are more.
	Find(ctx context.Context, q *EvidenceQuery) (entries []EvidenceEntry, more bool, err error)
	// Export writes the lines of the log that q selects, oldest first, as they are.
	Export(ctx context.Context, q *EvidenceQuery, w io.Writer) error
	// Verify returns what a check of the whole log has found, as JSON.
	Verify(ctx context.Context) (any, error)
}

// An EvidenceEntry is what was done once. Texts of the sandbox are as the log has them.
type EvidenceEntry struct {
	Seq        int64    `json:"seq"`
	Time       int64    `json:"time"` // ms since 1970
	Kind       string   `json:"kind"` // command, answer, apply, discard
	Sandbox    string   `json:"sandbox"`
	Codebase   string   `json:"codebase"`
	Dir        string   `json:"dir"`
	Command    []string `json:"command"`
	ExitCode   int      `json:"exitCode"`
	DurationMS int64    `json:"durationMs"`
	Denied     int      `json:"denied"`
	Refused    int      `json:"refused"`
	Notes      []string `json:"notes"`
	Who        string   `json:"who"`
	Hash       string   `json:"hash"` // of the line

	Question *runtime.Question `json:"question,omitempty"`
	Answer   *runtime.Answer   `json:"answer,omitempty"`
	Changes  int               `json:"changes,omitempty"`
	Paths    []string          `json:"paths,omitempty"`
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
	return map[string]any{"entries": append([]EvidenceEntry{}, entries...), "more": more}, err
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
