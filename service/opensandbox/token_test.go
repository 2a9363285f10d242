package opensandbox_test

import (
	"net/http"
	"strings"
	"testing"

	"wolffia/internal/test/servetest"
	"wolffia/service"
)

// The token of an endpoint admits to the endpoints of its sandbox, and to nothing else.
func TestEndpointToken(t *testing.T) {
	w := &world{servetest.New(t, keyAll+"\n")}
	one, _, err := w.Service.Create(w.Ctx, &service.Params{})
	w.OK(err)
	two, _, err := w.Service.Create(w.Ctx, &service.Params{})
	w.OK(err)
	const header = "OpenSandbox-Secure-Access"
	_, _, body := w.Do("GET", "/v1/sandboxes/"+one.ID+"/endpoints/44772", nil, "OPEN-SANDBOX-API-KEY", keyAll)
	_, token, _ := strings.Cut(body, `"`+header+`":"`)
	token, _, found := strings.Cut(token, `"`)
	if !found {
		t.Fatalf("the endpoint has no token: %s", body)
	}
	for _, c := range []struct {
		method, path, token string
		status              int
	}{
		{"GET", "/sandboxes/" + one.ID + "/port/44772/ping", token, http.StatusOK},
		{"GET", "/sandboxes/" + one.ID + "/port/44772/ping", token + "x", http.StatusUnauthorized},
		{"GET", "/sandboxes/" + one.ID + "/port/44772/ping", "", http.StatusUnauthorized},
		{"GET", "/sandboxes/" + two.ID + "/port/44772/ping", token, http.StatusUnauthorized},
		{"GET", "/sandboxes/" + one.ID + "/port/44772/%2e%2e/%2e%2e/%2e%2e/" + two.ID + "/port/44772/ping", token, http.StatusNotFound},
		{"GET", "/sandboxes/" + one.ID + "%2f..%2f" + two.ID + "/port/44772/ping", token, http.StatusUnauthorized},
		{"GET", "/v1/sandboxes/" + one.ID, token, http.StatusUnauthorized},
		{"DELETE", "/v1/sandboxes/" + one.ID, token, http.StatusUnauthorized},
	} {
		if status, _, body := w.Do(c.method, c.path, nil, header, c.token); status != c.status {
			t.Errorf("%s %s with token %q: %d %s, want %d", c.method, c.path, c.token, status, body, c.status)
		}
	}
}
