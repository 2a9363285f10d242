package registry_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"wolffia/runtime"
	"wolffia/service/registry"
)

func TestRegister(t *testing.T) {
	dir := t.TempDir()
	r := open(t, dir)
	a, b := box(1, owner(1)), box(2, owner(2))
	hasNot(t, r, a)
	ok(t, r.Register(a))
	has(t, r, a)
	hasNot(t, r, b)
	ok(t, r.Register(b))
	a.GitConfigured, a.ContainerName = true, "other"
	ok(t, r.Register(a)) // replaced
	has(t, r, a)
	has(t, r, b)
	closeWhole(t, r)

	r = open(t, dir)
	has(t, r, a)
	has(t, r, b)
	if all, err := r.List(); err != nil || !cmp.Equal(all, []registry.Metadata{a, b}) {
		t.Errorf("List is %+v, %v", all, err)
	}
	ok(t, r.Unregister(a.SandboxID))
	ok(t, r.Unregister(a.SandboxID))
	ok(t, r.Unregister(""))
	hasNot(t, r, a)
	has(t, r, b)
	ok(t, r.Register(box(3, a.Owner)))
}

func TestOneSandboxForEachOwner(t *testing.T) {
	r := open(t, t.TempDir())
	a := box(1, owner(1))
	ok(t, r.Register(a))
	for what, register := range map[string]func(registry.Metadata) error{"Register": r.Register, "Reserve": r.Reserve} {
		err := register(box(2, a.Owner))
		wrong(t, what, err, runtime.ErrConflict)
		if conflict, ok := errors.AsType[*registry.ConflictError](err); !ok || conflict.SandboxID != a.SandboxID {
			t.Errorf("%s: the error is %v", what, err)
		}
		wrong(t, what+" another's id", register(box(1, owner(2))), runtime.ErrExists)
	}
	hasNot(t, r, box(2, a.Owner))
	has(t, r, a)
}

func TestReserve(t *testing.T) {
	dir := t.TempDir()
	r := open(t, dir)
	a := box(1, owner(1))
	ok(t, r.Reserve(a))
	hasNot(t, r, a)
	wrong(t, "another of the owner", r.Register(box(2, a.Owner)), runtime.ErrConflict)
	closeWhole(t, r)
	r = open(t, dir)
	if all, err := r.Reserved(); err != nil || !cmp.Equal(all, []registry.Metadata{a}) {
		t.Errorf("Reserved is %+v, %v", all, err)
	}
	ok(t, r.Register(a))
	has(t, r, a)
	if all, err := r.Reserved(); err != nil || len(all) > 0 {
		t.Errorf("Reserved is %+v, %v", all, err)
	}
	b := box(2, owner(2))
	ok(t, r.Reserve(b))
	ok(t, r.Unregister(b.SandboxID))
	ok(t, r.Reserve(box(3, b.Owner)))
}

func TestFiftyForOneOwner(t *testing.T) {
	for what, get := range map[string]func(*registry.Registry) func(registry.Metadata) error{
		"Register": func(r *registry.Registry) func(registry.Metadata) error { return r.Register },
		"Reserve":  func(r *registry.Registry) func(registry.Metadata) error { return r.Reserve },
	} {
		r := open(t, t.TempDir())
		const n = 50
		errs := make([]error, n)
		var wg sync.WaitGroup
		start := make(chan struct{})
		for i := range n {
			wg.Go(func() {
				<-start
				errs[i] = get(r)(box(i, owner(1)))
			})
		}
		close(start)
		wg.Wait()
		winner := -1
		for i, err := range errs {
			switch {
			case err == nil && winner >= 0:
				t.Errorf("%s: %d and %d have both won", what, winner, i)
			case err == nil:
				winner = i
			default:
				wrong(t, what, err, runtime.ErrConflict)
			}
		}
		if winner < 0 {
			t.Fatalf("%s: no caller has won", what)
		}
		if what == "Register" {
			has(t, r, box(winner, owner(1)))
		}
	}
}

