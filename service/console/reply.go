package console

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"

	"wolffia/internal/jsontext"
	"wolffia/runtime"
	"wolffia/service/gate"
	"wolffia/service/registry"
)

// maxBody is the largest body of a request, in bytes.
const maxBody = 1 << 20

// writeLimit is how long a client may take to read a reply, or a part of a stream.
const writeLimit = time.Minute

func nowMS() int64 { return time.Now().UnixMilli() }

// ms returns a time in ms since 1970; 0 for the zero time.
func ms(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// ownerText returns ORG/PROJECT/USER; empty for the zero owner.
func ownerText(o registry.Owner) string {
	if o == (registry.Owner{}) {
		return ""
	}
	return o.OrganizationID + "/" + o.ProjectID + "/" + o.UserID
}

// A failure is the reply to a call that failed.
type failure struct {
	Error struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	} `json:"error"`
	Result any `json:"result,omitempty"` // of the part that was done
}

func failed(code, message string) *failure {
	f := &failure{}
	f.Error.Code, f.Error.Message = code, message
	return f
}

// A partial is the error of a call that has a result too.
type partial struct {
	error
	result any
}

func (p *partial) Unwrap() error { return p.error }

// failureOf returns the status of the reply to a call that failed, and the reply. An error without
// a class is a bug, of which the reply says nothing.
func failureOf(err error) (int, *failure) {
	if r, is := errors.AsType[*gate.Refusal](err); is {
		code := r.Code
		switch code {
		case "MISSING_API_KEY", "INVALID_API_KEY":
			code = "unauthorized"
		case "FOREIGN_HOST":
			code = "foreignHost"
		case "FOREIGN_ORIGIN":
			code = "foreignOrigin"
		}
		return r.Status, failed(code, r.Message)
	}
	s, known := gate.StatusOf(err)
	if !known {
		return http.StatusInternalServerError, failed("internal", "internal error: see the log of the console")
	}
	f := failed(s.Code, err.Error())
	if p, is := errors.AsType[*partial](err); is {
		f.Result = p.result
	}
	return s.HTTP, f
}

// Refuse answers a request that failed, or is not admitted.
func (h *Handler) Refuse(w http.ResponseWriter, r *http.Request, err error) {
	secure(w.Header())
	status, f := failureOf(err)
	if status == http.StatusInternalServerError {
		h.log.ErrorContext(r.Context(), "a call of the console failed", "call", r.Pattern, "error", err)
	}
	if status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	gate.Hint(w.Header(), err)
	writeJSON(w, status, f)
}

// writeJSON writes a reply.
func writeJSON(w http.ResponseWriter, status int, v any) {
	text, err := json.Marshal(v)
	if err != nil {
		status, text = http.StatusInternalServerError, []byte(`{"error":{"code":"internal","message":"internal error"}}`)
	}
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeLimit)) // always supported
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(text)))
	w.WriteHeader(status)
	_, _ = w.Write(text)
}

// decode reads the body of a request, which must be one JSON object.
func decode(w http.ResponseWriter, r *http.Request, to any) error {
	if !isJSON(r) {
		return &gate.Refusal{Status: http.StatusUnsupportedMediaType, Code: "unsupportedMediaType", Message: "the request's Content-Type must be application/json"}
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		return runtime.Errorf(runtime.ErrInvalid, "read the request, of at most %d bytes: %w", maxBody, err)
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
	if err := json.Unmarshal(body, to); err != nil {
		return runtime.Errorf(runtime.ErrInvalid, "the request is not JSON of the right form: %w", err)
	}
	if err := jsontext.Strict(body, to); err != nil {
		return runtime.WithClass(runtime.ErrInvalid, err)
	}
	return nil
}

// number returns a number of the query, or its default, from least to most.
func (c *call) number(name string, def, least, most int64) (int64, error) {
	text := c.URL.Query().Get(name)
	if text == "" {
		return def, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < least || n > most {
		return 0, runtime.Errorf(runtime.ErrInvalid, "%s %.40q: it must be from %d to %d", name, text, least, most)
	}
	return n, nil
}
