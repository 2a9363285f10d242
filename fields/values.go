package fields

import (
	"fmt"
	"maps"
	"reflect"
	"strconv"
)

// Values are what was set, by the name of the field: pointers to string, int64, float64, bool or
// []string, by its kind. The methods return the zero value for a field that a command does not
// have. They panic if [Table] has no field of that name and kind: a mistake of the program.
// Concurrent reading is safe.
type Values map[string]any

// Text returns the value of a Text, Size or Duration.
func (v Values) Text(name string) string { return value[string](v, name) }

// Whole returns the value of a Whole.
func (v Values) Whole(name string) int64 { return value[int64](v, name) }

// Number returns the value of a Number.
func (v Values) Number(name string) float64 { return value[float64](v, name) }

// Truth returns the value of a Truth.
func (v Values) Truth(name string) bool { return value[bool](v, name) }

// List returns the value of a List, which the caller must not change.
func (v Values) List(name string) []string { return value[[]string](v, name) }

// With returns a copy of v with another value for one field, of the type that its kind has.
func (v Values) With(name string, to any) Values {
	all := maps.Clone(v)
	if all == nil {
		all = Values{}
	}
	p := reflect.New(reflect.TypeOf(to))
	p.Elem().Set(reflect.ValueOf(to))
	all[name] = p.Interface()
	return all
}

func value[T any](v Values, name string) (zero T) {
	p, is := v[name].(*T)
	if is {
		return *p
	}
	for i := range Table {
		if f := &Table[i]; f.Name == name {
			if _, is := f.New().(*T); is {
				return zero
			}
		}
	}
	panic(fmt.Sprintf("fields: no %T %q", zero, name))
}

// New returns a pointer to the default of f, as in [Values].
func (f *Field) New() any {
	switch f.Kind {
	case Whole:
		n, _ := strconv.ParseInt(f.Default, 10, 64) // empty is 0
		return &n
	case Number:
		return new(float64)
	case Truth:
		return new(bool)
	case List:
		return new([]string)
	default:
		return new(f.Default)
	}
}
