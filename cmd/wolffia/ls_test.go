package main

import (
	"testing"

	"wolffia/runtime"
	"wolffia/runtime/launch"
)

// A service's snapshot, which is never started, does not look as if it could be.
func TestStateOfSnapshot(t *testing.T) {
	for record, want := range map[string]runtime.State{
		`{"snapshot":{"of":"abc"}}`: stateSnapshot, `{"snapshot":null}`: runtime.StateCreated, `{}`: runtime.StateCreated, "": runtime.StateCreated,
	} {
		s := &runtime.Sandbox{State: runtime.StateCreated, Labels: map[string]string{launch.LabelRecord: record}}
		if got := listingOf(s).State; got != want {
			t.Errorf("record %s: the state is %q, want %q", record, got, want)
		}
	}
}

// A person is not shown the records of a container and of a service.
func TestLabelsText(t *testing.T) {
	labels := map[string]string{"a": "b", launch.LabelContainer: "{}", launch.LabelContainer + ".1": "}"}
	for _, k := range []string{launch.LabelRecord, launch.LabelSettings, launch.LabelKey} {
		labels[k] = "{}"
	}
	if got := labelsText(labels); got != "a=b" || len(labels) != 6 {
		t.Errorf("got %q, want a=b", got)
	}
}
