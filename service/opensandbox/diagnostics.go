package opensandbox

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"wolffia/runtime"
	"wolffia/service"
)

// A diagnosisReply describes a text about a sandbox, which is for people.
type diagnosisReply struct {
	SandboxID   string   `json:"sandboxId"`
	Kind        string   `json:"kind"` // logs or events
	Scope       string   `json:"scope"`
	Delivery    string   `json:"delivery"` // inline
	ContentType string   `json:"contentType"`
	Content     string   `json:"content"`
	Length      int      `json:"contentLength"` // bytes
	Truncated   bool     `json:"truncated"`
	Warnings    []string `json:"warnings,omitempty"`
}

// plainText is the type of a diagnosis.
const plainText = "text/plain; charset=utf-8"

// A diagnosis is a text about a sandbox.
type diagnosis struct {
	text     strings.Builder
	more     bool // there is more
	warnings []string
}

// add adds a part, which is not empty, or notes why it is missing. Hostile bytes are quoted.
func (d *diagnosis) add(title string, text []byte, more bool, err error) {
	if err != nil {
		d.warnings = append(d.warnings, title+": "+err.Error())
		return
	}
	d.more = d.more || more
	for line := range strings.Lines(string(text)) {
		d.text.WriteString(printable(strings.TrimSuffix(line, "\n")) + "\n")
	}
}

// printable returns a line without characters that a terminal would obey.
func printable(line string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' && r != '\t' || r >= 0x7f && r < 0xa0 || r >= 0x2028 && r <= 0x202e || r >= 0x2066 && r <= 0x2069 {
			return '\ufffd'
		}
		return r
	}, strings.ToValidUTF8(line, "\ufffd"))
}

// The scopes of a diagnosis.
var (
	logScopes   = []string{"container", "runtime", "all"}
	eventScopes = []string{"lifecycle", "process", "network", "all"}
)

// logsOf returns logs: of the scope container the output of the entrypoint, of runtime that of the
// sandbox's processes on the host.
func (h *Handler) logsOf(r *http.Request, s *service.Sandbox, scope string) *diagnosis {
	d, caller := new(diagnosis), service.CallerOf(r.Context())
	if scope != "runtime" {
		in, err := h.service.Inside(r.Context(), caller, s.ID)
		var text []byte
		var more bool
		if err == nil {
			text, more, err = in.EntrypointLog(r.Context())
		}
		d.add("container", text, more, err)
	}
	if scope != "container" {
		text, more, err := h.service.RuntimeLog(r.Context(), caller, s.ID)
		d.add("runtime", text, more, err)
	}
	return d
}

// eventsOf returns what has happened: of the scope lifecycle to the sandbox, of process and network
// what was denied to processes in it.
func (h *Handler) eventsOf(r *http.Request, s *service.Sandbox, scope string) *diagnosis {
	d := new(diagnosis)
	if scope == "lifecycle" || scope == "all" {
		d.add("lifecycle", []byte(lifecycle(s)), false, nil)
	}
	if scope == "lifecycle" {
		return d
	}
	denials, err := h.service.Denials(r.Context(), service.CallerOf(r.Context()), s.ID)
	var lines strings.Builder
	for _, e := range denials {
		if scope == "all" || (e.Refused != nil) == (scope == "network") {
			lines.WriteString(e.Text + "\n")
		}
	}
	text := lines.String()
	if n := len(text) - service.MaxDiagnosis; n > 0 {
		text = text[n:]
		d.more = true
	}
	d.add("denials", []byte(text), false, err)
	return d
}

// lifecycle says in lines what has become of a sandbox.
func lifecycle(s *service.Sandbox) string {
	state := statusOf(s)
	text := fmt.Sprintf("%s  created\n%s  %s (%s)", s.CreatedAt.UTC().Format(time.RFC3339), time.Now().UTC().Format(time.RFC3339), state.State, state.Reason)
	if state.Message != "" {
		text += ": " + state.Message
	}
	if !s.ExpiresAt.IsZero() {
		text += "\n" + s.ExpiresAt.UTC().Format(time.RFC3339) + "  expires"
	}
	return text + "\n"
}

// diagnose serves GET /v1/sandboxes/{id}/diagnostics/{kind}. Without a scope the reply is the text
// itself, as OpenSandbox had it first.
func (h *Handler) diagnose(w http.ResponseWriter, r *http.Request) error {
	s, err := h.service.Get(r.Context(), service.CallerOf(r.Context()), r.PathValue("id"))
	if err != nil {
		return err
	}
	kind, q := r.PathValue("kind"), r.URL.Query()
	of, scopes, last, most, byDefault := h.logsOf, logScopes, "tail", 10_000, 100
	switch kind {
	case "logs":
	case "events":
		of, scopes, last, most, byDefault = h.eventsOf, eventScopes, "limit", 500, 50
	case "inspect", "summary":
		return h.summary(w, r, s, kind == "summary")
	default:
		return errUnknown
	}
	if q.Get("since") != "" {
		return unsupported("since: the service does not record when a line was written: use tail")
	}
	scope := q.Get("scope")
	switch {
	case scope == "":
		lines, err := number(q, last, byDefault, most)
		if err != nil {
			return err
		}
		w.Header().Set("Deprecation", "true")
		h.text(w, lastLines(of(r, s, "all").text.String(), lines))
		return nil
	case !slices.Contains(scopes, scope):
		return invalid("scope %q: of %s it must be one of %s", scope, kind, strings.Join(scopes, ", "))
	}
	d := of(r, s, scope)
	text := d.text.String()
	h.opts.JSON(w, http.StatusOK, diagnosisReply{s.ID, kind, scope, "inline", plainText, text, len(text), d.more, d.warnings})
	return nil
}

// summary answers with the description of a sandbox and, if all is set, what has happened and the
// logs.
func (h *Handler) summary(w http.ResponseWriter, r *http.Request, s *service.Sandbox, all bool) error {
	about, err := json.MarshalIndent(struct {
		*sandboxReply
		Runtime    string               `json:"runtime"`
		Network    runtime.Network      `json:"network"`
		MountPoint string               `json:"mountPoint"`
		UID        int                  `json:"uid"`
		GID        int                  `json:"gid"`
		Limits     *runtime.LimitsState `json:"limits,omitempty"`
	}{h.describe(s), s.Runtime, s.Network, s.MountPoint, s.UID, s.GID, h.service.Limits(s.ID)}, "", "  ")
	if err != nil {
		return err
	}
	text := string(about) + "\n"
	if all {
		for _, part := range []struct {
			title string
			d     *diagnosis
			lines int
		}{{"events", h.eventsOf(r, s, "all"), 20}, {"logs", h.logsOf(r, s, "all"), 50}} {
			text += "\n== " + part.title + "\n" + lastLines(part.d.text.String(), part.lines)
			for _, warning := range part.d.warnings {
				text += "missing: " + warning + "\n"
			}
		}
	}
	h.text(w, text)
	return nil
}

// lastLines returns the last n lines of a text.
func lastLines(text string, n int) string {
	lines := strings.SplitAfter(text, "\n")
	return strings.Join(lines[max(0, len(lines)-1-n):], "")
}

// text answers with a plain text.
func (h *Handler) text(w http.ResponseWriter, text string) {
	h.patience(w)
	w.Header().Set("Content-Type", plainText)
	w.WriteHeader(http.StatusOK)
	_, _ = w.Write([]byte(text))
}
