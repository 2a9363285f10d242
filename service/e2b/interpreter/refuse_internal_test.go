package interpreter

import (
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"wolffia/ops/stream"
)

// A bug is for the service's log: its text may have names of the host.
func TestRefuseBug(t *testing.T) {
	var log strings.Builder
	h := New(&stream.Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
	w := httptest.NewRecorder()
	h.refuse(w, httptest.NewRequest(http.MethodGet, "/contexts", nil), errors.New("open /host/file"))
	if text := w.Body.String(); w.Code != http.StatusInternalServerError || strings.Contains(text, "/host") || !strings.Contains(log.String(), "/host/file") {
		t.Errorf("got %d %s; the log: %s", w.Code, text, log.String())
	}
}
