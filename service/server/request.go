package server

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	"wolffia/fields"
	"wolffia/internal/jsontext"
	"wolffia/runtime"
)

// requestHeader holds the id of a request, in requests and replies.
const requestHeader = "X-Request-Id"

// maxRequestID is the longest request id of a client, in bytes.
const maxRequestID = 128

// requestID returns the client's id for the request if it is valid, else a new one.
func requestID(h http.Header) string {
	id := h.Get(requestHeader)
	bad := func(c rune) bool {
		return (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && !strings.ContainsRune("._-", c)
	}
	if id == "" || len(id) > maxRequestID || strings.ContainsFunc(id, bad) {
		return rand.Text()
	}
	return id
}

// readBody reads the whole request, of at most max bytes. Afterwards the connection has no
// deadline.
func readBody(w http.ResponseWriter, r *http.Request, max int64) ([]byte, error) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		return nil, errMethod
	}
	if media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || media != "application/json" {
		return nil, errType
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, max))
	var long *http.MaxBytesError
	switch {
	case errors.As(err, &long):
		return nil, errTooLarge
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, errSlow
	case err != nil:
		return nil, runtime.Errorf(runtime.ErrInvalid, "read the request: %w", err)
	}
	return body, http.NewResponseController(w).SetReadDeadline(time.Time{})
}

// decode decodes body, which must be one JSON object, into to. It refuses unknown fields,
// since the client expects an effect of them, and also names in other letter case and
// duplicate names: so a front end that has checked the same body with another parser has
// seen the same owner. Errors are of class [runtime.ErrInvalid] and show no values.
func decode(body []byte, to any) error {
	if !utf8.Valid(body) { // json.Decoder would replace the invalid bytes
		return runtime.Errorf(runtime.ErrInvalid, "the request is not UTF-8; send bytes as base64")
	}
	if trimmed := bytes.TrimLeft(body, " \t\r\n"); len(trimmed) == 0 || trimmed[0] != '{' {
		return runtime.Errorf(runtime.ErrInvalid, "the request must be one JSON object")
	}
	if q, is := to.(interface{ Settings() *fields.Values }); is {
		var err error
		if body, *q.Settings(), err = takeSettings(body, to); err != nil {
			return err
		}
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(to); err != nil {
		if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
			return wrongType(wrong)
		}
		if field, is := strings.CutPrefix(err.Error(), "json: unknown field "); is {
			return runtime.Errorf(runtime.ErrInvalid, "unknown field %s", field)
		}
		if encoded, ok := errors.AsType[base64.CorruptInputError](err); ok {
			return runtime.Errorf(runtime.ErrInvalid, "the request has a text that must be base64, and is not, from its byte %d on", encoded)
		}
		return runtime.Errorf(runtime.ErrInvalid, "the request is not JSON: syntax error after byte %d", d.InputOffset())
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return runtime.Errorf(runtime.ErrInvalid, "the request must be one JSON object: data follows it")
	}
	if err := jsontext.Strict(body, to); err != nil {
		return runtime.WithClass(runtime.ErrInvalid, err)
	}
	return nil
}

func wrongType(err *json.UnmarshalTypeError) error {
	return runtime.Errorf(runtime.ErrInvalid, "field %q: a JSON %s is the wrong type", err.Field, err.Value)
}

// takeSettings returns what a JSON object, the beginning of body, sets of the table of settings, and body without
// those members. What decode refuses is left in it.
func takeSettings(body []byte, to any) (rest []byte, v fields.Values, err error) {
	var all map[string]json.RawMessage
	d := json.NewDecoder(bytes.NewReader(body))
	if d.Decode(&all) != nil {
		return body, nil, nil
	}
	object, after := body[:d.InputOffset()], body[d.InputOffset():]
	if err := jsontext.Strict(object, to); err != nil {
		return nil, nil, runtime.WithClass(runtime.ErrInvalid, err)
	}
	v, err = fields.DecodeRequest(object)
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return nil, nil, wrongType(wrong)
	}
	for _, key := range fields.Requests() {
		delete(all, key)
	}
	if err == nil {
		rest, err = json.Marshal(all)
	}
	return append(rest, after...), v, err
}
