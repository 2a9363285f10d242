package opensandbox

import (
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"sync"

	"wolffia/internal/openapi"
)

// An about describes a call for the document of the API. in and out are values of the types
// of its body and of the reply; nil: it has none.
type about struct {
	summary string
	query   []string
	in, out any
	status  int
	media   string // of the body if in is nil, or of the reply; empty: none
}

// object is a JSON object.
type object = openapi.Object

// apiDocument returns what GET /v1/openapi.json replies: the document of the API, made of the
// types that the calls use.
var apiDocument = sync.OnceValue(func() object {
	paths := map[string]object{}
	for pattern, c := range calls() {
		if c.about == nil {
			continue
		}
		method, path, _ := strings.Cut(pattern, " ")
		if paths[path] == nil {
			paths[path] = object{}
		}
		paths[path][strings.ToLower(method)] = c.about.operation(method, path)
	}
	return object{
		"openapi": "3.1.0",
		"info":    object{"title": "OpenSandbox's API, as wolffia serves it", "version": "1"},
		"paths":   paths,
		"components": object{"securitySchemes": object{
			"key": object{"type": "apiKey", "in": "header", "name": "OPEN-SANDBOX-API-KEY"},
		}},
		"security": []object{{}, {"key": []string{}}},
	}
})

var inPath = lazily(`\{(\w+)\}`)

// operation describes a call.
func (a *about) operation(method, path string) object {
	parameters := []object{}
	for _, m := range inPath().FindAllStringSubmatch(path, -1) {
		parameters = append(parameters, object{"name": m[1], "in": "path", "required": true, "schema": object{"type": "string"}})
	}
	for _, q := range a.query {
		parameters = append(parameters, object{"name": q, "in": "query", "schema": object{"type": "string"}})
	}
	reply := object{"description": a.summary}
	switch {
	case a.out != nil:
		media := "application/json"
		if reflect.TypeOf(a.out) == reflect.TypeFor[event]() {
			media = "text/event-stream"
		}
		reply["content"] = object{media: object{"schema": openapi.Schema(reflect.TypeOf(a.out))}}
	case a.media != "" && method == http.MethodGet:
		reply["content"] = object{a.media: object{}}
	}
	failed := object{"description": "an error", "content": object{"application/json": object{"schema": openapi.Schema(reflect.TypeFor[errorReply]())}}}
	o := object{"summary": a.summary, "parameters": parameters, "responses": object{strconv.Itoa(a.status): reply, "default": failed}}
	switch {
	case a.in != nil:
		o["requestBody"] = object{"content": object{"application/json": object{"schema": openapi.Schema(reflect.TypeOf(a.in))}}}
	case a.media != "" && method != http.MethodGet:
		o["requestBody"] = object{"content": object{a.media: object{}}}
	}
	return o
}
