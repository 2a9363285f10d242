package mcp

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// decodeArgs decodes the arguments of a call, once, into a struct. An argument that is null is not
// set: several clients send null for each option that the model has left out. Names that are not
// known are refused, and so are missing ones.
func decodeArgs[In any](text json.RawMessage) (in In, err error) {
	var given map[string]json.RawMessage
	if len(text) > 0 {
		if err := json.Unmarshal(text, &given); err != nil {
			return in, errors.New("arguments: they must be an object")
		}
	}
	var known []string
	to := reflect.ValueOf(&in).Elem()
	for field := range to.Type().Fields() {
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		known = append(known, name)
		value := given[name]
		switch {
		case len(value) > 0 && string(value) != "null":
			if json.Unmarshal(value, to.FieldByIndex(field.Index).Addr().Interface()) != nil {
				return in, fmt.Errorf("argument %s is %.40s: it must be %s", name, value, kindOf(field.Type))
			}
		case options == "":
			return in, fmt.Errorf("argument %s is missing", name)
		}
	}
	for name := range given {
		if !slices.Contains(known, name) {
			return in, fmt.Errorf("argument %.40q does not exist: the arguments are %s", name, strings.Join(known, ", "))
		}
	}
	return in, nil
}

// kindOf says what values of a type are in JSON.
func kindOf(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Pointer:
		return kindOf(t.Elem())
	case reflect.Slice:
		return "a list, each " + kindOf(t.Elem())
	case reflect.Bool:
		return "true or false"
	case reflect.String:
		return "a text"
	}
	return "an integer"
}
