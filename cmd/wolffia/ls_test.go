package main

import (
	"testing"

	"wolffia/runtime/launch"
)

// A person is not shown the record of a container.
func TestLabelsText(t *testing.T) {
	labels := map[string]string{"a": "b", launch.LabelContainer: "{}", launch.LabelContainer + ".1": "}"}
	if got := labelsText(labels); got != "a=b" || len(labels) != 3 {
		t.Errorf("got %q, want a=b", got)
	}
}
