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
	for _, c := range []Codebase{{Path: "/a", Tracked: []string{"y", "x"}}, {Path: "/a/b/c"}, {Path: "/ab", Tracked: []string{"z"}}} {
		if err := dir.Remember(&c, false); err != nil {
			t.Fatal(err)
		}
	}
	got, err := KnownCodebases(state, "/a/b/c/d")
	if err != nil || len(got) != 2 || got[0].Path != "/a/b/c" || got[1].Path != "/a" || !slices.Equal(got[1].Tracked, []string{"x", "y"}) {
		t.Errorf("%+v, %v", got, err)
	}
	// The first record stays, until it is replaced.
	for replace, want := range map[bool]string{false: "[x y]", true: "[new]"} {
		state := filepath.Join(t.TempDir(), "s")
		dir, err := Open(state)
		if err != nil {
			t.Fatal(err)
		}
		for i, tracked := range [][]string{{"x", "y"}, {"new"}} {
			if err := dir.Remember(&Codebase{Path: "/a", Tracked: tracked}, replace && i > 0); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := KnownCodebases(state, "/a"); err != nil || len(got) != 1 || fmt.Sprint(got[0].Tracked) != want {
			t.Errorf("replace %v: %+v, %v", replace, got, err)
		}
	}
	// A damaged record is one of which nothing is believed.
	if err := os.WriteFile(recordFile(state, "/a"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := KnownCodebases(state, "/a"); err != nil || len(got) != 1 || got[0].Path != "/a" || got[0].Tracked != nil {
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

// TestRememberTogether: of many that make a record at once one is the first,
// and no parts are left, also not of one that was killed.
func TestRememberTogether(t *testing.T) {
	dir, err := Open(filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	if err := dir.Remember(&Codebase{Path: "/b"}, false); err != nil {
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
			if err := dir.Remember(&Codebase{Path: "/a", Tracked: []string{fmt.Sprint(i)}}, i%2 == 1); err != nil {
				t.Error(err)
			}
			got, err := KnownCodebases(dir.Path(), "/a")
			if err != nil || len(got) != 1 || len(got[0].Tracked) != 1 {
				t.Errorf("%+v, %v", got, err)
			}
		})
	}
	wg.Wait()
	left, err := os.ReadDir(filepath.Dir(file))
	if err != nil || len(left) != 2 {
		t.Errorf("left: %v, %v", left, err)
	}
}
