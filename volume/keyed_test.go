package volume

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"wolffia/runtime"
)

// A cache with a key is for the sandboxes with that key over its repository.
func TestKeyed(t *testing.T) {
	s, _ := newStore(t)
	mount := func(repository, key string) runtime.VolumeMount {
		return runtime.VolumeMount{Cache: "go", Key: key, Repository: repository, Name: KeyedName("go", repository, key, me.UID)}
	}
	a := mount("/a", "1")
	if s.Touch([]runtime.VolumeMount{a}) {
		t.Error("Touch of a volume that does not exist: got true")
	}
	if err := use(t, s, a, me); err != nil {
		t.Fatal(err)
	}
	linked := &User{Codebase: "/a-linked", UID: me.UID, GID: me.GID}
	if err := use(t, s, a, linked); err != nil {
		t.Error(err)
	}
	if !s.Touch([]runtime.VolumeMount{a}) {
		t.Error("Touch of a volume: got false")
	}
	for _, forged := range []runtime.VolumeMount{
		{Cache: "go", Key: "1", Repository: "/b", Name: a.Name},
		{Cache: "go", Key: "2", Repository: "/a", Name: a.Name},
		{Cache: "go", Name: a.Name},
		{Name: a.Name},
	} {
		if err := use(t, s, forged, &User{Codebase: "/b", UID: me.UID, GID: me.GID}); err == nil {
			t.Errorf("%+v has the cache of another", forged)
		}
	}
	for _, other := range []runtime.VolumeMount{mount("/b", "1"), mount("/a", "2")} {
		if other.Name == a.Name {
			t.Errorf("%+v has the name of another", other)
		}
	}
	if KeyedName("go", "/a", "1", 1) == KeyedName("go", "/a", "1", 2) {
		t.Error("two users have the same name")
	}
}

// By size the longest unused caches with a key go.
func TestSize(t *testing.T) {
	s, _ := newStore(t)
	now := time.Now()
	var mounts []runtime.VolumeMount
	for i, key := range []string{"a", "b", "c"} {
		m := runtime.VolumeMount{Cache: "go", Key: key, Repository: "/gone", Name: KeyedName("go", "/gone", key, me.UID)}
		mounts = append(mounts, m)
		if err := use(t, s, m, me); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(s.Data(m.Name), "f"), make([]byte, 5<<20), 0o600); err != nil {
			t.Fatal(err)
		}
		at := now.Add(time.Duration(i) * time.Minute)
		if err := os.Chtimes(filepath.Join(s.path, m.Name, record), at, at); err != nil {
			t.Fatal(err)
		}
	}
	if err := use(t, s, runtime.VolumeMount{Name: "named"}, me); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		size int64
		want []string
	}{{16 << 20, nil}, {12 << 20, []string{mounts[0].Name}}, {1, []string{mounts[1].Name, mounts[2].Name}}} {
		removed, err := s.Prune(t.Context(), &PruneOptions{Size: test.size})
		var got []string
		for _, e := range removed {
			got = append(got, e.Name)
		}
		slices.Sort(test.want)
		if err != nil || !slices.Equal(got, test.want) {
			t.Errorf("%d: %v, %v; want %v", test.size, got, err, test.want)
		}
	}
	// small ones count too
	for _, m := range mounts {
		if err := use(t, s, m, me); err != nil {
			t.Fatal(err)
		}
	}
	if removed, err := s.Prune(t.Context(), &PruneOptions{Size: 8 << 20}); len(removed) != 1 || err != nil {
		t.Errorf("%v, %v; want one of three that are empty", removed, err)
	}
	for i, want := range []bool{false, false, true, false} {
		if got := s.Due(now.Add(time.Duration(i) * 40 * time.Minute)); got != want {
			t.Errorf("Due %d: got %v", i, got)
		}
	}
}
