package stream

import (
	"cmp"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"time"
)

// Options are those of a front end's handler. nil and the zero value are the defaults.
type Options struct {
	// Log receives the errors that are bugs; nil disables logging.
	Log *slog.Logger
	// BodyLimit is how long a request's body may take to arrive, in an upload each part of it, and
	// WriteLimit how long the client may take to read a part of the reply. 0 means 60 s.
	BodyLimit, WriteLimit time.Duration
}

// Whole returns o with the defaults for what is not set.
func (o *Options) Whole() Options {
	var all Options
	if o != nil {
		all = *o
	}
	all.BodyLimit = cmp.Or(all.BodyLimit, time.Minute)
	all.WriteLimit = cmp.Or(all.WriteLimit, time.Minute)
	all.Log = cmp.Or(all.Log, slog.New(slog.DiscardHandler))
	return all
}

// Bug logs an error that is one.
func (o *Options) Bug(w http.ResponseWriter, r *http.Request, err error) {
	o.Log.Error("a request failed", "requestId", w.Header().Get("X-Request-Id"), "call", r.Pattern, "error", err.Error())
}

// JSON sends v as the reply. A client that does not read it is no error.
func (o *Options) JSON(w http.ResponseWriter, status int, v any) {
	text, err := json.Marshal(v)
	if err != nil { // a bug
		status, text = http.StatusInternalServerError, []byte(`{"message":"internal error"}`)
	}
	Patience(w, o.WriteLimit)
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(text)))
	w.WriteHeader(status)
	_, _ = w.Write(text)
}

// Read returns the body of a request. The error is an [http.MaxBytesError] for more than most bytes, and
// wraps [os.ErrDeadlineExceeded] for a client that is too slow.
func (o *Options) Read(w http.ResponseWriter, r *http.Request, most int64) ([]byte, error) {
	r.Body = &Body{ReadCloser: r.Body, Control: http.NewResponseController(w), Limit: o.BodyLimit}
	return io.ReadAll(http.MaxBytesReader(w, r.Body, most))
}
