package cluster

import (
	"maps"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"wolffia/internal/host/boot"
	"wolffia/runtime"
	"wolffia/runtime/launch"
)

// A sandbox is found again by what its object says alone: its name, its time and its owner, and
// nothing else of its labels.
func TestFound(t *testing.T) {
	o, err := object(spec(func(*runtime.SandboxConfig) {}), somewhere)
	if err != nil {
		t.Fatal(err)
	}
	want := boot.Found{ID: "abcdefghijkl", Name: "ann's", CreatedAt: 1700000000000, Labels: map[string]string{
		launch.LabelSandboxID: "abcdefghijkl", launch.LabelCreatedAt: "1700000000000",
		launch.LabelUserID: "ann@example.com", launch.LabelProjectID: "ümlaut/π",
	}}
	if got, ok := found(o, somewhere); !ok || cmp.Diff(want, got) != "" {
		t.Errorf("found: %t, -want +got:\n%s", ok, cmp.Diff(want, got))
	}
	value := regexp.MustCompile(`^[a-z0-9]([-a-z0-9_.]{0,61}[a-z0-9])?$`)
	for k, v := range o.GetLabels() {
		if !value.MatchString(v) {
			t.Errorf("label %s=%s: the API server refuses it", k, v)
		}
	}
	for what, change := range map[string]func(labels, notes map[string]string, o *unstructured.Unstructured){
		"another id":       func(l, _ map[string]string, _ *unstructured.Unstructured) { l[labelID] = "abcdefghijkm" },
		"no id":            func(l, _ map[string]string, _ *unstructured.Unstructured) { l[labelID] = "../../x" },
		"another place":    func(l, _ map[string]string, _ *unstructured.Unstructured) { l[labelPlace] = "x" },
		"another machine":  func(_, n map[string]string, _ *unstructured.Unstructured) { n[noteMachine] = "n" },
		"another user":     func(_, n map[string]string, _ *unstructured.Unstructured) { n[noteUser] = "1001" },
		"another state":    func(_, n map[string]string, _ *unstructured.Unstructured) { n[noteState] = "/state2" },
		"another name":     func(_, _ map[string]string, o *unstructured.Unstructured) { o.SetName("wolffia-x") },
		"no time":          func(_, n map[string]string, _ *unstructured.Unstructured) { n[noteCreated] = "-1" },
		"labels not valid": func(_, n map[string]string, _ *unstructured.Unstructured) { n[noteLabels] = "[]" },
		"long":             func(_, n map[string]string, _ *unstructured.Unstructured) { n["x"] = strings.Repeat("x", maxNotes) },
	} {
		other := o.DeepCopy()
		labels, notes := maps.Clone(o.GetLabels()), maps.Clone(o.GetAnnotations())
		change(labels, notes, other)
		other.SetLabels(labels)
		other.SetAnnotations(notes)
		if f, ok := found(other, somewhere); ok {
			t.Errorf("%s: found %+v", what, f)
		}
	}
}

// Owners with the same texts in other places have other hashes.
func TestOwnerHash(t *testing.T) {
	seen := map[string]bool{}
	for _, own := range []map[string]string{
		{launch.LabelUserID: "ab"},
		{launch.LabelProjectID: "ab"},
		{launch.LabelProjectID: "a", launch.LabelUserID: "b"},
		{launch.LabelOrganizationID: "ab"},
		{launch.LabelOrganizationID: "a", launch.LabelProjectID: "b"},
	} {
		h := labels("x", own, somewhere)[labelOwner]
		if h == "" || seen[h] {
			t.Errorf("%v: %q", own, h)
		}
		seen[h] = true
	}
	if l := labels("x", map[string]string{"other": "y"}, somewhere); l[labelOwner] != "" {
		t.Errorf("without an owner: %v", l)
	}
}
