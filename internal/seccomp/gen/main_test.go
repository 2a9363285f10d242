package main

import (
	"bytes"
	"testing"

	"wolffia/internal/seccomp"
)

func TestFilterIsGenerated(t *testing.T) {
	got, err := seccomp.Filter()
	if err != nil {
		t.Fatal(err)
	}
	want, err := compiled()
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Error("the filter is not what the profile says: go generate ./internal/seccomp")
	}
}
