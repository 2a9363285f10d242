// Package openapi makes parts of OpenAPI documents from the types that a service uses.
package openapi

import (
	"encoding"
	"encoding/json"
	"maps"
	"reflect"
	"strings"
	"time"
)

// An Object is a JSON object.
type Object = map[string]any

// Schema returns the schema of a type as encoding/json has it.
func Schema(t reflect.Type) Object {
	switch {
	case t == reflect.TypeFor[time.Time]():
		return Object{"type": "string", "format": "date-time"}
	case t == reflect.TypeFor[json.RawMessage](), t == reflect.TypeFor[any]():
		return Object{}
	case t == reflect.TypeFor[[]byte]():
		return Object{"type": "string", "contentEncoding": "base64"}
	case t.Kind() != reflect.Pointer && t.Implements(reflect.TypeFor[encoding.TextMarshaler]()):
		return Object{"type": "string"}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return Schema(t.Elem())
	case reflect.String:
		return Object{"type": "string"}
	case reflect.Bool:
		return Object{"type": "boolean"}
	case reflect.Float64:
		return Object{"type": "number"}
	case reflect.Int, reflect.Int64, reflect.Uint32, reflect.Uint64:
		return Object{"type": "integer"}
	case reflect.Slice:
		return Object{"type": "array", "items": Schema(t.Elem())}
	case reflect.Map:
		of := Schema(t.Elem())
		if t.Elem().Kind() == reflect.Pointer { // a key of null is not a key that is missing
			of = Object{"anyOf": []Object{of, {"type": "null"}}}
		}
		return Object{"type": "object", "additionalProperties": of}
	case reflect.Struct:
		return structSchema(t)
	}
	panic("no schema of " + t.String()) // a type of a call that the document cannot describe
}

// A Described is embedded in a struct to have the members of another type in the document.
type Described interface {
	// MemberType returns the struct with the members.
	MemberType() reflect.Type
}

func structSchema(t reflect.Type) Object {
	properties := Object{}
	for _, f := range reflect.VisibleFields(t) {
		if d, is := reflect.Zero(f.Type).Interface().(Described); f.Anonymous && is {
			maps.Copy(properties, structSchema(d.MemberType())["properties"].(Object))
			continue
		}
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.IsExported() && !f.Anonymous && name != "" && name != "-" {
			properties[name] = Schema(f.Type)
		}
	}
	return Object{"type": "object", "properties": properties}
}
