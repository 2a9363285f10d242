package engine

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/moby/moby/api/types/container"

	"wolffia/internal/host/boot"
	"wolffia/runtime/launch"
)

// What a container says of its sandbox is believed only if all of it is right.
func TestFound(t *testing.T) {
	s := variants()["codebase"]
	s.Config.Name, s.Config.Labels = "named", map[string]string{"team": "a", "wolffia.userId": "zoe"}
	whole := func() *container.Summary {
		return &container.Summary{Names: []string{"/wolffia-abcdefghijkl"}, Labels: maps.Clone(labels(s, there))}
	}
	got, ok := found(whole(), there)
	want := boot.Found{ID: "abcdefghijkl", Name: "named", CreatedAt: 1700000000000, Labels: map[string]string{
		"wolffia.sandboxId": "abcdefghijkl", "wolffia.createdAt": "1700000000000", "wolffia.userId": "zoe",
	}}
	if diff := cmp.Diff(want, got); !ok || diff != "" {
		t.Errorf("%v, -want +got\n%s", ok, diff)
	}
	for name, change := range map[string]func(c *container.Summary){
		"no name":        func(c *container.Summary) { c.Names = nil },
		"another name":   func(c *container.Summary) { c.Names = []string{"/abcdefghijkl", "/wolffia-abcdefghijkl-1"} },
		"another's name": func(c *container.Summary) { c.Names = []string{"/wolffia-aaaaaaaaaaaa"} },
		"no labels":      func(c *container.Summary) { c.Labels = nil },
		"no id":          func(c *container.Summary) { delete(c.Labels, launch.LabelSandboxID) },
		"no real id": func(c *container.Summary) {
			c.Labels[launch.LabelSandboxID], c.Names = "../../../etc", []string{"/wolffia-../../../etc"}
		},
		"another directory": func(c *container.Summary) { c.Labels[labelState] = "/state2" },
		"another user":      func(c *container.Summary) { c.Labels[labelUser] = "1001" },
		"no user":           func(c *container.Summary) { delete(c.Labels, labelUser) },
		"no time":           func(c *container.Summary) { delete(c.Labels, launch.LabelCreatedAt) },
		"no real time":      func(c *container.Summary) { c.Labels[launch.LabelCreatedAt] = "-1" },
		"far too long":      func(c *container.Summary) { c.Labels["wolffia.userId"] = strings.Repeat("x", maxLabel+1) },
		"a name too long":   func(c *container.Summary) { c.Labels[labelName] = strings.Repeat("x", maxLabel+1) },
	} {
		c := whole()
		change(c)
		if f, ok := found(c, there); ok {
			t.Errorf("%s: got %+v; want not ok", name, f)
		}
	}
}

// A label may have the state directory by another name, as those of earlier versions.
func TestHasByLink(t *testing.T) {
	dir := t.TempDir()
	link := filepath.Join(dir, "link")
	if err := errors.Join(os.Mkdir(filepath.Join(dir, "state"), 0o700), os.Mkdir(filepath.Join(dir, "other"), 0o700), os.Symlink("state", link)); err != nil {
		t.Fatal(err)
	}
	of := place{filepath.Join(dir, "state"), 1000}
	for path, want := range map[string]bool{of.stateDir: true, link: true, filepath.Join(dir, "other"): false, filepath.Join(dir, "none"): false, "": false} {
		all := labels(variants()["codebase"], place{path, 1000})
		if _, ok := of.has("/wolffia-abcdefghijkl", all); ok != want {
			t.Errorf("%s: got %v, want %v", path, ok, want)
		}
	}
}
