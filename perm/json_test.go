package perm_test

import (
	"encoding/json"
	"errors"
	"slices"
	"testing"

	"wolffia/perm"
)

func TestParseJSON(t *testing.T) {
	preset, err := perm.Assemble(&perm.Request{Preset: "agent-safe"})
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(preset)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := perm.ParseJSON(text); err != nil || !slices.Equal(got, preset) {
		t.Errorf("%d rules, %v; want the %d that were written", len(got), err, len(preset))
	}
	// The configuration of a sandbox of an earlier version.
	old := perm.Rule{Pattern: ".git/config", Level: perm.Read, AtMost: true}
	if got, err := perm.ParseJSON([]byte(`[{"pattern":".git/config","level":"checked","at_most":true}]`)); err != nil || !slices.Equal(got, []perm.Rule{old}) {
		t.Errorf("a level of earlier versions: %v, %v", got, err)
	}
	for text, newer := range map[string]bool{
		`[{"pattern":"a","level":"none","hardlinks":true}]`: true,
		`[{"pattern":"a","level":"locked"}]`:                false,
		`[{"pattern":"a","level":"none"}`:                   false,
		`[{"pattern":"a","level":"none"}][]`:                false,
		`{}`:                                                false,
		``:                                                  false,
	} {
		if got, err := perm.ParseJSON([]byte(text)); err == nil || errors.Is(err, perm.ErrNewer) != newer {
			t.Errorf("%s: got %v, err %v; want err != nil and errors.Is(err, perm.ErrNewer) == %v", text, got, err, newer)
		}
	}
}
