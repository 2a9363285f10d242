package main

import (
	"testing"

	"wolffia/runtime/launch"
)

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
