package server

import (
	"encoding/json"
	"net/http"
	"reflect"
	"sync"

	"wolffia/internal/openapi"
	"wolffia/ops"
	"wolffia/runtime"
)

// bashDocument is what the reply to executeBash has: a [runtime.Result].
type bashDocument struct {
	ops.Document
	shellReply
}

// programDocument is what the reply to runCommand has: see [programReply].
type programDocument struct {
	bashDocument
	StartError string `json:"startError"`
}

// fileDocument is what the reply to readFile has: see [fileReply] and [rangeReply].
type fileDocument struct {
	Encoding string `json:"encoding"`
	Content  string `json:"content"`
	Offset   int64  `json:"offset"`
	Size     int64  `json:"size"`
}

// A changeDocument is a change in a reply: see [runtime.Change].
type changeDocument struct {
	runtime.Change
	Path64 []byte `json:"path64"`
	From64 []byte `json:"from64"`
}

// changesDocument, diffDocument and applyDocument are what the replies of calls on changes have.
type (
	changesDocument struct {
		Changes []changeDocument `json:"changes"`
		More    int              `json:"more"`
	}
	diffDocument struct {
		Encoding  string `json:"encoding"`
		Content   string `json:"content"`
		Truncated bool   `json:"truncated"`
	}
	applyDocument struct {
		Applied     []changeDocument `json:"applied"`
		AppliedMore int              `json:"appliedMore"`
		Left        []changeDocument `json:"left"`
		LeftMore    int              `json:"leftMore"`
	}
)

// errorDocument is what the reply to a call that failed has: see [errorReply].
type errorDocument struct {
	Error failure `json:"error"`
}

// partials are the results that an error may have beside it, by call: see [partial]. Those of streams are events.
var partials = map[string]reflect.Type{
	"executeBash": reflect.TypeFor[bashDocument](), "writeFiles": reflect.TypeFor[writeReply](), "applyChanges": reflect.TypeFor[applyDocument](),
	"streamBash": reflect.TypeFor[endReply](), "runCommand": reflect.TypeFor[programDocument](), "streamCommand": reflect.TypeFor[programEnd](),
}

// failedSchema returns the schema of an error of a call.
func failedSchema(name string) openapi.Object {
	schema := openapi.Schema(reflect.TypeFor[errorDocument]())
	if result := partials[name]; result != nil {
		schema["properties"].(openapi.Object)["result"] = openapi.Schema(result)
	}
	return schema
}

// streamSchema returns the schema of the data of the events of a call.
func streamSchema(name string) openapi.Object {
	event := func(names string, schema openapi.Object) openapi.Object {
		schema["title"] = names
		return schema
	}
	return openapi.Object{"anyOf": []openapi.Object{
		event("stdout, stderr", openapi.Schema(reflect.TypeFor[outputEvent]())),
		event("result", openapi.Schema(partials[name])),
		event("error", failedSchema(name)),
	}}
}

// document returns the OpenAPI document of the calls, made of the types that they use.
var document = sync.OnceValue(func() openapi.Object {
	body := func(media string, schema openapi.Object) openapi.Object {
		return openapi.Object{media: openapi.Object{"schema": schema}}
	}
	paths := openapi.Object{}
	for name, c := range calls {
		media, out := "application/json", openapi.Schema(c.out)
		if c.out == reflect.TypeFor[outputEvent]() {
			media, out = "text/event-stream", streamSchema(name)
		}
		failed := openapi.Object{"description": "an error", "content": body("application/json", failedSchema(name))}
		paths["/api/v1/"+name] = openapi.Object{"post": openapi.Object{
			"operationId": name, "summary": c.summary,
			"requestBody": openapi.Object{"content": body("application/json", openapi.Schema(c.in))},
			"responses": openapi.Object{
				"2XX": openapi.Object{"description": c.summary, "content": body(media, out)}, "default": failed,
			},
		}}
	}
	return openapi.Object{
		"openapi": "3.1.0",
		"info":    openapi.Object{"title": "wolffia's service", "version": "1"},
		"paths":   paths,
		"components": openapi.Object{"securitySchemes": openapi.Object{
			"key": openapi.Object{"type": "http", "scheme": "bearer"},
		}},
		"security": []openapi.Object{{}, {"key": []string{}}},
	}
})

// describe answers with the document of the calls.
func describe(w http.ResponseWriter, r *http.Request) {
	r.Pattern = "/api/v1/openapi.json" // for the log
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(document()) // the client has gone
}
