package registry

import (
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.etcd.io/bbolt"

	"wolffia/runtime"
)

func openWith(dir string, steps []migration) (*Registry, error) {
	return locked(dir, func(r *Registry) error { return r.open(steps) })
}

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

var sample = Metadata{SandboxID: "sample", ContainerName: "sample", Owner: Owner{"o", "p", "u"}, CreatedAt: 1}

// raw changes a registry's file as nobody should.
func raw(t *testing.T, dir string, f func(tx *bbolt.Tx) error) {
	t.Helper()
	db, err := bbolt.Open(filepath.Join(dir, dbFile), 0o600, nil)
	ok(t, err)
	ok(t, db.Update(f))
	ok(t, db.Close())
}

// A file of schema 1, entry by entry: what was released must stay readable.
func TestSchema1(t *testing.T) {
	dir := t.TempDir()
	raw(t, dir, func(tx *bbolt.Tx) error {
		put := func(bucket, key, value string) error {
			b, err := tx.CreateBucketIfNotExists([]byte(bucket))
			if err != nil {
				return err
			}
			return b.Put([]byte(key), []byte(value))
		}
		_, err := tx.CreateBucket([]byte("reserved"))
		return errors.Join(err,
			put("meta", "version", "\x00\x00\x00\x00\x00\x00\x00\x01"),
			put("sandboxes", "sample", `{"sandboxId":"sample","containerName":"sample","organizationId":"o","projectId":"p","userId":"u","createdAt":1,"gitConfigured":false}`),
			put("owners", "\x01o\x01p\x01u", "sample"))
	})
	r, err := Open(dir)
	ok(t, err)
	defer r.Close()
	ok(t, r.Check())
	if m, err := r.FindByOwner(sample.Owner); err != nil || m != sample {
		t.Errorf("%+v, %v", m, err)
	}
}

func TestMigrate(t *testing.T) {
	dir := t.TempDir()
	r, err := Open(dir)
	ok(t, err)
	ok(t, r.Register(sample))
	ok(t, r.Close())

	var ran []int
	step := func(n int, err error) migration {
		return func(tx *bbolt.Tx) error {
			ran = append(ran, n)
			// The older schema's content is there to be changed.
			if _, is := holder(tx, sample.Owner); !is {
				t.Errorf("step %d: what was registered is gone", n)
			}
			return errors.Join(tx.Bucket(metaBucket).Put([]byte("step"), []byte{byte(n)}), err)
		}
	}
	failed := errors.New("no room")
	_, err = openWith(dir, []migration{migrations[0], step(2, nil), step(3, failed)})
	if !errors.Is(err, failed) || !strings.Contains(err.Error(), "schema 3") || errors.Is(err, ErrDamaged) {
		t.Errorf("a migration that fails: %v", err)
	}
	r, err = Open(dir) // all is as it was, for the program as it was
	ok(t, err)
	ok(t, r.db.View(func(tx *bbolt.Tx) error {
		if v, err := version(tx); v != 1 || err != nil || tx.Bucket(metaBucket).Get([]byte("step")) != nil {
			t.Errorf("version %d, %v, step %v", v, err, tx.Bucket(metaBucket).Get([]byte("step")))
		}
		return nil
	}))
	ok(t, r.Close())

	ran = nil
	for range 2 { // the second time there is nothing to do
		r, err = openWith(dir, []migration{migrations[0], step(2, nil), step(3, nil)})
		ok(t, err)
		if m, err := r.GetMetadata("sample"); err != nil || m != sample {
			t.Errorf("%+v, %v", m, err)
		}
		ok(t, r.Close())
	}
	if len(ran) != 2 || ran[0] != 2 || ran[1] != 3 {
		t.Errorf("steps %v have run", ran)
	}

	_, err = Open(dir)
	if !errors.Is(err, runtime.ErrUnavailable) || errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), "newer wolffia") {
		t.Errorf("a newer file: %v", err)
	}
}

// What is not valid is not there, and whoever registers takes its place.
func TestInvalidRecordsAreNotFound(t *testing.T) {
	for what, record := range map[string]string{
		"not JSON":         `{"sandboxId":"sample"`,
		"empty":            ``,
		"another form":     `[1]`,
		"null":             `null`,
		"no user":          `{"sandboxId":"sample","containerName":"sample","organizationId":"o","projectId":"p","createdAt":1}`,
		"an empty project": `{"sandboxId":"sample","containerName":"sample","organizationId":"o","projectId":"","userId":"u","createdAt":1}`,
		"no name":          `{"sandboxId":"sample","organizationId":"o","projectId":"p","userId":"u","createdAt":1}`,
		"a number":         `{"sandboxId":"sample","containerName":"sample","organizationId":"o","projectId":"p","userId":7,"createdAt":1}`,
		"a late type":      `{"sandboxId":"sample","containerName":"sample","organizationId":"o","projectId":"p","userId":"u","createdAt":"1"}`,
		"another id":       `{"sandboxId":"simple","containerName":"sample","organizationId":"o","projectId":"p","userId":"u","createdAt":1}`,
		"another owner":    `{"sandboxId":"sample","containerName":"sample","organizationId":"o","projectId":"p","userId":"x","createdAt":1}`,
	} {
		t.Run(what, func(t *testing.T) {
			dir := t.TempDir()
			r, err := Open(dir)
			ok(t, err)
			ok(t, r.Register(sample))
			ok(t, r.Close())
			raw(t, dir, func(tx *bbolt.Tx) error { return tx.Bucket(sandboxesBucket).Put([]byte("sample"), []byte(record)) })
			r, err = Open(dir)
			ok(t, err)
			defer r.Close()
			if err := r.Check(); err == nil || errors.Is(err, ErrDamaged) {
				t.Errorf("Check says %v", err)
			}
			if m, err := r.FindByOwner(sample.Owner); !errors.Is(err, runtime.ErrNotFound) || m != (Metadata{}) {
				t.Errorf("FindByOwner is %+v, %v", m, err)
			}
			if m, err := r.GetMetadata("sample"); what != "another owner" && (!errors.Is(err, runtime.ErrNotFound) || m != (Metadata{})) {
				t.Errorf("GetMetadata is %+v, %v", m, err)
			}
			if what == "another owner" { // whose it is now: the record says so
				ok(t, r.Unregister("sample"))
			}
			changes, err := r.Reconcile([]Metadata{sample})
			ok(t, err)
			if len(changes.Added) != 1 {
				t.Errorf("reconcile does %+v", changes)
			}
			ok(t, r.Check())
			if m, err := r.FindByOwner(sample.Owner); err != nil || m != sample {
				t.Errorf("FindByOwner is %+v, %v", m, err)
			}
		})
	}
}

