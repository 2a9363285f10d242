package bwrap

import (
	"os"
	"testing"

	"wolffia/internal/sys/child"
)

// A bubblewrap that has ended and is forgotten says itself why: that it cannot be limited is no reason.
func TestEndedBeforeItIsLimited(t *testing.T) {
	c, err := child.StartPiped(&child.Command{Path: "/bin/sh", Args: []string{"sh", "-c", "exit 3"}})
	if err != nil {
		t.Fatal(err)
	}
	<-c.Gone()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	_ = r.Close()
	if err := (&waiting{Piped: c, options: w, args: []string{"--die"}}).resume(); err != nil {
		t.Error(err)
	}
}
