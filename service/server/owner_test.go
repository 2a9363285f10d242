package server

import (
	"testing"

	"wolffia/runtime"
	"wolffia/service"
	"wolffia/service/registry"
)

// A request that names no owner is refused, so that a call whose request was made without one fails for
// all callers and not for none.
func TestMayActFor(t *testing.T) {
	zoe := registry.Owner{OrganizationID: "acme", ProjectID: "web", UserID: "zoe"}
	yan := registry.Owner{OrganizationID: "acme", ProjectID: "web", UserID: "yan"}
	caller := service.Caller{Owner: zoe}
	for what, c := range map[string]struct {
		request any
		may     bool
	}{
		"its own":       {&ownerRequest{Owner: zoe}, true},
		"another's":     {&ownerRequest{Owner: yan}, false},
		"a new one's":   {&createRequest{Owner: yan}, false},
		"of all owners": {&struct{}{}, true},
		"without owner": {&struct{ SandboxID string }{"x"}, false},
	} {
		err := mayActFor(caller, c.request)
		if (err == nil) != c.may || err != nil && runtime.Class(err) != runtime.ErrDenied {
			t.Errorf("a request %s: got %v, want it allowed: %t", what, err, c.may)
		}
	}
}