// An index that leads astray, and two of one owner, are put right.
func TestReconcileHealsTheIndex(t *testing.T) {
	dir := t.TempDir()
	r, err := Open(dir)
	ok(t, err)
	other := Metadata{SandboxID: "other", ContainerName: "other", Owner: Owner{"o", "p", "v"}, CreatedAt: 2}
	twin := Metadata{SandboxID: "twin", ContainerName: "twin", Owner: sample.Owner, CreatedAt: 3}
	ok(t, r.Register(sample))
	ok(t, r.Register(other))
	ok(t, r.update(func(tx *bbolt.Tx) error {
		return errors.Join(
			put(tx, sandboxesBucket, twin),
			tx.Bucket(ownersBucket).Delete(other.key()),
			tx.Bucket(ownersBucket).Put([]byte("garbage"), []byte("sample")),
			tx.Bucket(ownersBucket).Put(Owner{"x", "y", "z"}.key(), []byte("nothing")))
	}))
	if err := r.Check(); err == nil {
		t.Error("Check says nothing")
	}
	changes, err := r.Reconcile([]Metadata{sample, other, twin})
	ok(t, err)
	if len(changes.Added) > 0 || len(changes.Removed) != 1 || changes.Removed[0] != "twin" || len(changes.Conflicts) != 1 || changes.Conflicts[0] != twin {
		t.Errorf("%+v", changes)
	}
	ok(t, r.Check())
	for _, m := range []Metadata{sample, other} {
		if got, err := r.FindByOwner(m.Owner); err != nil || got != m {
			t.Errorf("%+v, %v", got, err)
		}
	}
	ok(t, r.Close())
}

// A crash in the midst of a change leaves all as it was before.
func TestCrashInAChange(t *testing.T) {
	dir, crashed := t.TempDir(), t.TempDir()
	r, err := Open(dir)
	ok(t, err)
	ok(t, r.Register(sample))
	ok(t, r.update(func(tx *bbolt.Tx) error {
		if err := remove(tx, []byte("sample")); err != nil {
			return err
		}
		data, err := os.ReadFile(filepath.Join(dir, dbFile))
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(crashed, dbFile), data, 0o600)
	}))
	ok(t, r.Close())
	r, err = Open(crashed)
	ok(t, err)
	ok(t, r.Check())
	if m, err := r.FindByOwner(sample.Owner); err != nil || m != sample {
		t.Errorf("after the crash: %+v, %v", m, err)
	}
	ok(t, r.Close())
	r, err = Open(dir)
	ok(t, err)
	if _, err := r.FindByOwner(sample.Owner); !errors.Is(err, runtime.ErrNotFound) {
		t.Errorf("without a crash: %v", err)
	}
	ok(t, r.Close())
}

func TestVersionThatMakesNoSense(t *testing.T) {
	for what, change := range map[string]func(tx *bbolt.Tx) error{
		"short":         func(tx *bbolt.Tx) error { return tx.Bucket(metaBucket).Put(versionKey, []byte{1}) },
		"zero":          func(tx *bbolt.Tx) error { return tx.Bucket(metaBucket).Put(versionKey, make([]byte, 8)) },
		"a bucket less": func(tx *bbolt.Tx) error { return tx.DeleteBucket(ownersBucket) },
		"none":          func(tx *bbolt.Tx) error { return tx.DeleteBucket(metaBucket) },
		"huge": func(tx *bbolt.Tx) error {
			return tx.Bucket(metaBucket).Put(versionKey, binary.BigEndian.AppendUint64(nil, 1<<63))
		},
	} {
		dir := t.TempDir()
		r, err := Open(dir)
		ok(t, err)
		ok(t, r.Close())
		raw(t, dir, change)
		_, err = Open(dir)
		if !errors.Is(err, runtime.ErrUnavailable) || errors.Is(err, ErrDamaged) != (what != "huge") {
			t.Errorf("%s: %v", what, err)
		}
	}
}
