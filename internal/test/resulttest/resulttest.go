// Package resulttest checks that a front end passes on all that a runtime.Result, or another struct, says.
package resulttest

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"reflect"
	"slices"
	"syscall"
	"testing"
	"time"

	"wolffia/perm"
	"wolffia/runtime"
)

// special are the values of fields of which not any value has an effect.
var special = map[string]any{
	"Session.Restored": "none",
	"Need":             perm.Write, // of a denial: what was needed is more than the level
	"Rule":             &perm.Rule{Pattern: ".env", Level: perm.None, Source: "preset x"},
	"Errno":            syscall.EACCES,
}

// ofJobs are the fields that no command has.
var ofJobs = map[string]string{"StdoutEnd": "of the output of a job", "StderrEnd": "of the output of a job"}

// Check is Whole for a [runtime.Result]. Fields that no command has need no row.
func Check(t *testing.T, write func(w io.Writer, r *runtime.Result) (any, error), left map[string]string) {
	t.Helper()
	left = maps.Clone(left)
	if left == nil {
		left = map[string]string{}
	}
	maps.Copy(left, ofJobs)
	Whole(t, func(r *runtime.Result) (any, error) {
		var b bytes.Buffer
		reply, err := write(&b, r)
		return []any{b.String(), reply}, err
	}, left)
}

// Whole fails for each field of a struct, also below its lists and pointers, whose value has no effect
// on the JSON of what translate returns, unless left has its path, such as Denied.Op, and the
// reason; and for a path in left that no such field has.
func Whole[T any](t *testing.T, translate func(*T) (any, error), left map[string]string) {
	t.Helper()
	var paths []string
	with := func(set func(path string) bool) string {
		r := new(T)
		paths = fill(nil, reflect.ValueOf(r).Elem(), "", set)
		reply, err := translate(r)
		text, jerr := json.Marshal(reply)
		if err := errors.Join(err, jerr); err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	all := with(func(string) bool { return true })
	none := with(func(string) bool { return false })
	if len(paths) < 5 {
		t.Fatalf("the fields are %q", paths)
	}
	left = maps.Clone(left)
	for _, path := range slices.Clone(paths) {
		seen := with(func(p string) bool { return p == path }) != none || with(func(p string) bool { return p != path }) != all
		reason, is := left[path]
		delete(left, path)
		switch {
		case !seen && reason == "":
			t.Errorf("%s of a result is dropped: pass it on, or say why not in a row of this test", path)
		case seen && is:
			t.Errorf("%s of a result is passed on: remove the row that says that it is not", path)
		}
	}
	for path := range left {
		t.Errorf("a result has no %s", path)
	}
}

// fill gives v lists of one element and no nil pointer to a struct, gives the fields that set selects a value, and
// appends the paths of all fields.
func fill(paths []string, v reflect.Value, path string, set func(path string) bool) []string {
	isStruct := func(t reflect.Type) bool { return t.Kind() == reflect.Struct && t != reflect.TypeFor[time.Time]() }
	switch {
	case special[path] != nil && reflect.TypeOf(special[path]).AssignableTo(v.Type()):
		if set(path) {
			v.Set(reflect.ValueOf(special[path]))
		}
		return append(paths, path)
	case isStruct(v.Type()):
		for i := range v.NumField() {
			name := v.Type().Field(i).Name
			if path != "" {
				name = path + "." + name
			}
			paths = fill(paths, v.Field(i), name, set)
		}
		return paths
	case v.Kind() == reflect.Pointer && isStruct(v.Type().Elem()):
		v.Set(reflect.New(v.Type().Elem()))
		return fill(paths, v.Elem(), path, set)
	case v.Kind() == reflect.Slice && isStruct(v.Type().Elem()):
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		return fill(paths, v.Index(0), path, set)
	case set(path):
		v.Set(value(v.Type(), path))
	}
	return append(paths, path)
}

// value returns a value that is not zero.
func value(t reflect.Type, path string) reflect.Value {
	v := reflect.New(t).Elem()
	switch {
	case t == reflect.TypeFor[time.Time]():
		return reflect.ValueOf(time.Unix(1e9, 0))
	case t.Kind() == reflect.Pointer:
		v.Set(reflect.New(t.Elem()))
		v.Elem().Set(value(t.Elem(), path))
	case t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8:
		v.SetBytes([]byte(path))
	case t.Kind() == reflect.Slice:
		v.Set(reflect.Append(v, value(t.Elem(), path)))
	case t.Kind() == reflect.String:
		v.SetString(path)
	case t.Kind() == reflect.Interface: // its zero value is the only one that is known
	case t.Kind() == reflect.Bool:
		v.SetBool(true)
	case v.CanInt():
		v.SetInt(7_000_000) // as a Duration whole milliseconds
	default:
		v.SetUint(1)
	}
	return v
}
