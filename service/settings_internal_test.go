package service

import (
	"errors"
	"strings"
	"testing"

	"wolffia/fields"
	"wolffia/network"
	"wolffia/runtime"
)

// A request whose settings the owner's sandbox does not have is refused, and the error names the first of them and
// both values. What is not known to be equal differs.
func TestDiffers(t *testing.T) {
	set := fields.Values{}.With
	made := &Params{
		Settings: set("cow", true).With("preset", "read-only").With("rule", []string{"a=none"}).With("codebase", "/link"),
		Egress:   &network.Policy{Allow: []string{"a.example"}},
	}
	labels := map[string]string{}
	if err := setAsked(labels, made); err != nil {
		t.Fatal(err)
	}
	full := &runtime.Sandbox{ID: "aaaaaaaaaaaa", CopyOnWrite: true, Network: runtime.NetworkFiltered, Runtime: "bwrap", CodebasePath: "/real", Labels: labels}
	plain := &runtime.Sandbox{ID: "bbbbbbbbbbbb", Network: runtime.NetworkNone, Runtime: "bwrap", CodebasePath: "/real"}
	damaged := *full
	damaged.Labels = map[string]string{"wolffia.settings": "{"}
	for _, c := range []struct {
		b    *runtime.Sandbox
		asks Params
		want string // empty: it has them
	}{
		{full, *made, ""},
		{full, Params{}, ""},
		{plain, Params{}, ""},
		{full, Params{Network: runtime.NetworkFiltered}, ""},
		{plain, Params{Settings: set("runtime", "bwrap").With("codebase", "/real"), Network: runtime.NetworkNone}, ""},
		{plain, Params{Settings: set("cow", true)}, "its cow is false, and the request asks for true"},
		{full, Params{Network: runtime.NetworkNone}, `its network is "filtered", and the request asks for "none"`},
		{full, Params{Settings: set("runtime", "gvisor")}, `its runtime is "bwrap", and the request asks for "gvisor"`},
		{full, Params{Settings: set("codebase", "/other")}, `its codebase is "/link", and the request asks for "/other"`},
		{full, Params{Settings: set("preset", "view-only")}, `its preset is "read-only", and the request asks for "view-only"`},
		{full, Params{Settings: set("rule", []string{"a=none", "b=none"})}, `its rule is ["a=none"], and the request asks for ["a=none","b=none"]`},
		{full, Params{Egress: &network.Policy{Allow: []string{"b.example"}}}, `"allow":["a.example"]`},
		{plain, Params{Settings: set("preset", "read-only")}, "its preset is what the service's own configuration says"},
		{&damaged, Params{Settings: set("rule", []string{"a=none"})}, "its rule is what the service's own configuration says"},
	} {
		err := differs(c.b, &c.asks)
		if c.want == "" && err != nil || c.want != "" && (!errors.Is(err, runtime.ErrConflict) || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s, asked for %+v: got %v, want %q", c.b.ID, c.asks, err, c.want)
		}
	}
}
