package registry_test

import (
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"wolffia/runtime"
	"wolffia/service/registry"
)

// A model is a registry, as slow and as plain as can be: a list.
type model struct {
	boxes    []registry.Metadata
	reserved map[string]bool
}

func (m *model) at(id string) int {
	return slices.IndexFunc(m.boxes, func(b registry.Metadata) bool { return b.SandboxID == id })
}

func (m *model) ofOwner(o registry.Owner) int {
	return slices.IndexFunc(m.boxes, func(b registry.Metadata) bool { return b.Owner == o })
}

func (m *model) add(b registry.Metadata, reserved bool) error {
	if i := m.ofOwner(b.Owner); i >= 0 && m.boxes[i].SandboxID != b.SandboxID {
		return runtime.ErrConflict
	}
	i := m.at(b.SandboxID)
	switch {
	case i < 0:
		m.boxes = append(m.boxes, b)
	case m.boxes[i].Owner != b.Owner:
		return runtime.ErrExists
	default:
		m.boxes[i] = b
	}
	m.reserved[b.SandboxID] = reserved
	return nil
}

func (m *model) remove(id string) {
	if i := m.at(id); i >= 0 {
		m.boxes = slices.Delete(m.boxes, i, i+1)
	}
	delete(m.reserved, id)
}

func (m *model) reconcile(found []registry.Metadata) {
	for _, b := range slices.Clone(m.boxes) {
		if !m.reserved[b.SandboxID] && !slices.ContainsFunc(found, func(f registry.Metadata) bool {
			return f.SandboxID == b.SandboxID && f.Owner == b.Owner
		}) {
			m.remove(b.SandboxID)
		}
	}
	for _, f := range found { // which are in the order of their age
		if m.reserved[f.SandboxID] {
			continue
		}
		if i := m.at(f.SandboxID); i >= 0 {
			f.GitConfigured = f.GitConfigured || m.boxes[i].GitConfigured
			m.boxes[i] = f
		} else if m.ofOwner(f.Owner) < 0 {
			m.boxes = append(m.boxes, f)
		}
	}
}

// same checks that a registry says what the model does, of everything that was
// ever named.
func (m *model) same(t *testing.T, r *registry.Registry, dir string, boxes, owners int) {
	t.Helper()
	ok(t, r.Check())
	if _, err := os.Lstat(filepath.Join(dir, "registry.db.damaged")); err == nil {
		t.Fatal("the file was taken for damaged")
	}
	var want, reserved []registry.Metadata
	for _, b := range m.boxes {
		if m.reserved[b.SandboxID] {
			reserved = append(reserved, b)
		} else {
			want = append(want, b)
		}
	}
	for _, l := range []struct {
		what string
		want []registry.Metadata
		list func() ([]registry.Metadata, error)
	}{{"List", want, r.List}, {"Reserved", reserved, r.Reserved}} {
		got, err := l.list()
		ok(t, err)
		slices.SortFunc(l.want, func(a, b registry.Metadata) int { return int(a.CreatedAt - b.CreatedAt) })
		if diff := cmp.Diff(l.want, got); diff != "" {
			t.Fatalf(`%s: got %s, want ""`, l.what, diff)
		}
	}
	for n := range boxes {
		if i := m.at(box(n, owner(0)).SandboxID); i < 0 || m.reserved[m.boxes[i].SandboxID] {
			_, err := r.GetMetadata(box(n, owner(0)).SandboxID)
			wrong(t, "GetMetadata", err, runtime.ErrNotFound)
		} else if got, err := r.GetMetadata(m.boxes[i].SandboxID); err != nil || got != m.boxes[i] {
			t.Fatalf("GetMetadata is %+v, %v, want %+v", got, err, m.boxes[i])
		}
	}
	for n := range owners {
		if i := m.ofOwner(owner(n)); i < 0 || m.reserved[m.boxes[i].SandboxID] {
			_, err := r.FindByOwner(owner(n))
			wrong(t, "FindByOwner", err, runtime.ErrNotFound)
		} else if got, err := r.FindByOwner(owner(n)); err != nil || got != m.boxes[i] {
			t.Fatalf("FindByOwner is %+v, %v, want %+v", got, err, m.boxes[i])
		}
	}
}

func TestSimulate_300op_3boxes(t *testing.T)   { simulate(t, 300, 3, 2) }
func TestSimulate_400op_20boxes(t *testing.T)  { simulate(t, 400, 20, 10) }
func TestSimulate_200op_200boxes(t *testing.T) { simulate(t, 200, 200, 150) }

// simulate does random operations on a registry and on a model, and compares. Now
// and then it closes and opens the file, or goes on with a copy that was taken
// from one that is open: what a crash leaves.
func simulate(t *testing.T, ops, boxes, owners int) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	dir := t.TempDir()
	r, err := registry.Open(dir, quiet)
	ok(t, err)
	defer func() { closeWhole(t, r) }()
	m := &model{reserved: map[string]bool{}}
	random := func() registry.Metadata {
		b := box(rnd.IntN(boxes), owner(rnd.IntN(owners)))
		b.GitConfigured = rnd.IntN(2) == 0
		return b
	}
	for range ops {
		b := random()
		switch n := rnd.IntN(100); {
		case n < 35:
			compare(t, "Register", r.Register(b), m.add(b, false))
		case n < 50:
			compare(t, "Reserve", r.Reserve(b), m.add(b, true))
		case n < 75:
			ok(t, r.Unregister(b.SandboxID))
			m.remove(b.SandboxID)
		case n < 85:
			var found []registry.Metadata
			for i := range boxes {
				if at := m.at(box(i, owner(0)).SandboxID); at >= 0 && rnd.IntN(10) > 0 {
					found = append(found, m.boxes[at])
				} else if rnd.IntN(10) == 0 {
					found = append(found, box(i, owner(rnd.IntN(owners))))
				}
			}
			m.reconcile(found)
			rnd.Shuffle(len(found), func(i, j int) { found[i], found[j] = found[j], found[i] })
			_, err := r.Reconcile(found)
			ok(t, err)
		case n < 92:
			closeWhole(t, r)
			r, err = registry.Open(dir, quiet)
			ok(t, err)
		default:
			crashed := t.TempDir()
			copyFile(t, dir, crashed)
			closeWhole(t, r)
			dir = crashed
			r, err = registry.Open(dir, quiet)
			ok(t, err)
		}
		m.same(t, r, dir, min(boxes, 20), min(owners, 20))
	}
	m.same(t, r, dir, boxes, owners)
}

// compare checks that an operation ends as the model's does.
func compare(t *testing.T, what string, got, want error) {
	t.Helper()
	if got == nil && want == nil {
		return
	}
	if want == nil || !errors.Is(got, want) {
		t.Fatalf("%s: %v, the model says %v", what, got, want)
	}
}
