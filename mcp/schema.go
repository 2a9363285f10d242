package mcp

import (
	"reflect"
	"slices"

	"github.com/google/jsonschema-go/jsonschema"

	"wolffia/perm"
)

// texts are types that JSON has as text.
var texts = map[reflect.Type]*jsonschema.Schema{
	reflect.TypeFor[perm.Level](): {Type: "string", Description: "none, view, read or write"},
}

// schema returns the schema of T for a tool. Each type in it is a single one, since not all
// clients understand others: what may be absent is not null.
func schema[T any]() *jsonschema.Schema {
	s, err := jsonschema.For[T](&jsonschema.ForOptions{TypeSchemas: texts})
	if err != nil {
		panic(err) // T is one of the types of this package
	}
	single(s)
	return s
}

// single removes null from the types of a schema.
func single(s *jsonschema.Schema) {
	if s == nil {
		return
	}
	if types := slices.DeleteFunc(s.Types, func(t string) bool { return t == "null" }); len(types) == 1 {
		s.Type, s.Types = types[0], nil
	}
	for _, p := range s.Properties {
		single(p)
	}
	single(s.Items)
}
