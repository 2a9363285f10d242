package statedir

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"wolffia/runtime"
)

func TestCodebases(t *testing.T) {
	state := filepath.Join(t.TempDir(), "s")
	if got, err := KnownCodebases(state, "/a/b"); err != nil || len(got) != 0 {
		t.Errorf("without a state directory: %v, %v", got, err)
	}
	dir, err := Open(state)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []Codebase{{Path: "/a", Policies: []string{"y", "x"}}, {Path: "/a/b/c"}, {Path: "/ab", Policies: []string{"z"}}} {
		if err := dir.Remember(&c); err != nil {
			t.Fatal(err)
		}
	}
	got, err := KnownCodebases(state, "/a/b/c/d")
	if err != nil || len(got) != 2 || got[0].Path != "/a/b/c" || got[1].Path != "/a" || !slices.Equal(got[1].Policies, []string{"y", "x"}) {
		t.Errorf(`KnownCodebases "/a/b/c/d": got %+v, err %v; want err == nil and len(got) == 2 and got[0].Path == "/a/b/c" and got[1].Path == "/a" and got[1].Policies == []string{"y", "x"}`,
			got, err)
	}
	if err := dir.Remember(&Codebase{Path: "/a", Policies: []string{"new"}}); err != nil {
		t.Fatal(err)
	}
	if got, err := KnownCodebases(state, "/a"); err != nil || len(got) != 1 || !slices.Equal(got[0].Policies, []string{"new"}) {
		t.Errorf("replaced: %+v, %v", got, err)
	}
	// As an earlier version has written it.
	if err := os.WriteFile(recordFile(state, "/a"), []byte(`{"path":"/a","tracked":["x"],"policies":["p"]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := KnownCodebases(state, "/a"); err != nil || len(got) != 1 || !slices.Equal(got[0].Policies, []string{"p"}) {
		t.Errorf("of an earlier version: %+v, %v", got, err)
	}
	// A damaged record is an empty one.
	if err := os.WriteFile(recordFile(state, "/a"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := KnownCodebases(state, "/a"); err != nil || len(got) != 1 || got[0].Path != "/a" || got[0].Policies != nil {
		t.Errorf("damaged: %+v, %v", got, err)
	}
	if err := os.Remove(recordFile(state, "/a")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/dev/zero", recordFile(state, "/a")); err != nil {
		t.Fatal(err)
	}
	if got, err := KnownCodebases(state, "/a"); !errors.Is(err, runtime.ErrUnavailable) {
		t.Errorf("a link: %+v, %v", got, err)
	}
}

// TestRememberTogether: many make a record at once, and no parts are left, also not of one that was killed.
func TestRememberTogether(t *testing.T) {
	dir, err := Open(filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	if err := dir.Remember(&Codebase{Path: "/b"}); err != nil {
		t.Fatal(err)
	}
	file := recordFile(dir.Path(), "/a")
	old := file + ".1.1.new"
	if err := os.WriteFile(old, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	long := time.Now().Add(-2 * partAge)
	if err := os.Chtimes(old, long, long); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			if err := dir.Remember(&Codebase{Path: "/a", Policies: []string{fmt.Sprint(i)}}); err != nil {
				t.Error(err)
			}
			got, err := KnownCodebases(dir.Path(), "/a")
			if err != nil || len(got) != 1 || len(got[0].Policies) != 1 {
				t.Errorf(`KnownCodebases "/a": got %+v, err %v; want err == nil and len(got) == 1 and len(got[0].Policies) == 1`, got, err)
			}
		})
	}
	wg.Wait()
	left, err := os.ReadDir(filepath.Dir(file))
	if err != nil || len(left) != 2 {
		t.Errorf("left: %v, %v", left, err)
	}
}
