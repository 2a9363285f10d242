package fields

import (
	"iter"
	"reflect"
	"strings"
	"sync"
)

// pools has what each JSON key of a sandbox's record means for a pool.
var pools = sync.OnceValue(func() map[string]Pool {
	all := map[string]Pool{}
	for i := range Table {
		key, _, _ := strings.Cut(Table[i].Record, ".")
		all[key] = Table[i].Pool
	}
	return all
})

// Clear sets the fields of a sandbox's record, of type *[runtime.SandboxConfig], that mean p for a
// pool to their zero values.
func Clear(record any, p Pool) {
	for v := range having(record, p) {
		v.SetZero()
	}
}

// Has reports whether a field of a record that means p for a pool has a value. A list without
// elements is none.
func Has(record any, p Pool) bool {
	for v := range having(record, p) {
		if k := v.Kind(); k == reflect.Slice || k == reflect.Map {
			v = reflect.ValueOf(v.Len())
		}
		if !v.IsZero() {
			return true
		}
	}
	return false
}

// Flags returns the flags of the fields that mean p for a pool, with their dashes.
func Flags(p Pool) (all []string) {
	for i := range Table {
		if f := &Table[i]; f.Pool == p && f.Name != "" {
			all = append(all, "--"+f.Name)
		}
	}
	return all
}

// having returns the fields of a record that mean p for a pool. A field without a row in [Table]
// means [Shape].
func having(record any, p Pool) iter.Seq[reflect.Value] {
	return func(yield func(reflect.Value) bool) {
		v := reflect.ValueOf(record).Elem()
		for _, i := range placesOf(v.Type())[p] {
			if !yield(v.Field(i)) {
				return
			}
		}
	}
}

// places has what placesOf returned, by type: to look at all tags takes ten times what a shape
// takes.
var places sync.Map

// placesOf returns the indices of the fields of a struct by what they mean for a pool.
func placesOf(t reflect.Type) *[Cold + 1][]int {
	if known, has := places.Load(t); has {
		return known.(*[Cold + 1][]int)
	}
	all := new([Cold + 1][]int)
	for i := range t.NumField() {
		key, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		all[pools()[key]] = append(all[pools()[key]], i)
	}
	places.Store(t, all)
	return all
}
