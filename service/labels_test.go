package service_test

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"wolffia/runtime"
	"wolffia/runtime/mock"
	"wolffia/service"
	"wolffia/service/registry"
)

var zoe = registry.Owner{OrganizationID: "acme", ProjectID: "web shop", UserID: "zoë"}

// Only what is complete is ever told, whatever is missing or wrong.
func TestScanTellsNothingPartial(t *testing.T) {
	rt := mock.New()
	start := func(c *runtime.SandboxConfig) *runtime.Sandbox {
		t.Helper()
		s, err := rt.Create(t.Context(), c)
		if err == nil {
			t.Cleanup(func() { _ = rt.Destroy(context.Background(), s.ID) })
			err = rt.Start(t.Context(), s.ID)
		}
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	config := func(change func(c *runtime.SandboxConfig)) *runtime.SandboxConfig {
		c := &runtime.SandboxConfig{Name: "box-" + runtime.NewID(), Labels: map[string]string{"mine": "x"}}
		service.SetOwner(c, zoe, true)
		if change != nil {
			change(c)
		}
		return c
	}
	scan := func() []registry.Metadata {
		t.Helper()
		found, err := service.Scan(t.Context(), rt)
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	start(&runtime.SandboxConfig{}) // of nobody
	for _, label := range []string{"sandboxId", "organizationId", "projectId", "userId", "createdAt", "gitConfigured"} {
		for _, value := range []string{"", "\x1b[2J", strings.Repeat("x", 300), "maybe", "-1", "1e3", " 5"} {
			if (label == "organizationId" || label == "projectId" || label == "userId") && (value == "maybe" || value == "-1" || value == "1e3" || value == " 5") ||
				label == "gitConfigured" && value == "" {
				continue // may well be
			}
			start(config(func(c *runtime.SandboxConfig) { c.Labels["wolffia."+label] = value }))
		}
		if label != "gitConfigured" {
			start(config(func(c *runtime.SandboxConfig) { delete(c.Labels, "wolffia."+label) }))
		}
	}
	start(config(func(c *runtime.SandboxConfig) { c.Labels["wolffia.sandboxId"] = runtime.NewID() })) // somebody else's
	if found := scan(); len(found) > 0 {
		t.Errorf("found %+v", found)
	}

	c := config(nil)
	s := start(c)
	want := registry.Metadata{SandboxID: s.ID, ContainerName: c.Name, Owner: zoe, CreatedAt: s.CreatedAt.UnixMilli(), GitConfigured: true}
	if diff := cmp.Diff([]registry.Metadata{want}, scan()); diff != "" {
		t.Error(diff)
	}
	if c.Labels["mine"] != "x" {
		t.Errorf("labels are %v", c.Labels)
	}
	if err := rt.Stop(t.Context(), s.ID); err != nil {
		t.Fatal(err)
	}
	if found := scan(); len(found) > 0 {
		t.Errorf("one that is stopped is found: %+v", found)
	}
}