// Owners that are one when their parts are put together with whatever is
// between.
func TestOwnersDoNotCollide(t *testing.T) {
	r := open(t, t.TempDir())
	var owners []registry.Owner
	for _, o := range [][3]string{
		{"a", "b", "c"},
		{"ab", "c", "x"},
		{"a", "bc", "x"},
		{"a:b", "c", "d"},
		{"a", "b:c", "d"},
		{"a", "b", "c:d"},
		{"a/b", "c", "d"},
		{"a", "b/c", "d"},
		{"a b", "c", "d"},
		{"a", "b c", "d"},
		{"\u00e4", "b", "c"},
		{"a\u0308", "b", "c"},
		{"A", "b", "c"},
		{" a", "b", "c"},
		{"b", "a", "c"},
		// A part that looks like the encoding of others: length, then text.
		{"a", "b", strings.Repeat("x", 97)},
		{strings.Repeat("b", 98), "a", "b"},
	} {
		owners = append(owners, registry.Owner{OrganizationID: o[0], ProjectID: o[1], UserID: o[2]})
	}
	for i, o := range owners {
		ok(t, r.Register(box(i, o)))
	}
	for i, o := range owners {
		has(t, r, box(i, o))
	}
}

func TestInvalidIsRefused(t *testing.T) {
	r := open(t, t.TempDir())
	for what, change := range map[string]func(m *registry.Metadata){
		"no id":             func(m *registry.Metadata) { m.SandboxID = "" },
		"no name":           func(m *registry.Metadata) { m.ContainerName = "" },
		"no organization":   func(m *registry.Metadata) { m.OrganizationID = "" },
		"no project":        func(m *registry.Metadata) { m.ProjectID = "" },
		"no user":           func(m *registry.Metadata) { m.UserID = "" },
		"before 1970":       func(m *registry.Metadata) { m.CreatedAt = -1 },
		"not UTF-8":         func(m *registry.Metadata) { m.UserID = "\xff" },
		"a control":         func(m *registry.Metadata) { m.ProjectID = "a\x1b[2J" },
		"a NUL":             func(m *registry.Metadata) { m.ProjectID = "a\x00" },
		"too long":          func(m *registry.Metadata) { m.UserID = strings.Repeat("x", registry.MaxPart+1) },
		"an id that is not": func(m *registry.Metadata) { m.SandboxID = "a\nb" },
	} {
		m := box(1, owner(1))
		change(&m)
		wrong(t, what, r.Register(m), runtime.ErrInvalid)
		wrong(t, what, r.Reserve(m), runtime.ErrInvalid)
		changes, err := r.Reconcile([]registry.Metadata{m})
		ok(t, err)
		if len(changes.Skipped) != 1 || len(changes.Added) > 0 {
			t.Errorf("%s: reconcile does %+v", what, changes)
		}
	}
	if all, err := r.List(); err != nil || len(all) > 0 {
		t.Errorf("List is %+v, %v", all, err)
	}
	long := box(1, registry.Owner{
		OrganizationID: strings.Repeat("o", registry.MaxPart), ProjectID: strings.Repeat("p", registry.MaxPart), UserID: strings.Repeat("u", registry.MaxPart),
	})
	ok(t, r.Register(long))
	has(t, r, long)
}

func TestParseOwner(t *testing.T) {
	if o, err := registry.ParseOwner("acme/web shop/zoe"); err != nil || o != (registry.Owner{OrganizationID: "acme", ProjectID: "web shop", UserID: "zoe"}) {
		t.Errorf(`registry.ParseOwner "acme/web shop/zoe": got %+v, %v; want registry.Owner{OrganizationID: "acme", ProjectID: "web shop", UserID: "zoe"}, nil`,
			o, err)
	}
	for _, s := range []string{"", "a", "a/b", "a/b/", "/b/c", "a//c", "a/b/c/d", "a/b/c/", "a/b/\x01"} {
		_, err := registry.ParseOwner(s)
		wrong(t, s, err, runtime.ErrInvalid)
	}
}

