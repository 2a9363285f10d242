package cow

import (
	"os"
	"slices"
	"strings"
	"testing"

	"wolffia/runtime"
)

// TestUnreadableOnHost: what the host does not allow its user to read differs, and keeps nothing
// else from being shown, counted and applied.
func TestUnreadableOnHost(t *testing.T) {
	m := newModel(t)
	t.Cleanup(func() { m.modesOf(m.dir, true) })
	const secret = "a\x00" // binary for root, too, who can read it
	m.must(os.WriteFile(m.host("text"), []byte("old\n"), 0o644))
	for _, name := range []string{"gone", "replaced", "retyped", "moved"} {
		m.must(os.WriteFile(m.host(name), []byte(secret), 0o644))
	}
	for _, dir := range []string{"shut", "listed"} {
		m.must(os.Mkdir(m.host(dir), 0o755))
		m.must(os.WriteFile(m.host(dir+"/file"), []byte(secret), 0o644))
	}
	m.write("text", "new\n", 0)
	m.remove("gone")
	m.remove("replaced")
	m.write("replaced", "mine\n", 0o644)
	m.remove("retyped")
	m.mkdir("retyped")
	m.rename("shut", "elsewhere")
	m.rename("listed", "elsewhere2")
	for _, name := range []string{"gone", "replaced", "retyped", "shut"} {
		m.must(os.Chmod(m.host(name), 0))
	}
	m.must(os.Chmod(m.host("listed"), 0o444))

	all := m.changes()
	at := func(p string) *runtime.Change {
		i := slices.IndexFunc(all, func(c runtime.Change) bool { return c.Path == p })
		if i < 0 {
			t.Fatalf("no change of %s: %+v", p, all)
		}
		return &all[i]
	}
	if c := at("text"); c.Added != 1 || c.Deleted != 1 || c.Binary {
		t.Errorf("text: %+v", c)
	}
	for _, p := range []string{"gone", "replaced", "retyped"} {
		if c := at(p); !c.Binary {
			t.Errorf("%s: got c %+v; want c.Binary", p, c)
		}
	}
	diff := m.diff()
	for _, want := range []string{"+new\n", "Binary files a/gone and /dev/null differ\n", "Binary files a/replaced and b/replaced differ\n"} {
		if !strings.Contains(diff, want) {
			t.Errorf("the diff has no %q:\n%s", want, diff)
		}
	}
	if _, err := m.guarded().Apply(runtime.ApplyOptions{Paths: []string{"text", "gone", "replaced"}}); err != nil {
		t.Error(err)
	}
	m.must(os.Chmod(m.host("replaced"), 0o600))
	if got := describe(t, m.host("replaced")); !strings.Contains(got, "mine") {
		t.Error("the host has ", got)
	}
}
