package fields

import (
	"encoding/json"
	"fmt"
	"reflect"
	"sync"
)

// requested are the fields that a request to the service may set, each once, with their Key.
var requested = sync.OnceValue(func() (all []Field) {
	for i := range Table {
		if f := Table[i].keyed(); f.API {
			all = append(all, f)
		}
	}
	return all
})

// Requests returns the keys that a request to the service may set, in the order of [Table].
func Requests() (keys []string) {
	for _, f := range requested() {
		keys = append(keys, f.Key)
	}
	return keys
}

// Requested returns the field of a key that a request to the service may set, or nil.
func Requested(key string) *Field {
	for _, f := range requested() {
		if f.Key == key {
			return &f
		}
	}
	return nil
}

// RequestType is the struct that encoding/json reads for [DecodeRequest].
var RequestType = sync.OnceValue(func() reflect.Type {
	var all []reflect.StructField
	for i, f := range requested() {
		all = append(all, reflect.StructField{
			Name: fmt.Sprintf("F%d", i), Type: reflect.TypeOf(f.New()).Elem(),
			Tag: reflect.StructTag(fmt.Sprintf("json:%q", f.Key)),
		})
	}
	return reflect.StructOf(all)
})

// DecodeRequest returns what a JSON object sets of the fields that a request may set. Other
// members are ignored, and so are empty values, which mean the service's own. Errors are those of
// [json.Unmarshal].
func DecodeRequest(body []byte) (Values, error) {
	into := reflect.New(RequestType())
	if err := json.Unmarshal(body, into.Interface()); err != nil {
		return nil, err
	}
	var v Values
	for i, f := range requested() {
		if at := into.Elem().Field(i); !at.IsZero() && (at.Kind() != reflect.Slice || at.Len() > 0) {
			v = v.With(f.Name, at.Interface())
		}
	}
	return v, nil
}

// Asked is for a request to embed: the fields that it sets. [DecodeRequest] fills it in.
type Asked struct {
	Values `json:"-"`
}

// Settings returns what DecodeRequest fills in.
func (a *Asked) Settings() *Values { return &a.Values }

// MemberType returns the struct with the members that a request gets by embedding an Asked.
func (Asked) MemberType() reflect.Type { return RequestType() }
