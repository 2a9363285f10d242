package service_test

import (
	"slices"
	"testing"

	"wolffia/runtime"
	"wolffia/service"
)

// Commands of callers are records, with the key, whichever way they run.
func TestCommandsAreRecorded(t *testing.T) {
	s := &shells{id: runtime.NewID()}
	var all []service.Record
	v := service.New(s, &service.Options{Record: func(r *service.Record) { all = append(all, *r) }})
	ctx := service.WithCaller(t.Context(), service.Caller{All: true, Key: "ci"})
	in, err := v.Inside(ctx, service.Caller{All: true, Key: "ci"}, s.id)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := in.Exec(ctx, &runtime.Command{Command: []string{"make", "test"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := v.Driver().ExecuteBash(ctx, s.id, &runtime.Command{Command: []string{"ls; pwd"}}); err != nil {
		t.Fatal(err)
	}
	for i, want := range [][]string{{"make", "test"}, {"ls; pwd"}} {
		if i >= len(all) {
			t.Fatalf("%d records", len(all))
		}
		if r := all[i]; r.Kind != service.RecordCommand || r.Key != "ci" || r.Sandbox.ID != s.id || !slices.Equal(r.Command, want) {
			t.Errorf("record %d is %+v, want %q", i, r, want)
		}
	}
}
