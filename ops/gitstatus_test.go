package ops

import (
	"slices"
	"testing"
)

func TestGitStatus(t *testing.T) {
	got := gitStatus(" M a.txt\x00?? new dir/\x00D  gone\x00MD b\nc\x00x\x00")
	want := []GitStatus{{Path: "a.txt"}, {Path: "new dir/"}, {"gone", true}, {"b\nc", true}}
	if !slices.Equal(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}
