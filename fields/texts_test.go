package fields_test

import (
	"slices"
	"strings"
	"testing"

	"wolffia/fields"
	"wolffia/perm"
	"wolffia/runtime"
	"wolffia/volume"
)

// What the table repeats as text is what other packages have.
func TestTexts(t *testing.T) {
	var presets []string
	for _, p := range perm.Presets() {
		presets = append(presets, p.Name)
	}
	preset := fields.Find(fields.Run, "preset")
	order := preset.Order()
	slices.Sort(order)
	slices.Sort(presets)
	normal := perm.DefaultPreset
	if !slices.Equal(order, presets) || preset.Bound.Normal != normal || !strings.Contains(preset.Help, "default "+normal) {
		t.Errorf("--preset: %v, %+v; want %v", order, preset, presets)
	}
	at, point := runtime.DefaultMountPoint, fields.Find(fields.Run, "mount-point")
	if fields.Find(fields.Serve, "mount-point").Default != at || !strings.Contains(point.Help, at) {
		t.Errorf("--mount-point is not %s by default", at)
	}
	if all := strings.Join(volume.Caches(), ","); !strings.Contains(fields.Find(fields.Run, "cache").Help, ": "+all+", or auto") {
		t.Errorf("--cache does not list %s", all)
	}
	for name, want := range map[string][]string{
		"filter":  {"auto", string(runtime.FilterFuse), string(runtime.FilterStatic), string(runtime.FilterNone)},
		"network": {string(runtime.NetworkNone), string(runtime.NetworkFiltered), string(runtime.NetworkHost)},
	} {
		got := fields.Find(fields.Run, name).Order()
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("--%s: %v, want %v", name, got, want)
		}
	}
}