func TestReconcile(t *testing.T) {
	r := open(t, t.TempDir())
	stays, gone, reserved := box(1, owner(1)), box(2, owner(2)), box(3, owner(3))
	stays.GitConfigured = true
	ok(t, r.Register(stays))
	ok(t, r.Register(gone))
	ok(t, r.Reserve(reserved))
	unknown := box(4, owner(4))
	rival := box(0, stays.Owner)                                            // older, but not registered
	young, old := box(6, owner(6)), box(5, owner(6))                        // of one owner
	moved := box(2, owner(7))                                               // the id of one that is gone
	renamed := stays                                                        // as it is found
	renamed.GitConfigured, renamed.ContainerName = false, "renamed"         // git was configured later
	partial := registry.Metadata{SandboxID: "partial", ContainerName: "pa"} // has no owner
	changes, err := r.Reconcile([]registry.Metadata{young, renamed, unknown, rival, reserved, old, moved, partial})
	ok(t, err)
	want := &registry.Changes{
		Added: []registry.Metadata{moved, unknown, old}, Removed: []string{gone.SandboxID},
		Conflicts: []registry.Metadata{rival, young}, Skipped: []registry.Metadata{partial},
	}
	if diff := cmp.Diff(want, changes); diff != "" {
		t.Error(diff)
	}
	renamed.GitConfigured = true
	for _, m := range []registry.Metadata{renamed, unknown, old, moved} {
		has(t, r, m)
	}
	for _, m := range []registry.Metadata{reserved, rival, young, {SandboxID: "partial"}} {
		hasNot(t, r, m)
	}
	_, err = r.FindByOwner(owner(2))
	wrong(t, "the owner of what is gone", err, runtime.ErrNotFound)
	wrong(t, "what is reserved stays so", r.Register(box(9, reserved.Owner)), runtime.ErrConflict)

	again, err := r.Reconcile([]registry.Metadata{renamed, unknown, old, moved})
	ok(t, err)
	if diff := cmp.Diff(&registry.Changes{}, again); diff != "" {
		t.Errorf("once more: %s", diff)
	}
	_, err = r.Reconcile(nil)
	ok(t, err)
	if all, err := r.List(); err != nil || len(all) > 0 {
		t.Errorf("nothing is found, and List is %+v, %v", all, err)
	}
}

// Changes that wait while the file is written are written together, each with its own outcome.
func TestChangesTogether(t *testing.T) {
	dir := t.TempDir()
	r := open(t, dir)
	ok(t, r.Reserve(box(0, owner(0))))
	errs := make([]error, 10)
	var calls []func()
	for i := range 8 {
		calls = append(calls, func() { errs[i] = r.Reserve(box(i+1, owner(i+1))) })
	}
	calls = append(calls, func() { errs[8] = r.Unregister(box(0, owner(0)).SandboxID) }, func() { errs[9] = r.Reserve(box(9, owner(1))) })
	if writes := r.Together(errors.New("disk"), calls...); writes != 1 {
		t.Errorf("%d writes", writes)
	}
	for i, err := range errs {
		wrong(t, fmt.Sprint("change ", i, " that is not written"), err, runtime.ErrUnavailable)
	}
	if reserved, err := r.Reserved(); err != nil || len(reserved) != 1 {
		t.Errorf("after a write that failed: %v, %v", reserved, err)
	}
	if writes := r.Together(nil, calls...); writes != 1 {
		t.Errorf("%d writes", writes)
	}
	ok(t, errors.Join(errs[:9]...))
	wrong(t, "a second sandbox of an owner", errs[9], runtime.ErrConflict)
	ok(t, r.Close())
	if reserved, err := open(t, dir).Reserved(); err != nil || len(reserved) != 8 {
		t.Errorf("the file has %v, %v", reserved, err)
	}
}

func TestSecondServiceIsTold(t *testing.T) {
	dir := t.TempDir()
	r := open(t, dir)
	for range 2 {
		_, err := registry.Open(dir, quiet)
		wrong(t, "Open", err, registry.ErrInUse)
		wrong(t, "Open", err, runtime.ErrUnavailable)
		if !strings.Contains(err.Error(), dir) || !strings.Contains(err.Error(), "another service") {
			t.Errorf("the error is %q", err)
		}
	}
	ok(t, r.Register(box(1, owner(1)))) // it is none the worse
	ok(t, r.Close())
	ok(t, r.Close())
	wrong(t, "closed", r.Register(box(2, owner(2))), registry.ErrClosed)
	has(t, open(t, dir), box(1, owner(1)))
}

func TestDirectoryThatCannotBeUsed(t *testing.T) {
	_, err := registry.Open(t.TempDir()+"/none", quiet)
	wrong(t, "no directory", err, runtime.ErrUnavailable)
	if os.Geteuid() != 0 { // root may write anywhere
		dir := t.TempDir()
		ok(t, os.Chmod(dir, 0o500))
		_, err = registry.Open(dir, quiet)
		wrong(t, "read-only", err, runtime.ErrUnavailable)
	}
}
