package server

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"wolffia/internal/test/doctable"
)

// jsonFields returns the fields that a type has in JSON, those of embedded structs among them, in
// their order.
func jsonFields(of reflect.Type) (names []string) {
	for of.Kind() == reflect.Pointer {
		of = of.Elem()
	}
	for i := range of.NumField() {
		field := of.Field(i)
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case name == "-":
		case name != "":
			names = append(names, name)
		case field.Anonymous:
			names = append(names, jsonFields(field.Type)...)
		}
	}
	return names
}

// TestCallsAreListed: docs/service.md has each call, with what it takes beside the owner.
func TestCallsAreListed(t *testing.T) {
	owner := []string{"organizationId", "projectId", "userId"}
	table := "| call | what it does | takes | answers | KiB |\n| --- | --- | --- | --- | --- |\n"
	for _, name := range slices.Sorted(maps.Keys(calls)) {
		c := calls[name]
		takes := slices.DeleteFunc(jsonFields(c.in), func(field string) bool { return slices.Contains(owner, field) })
		var answers []string
		for _, field := range jsonFields(c.out) {
			if !slices.Contains(owner, field) && !slices.Contains(answers, field) {
				answers = append(answers, field)
			}
		}
		table += fmt.Sprintf("| `%s` | %s | %s | %s | %d |\n", name, c.summary,
			doctable.Code(takes, ", "), doctable.Code(answers, ", "), c.maxBody>>10)
	}
	doctable.Check(t, "../../docs/service.md", "calls", table)
}
