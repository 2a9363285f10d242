package statedir

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"wolffia/runtime"
)

func TestTrust(t *testing.T) {
	state := filepath.Join(t.TempDir(), "state")
	if got, err := Trusted(state, "/a"); got != nil || err != nil {
		t.Fatalf("without a state directory: %v, %v", got, err)
	}
	d, err := Open(state)
	if err != nil {
		t.Fatal(err)
	}
	a, b := Trust{Path: "/a", SHA256: "1", TrustedAt: 5}, Trust{Path: "/b", SHA256: "2", TrustedAt: 6}
	for _, record := range []Trust{b, {Path: "/a", SHA256: "0"}, a} {
		if err := d.Trust(&record); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := Trusted(state, "/a"); err != nil || *got != a {
		t.Errorf(`Trusted "/a": got %v, err %v; want err == nil and *got == %v`, got, err, a)
	}
	if all, err := d.Trusts(); err != nil || !cmp.Equal(all, []Trust{a, b}) {
		t.Errorf("Trusts: got all %v, err %v; want err == nil and cmp.Equal(all, []Trust{a, b})", all, err)
	}
	if st, err := os.Stat(trustFile(state, "/a")); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("Mode: got %v, err %v; want err == nil and st.Mode().Perm() == 0o600", st.Mode(), err)
	}
	// A record of another directory, or a damaged one, is no record.
	if err := os.Rename(trustFile(state, "/b"), trustFile(state, "/c")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(trustFile(state, "/d"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/b", "/c", "/d"} {
		if got, err := Trusted(state, path); got != nil || err != nil {
			t.Errorf("%s: got %v, %v; want nil, nil", path, got, err)
		}
	}
	if err := d.Distrust("/a"); err != nil {
		t.Error(err)
	}
	if err := d.Distrust("/a"); !errors.Is(err, runtime.ErrNotFound) {
		t.Error(err)
	}
	if got, _ := Trusted(state, "/a"); got != nil {
		t.Errorf(`Trusted "/a": got %v, want nil`, got)
	}
}
