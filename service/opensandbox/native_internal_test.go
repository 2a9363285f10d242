package opensandbox

import (
	"cmp"
	"encoding/json"
	"reflect"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"wolffia/fields"
	"wolffia/internal/openapi"
)

// Settings of the table can be fields of a request or extensions, not both.
func TestNativeRequest(t *testing.T) {
	for body, want := range map[string]fields.Values{
		`{}`: nil,
		`{"codebase":"/a","cow":true,"rules":["a=read"]}`:                    fields.Values{}.With("codebase", "/a").With("cow", true).With("rule", []string{"a=read"}),
		`{"extensions":{"cow":"true","preset":"p","rules":" a=b\n\n c=d "}}`: fields.Values{}.With("cow", true).With("preset", "p").With("rule", []string{"a=b", "c=d"}),
		`{"cow":true,"extensions":{"cow":"true"}}`:                           fields.Values{}.With("cow", true),
		`{"extensions":{"cow":"false","runtime":""}}`:                        nil,
	} {
		var q createRequest
		if err := json.Unmarshal([]byte(body), &q); err != nil {
			t.Fatal(err)
		}
		got, err := withExtensions(q.Values, q.Extensions)
		if diff := gocmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf(`%s: got %v, %s; want nil, ""`, body, err, diff)
		}
	}
	for _, body := range []string{
		`{"cow":true,"extensions":{"cow":"false"}}`, `{"extensions":{"cow":"yes"}}`, `{"rules":["a=b"],"extensions":{"rules":"c=d"}}`,
		`{"codebase":"/a","extensions":{"codebase":"/a"}}`, `{"extensions":{"mount":"/etc"}}`, `{"extensions":{"rule":"a=b"}}`,
	} {
		var q createRequest
		if err := json.Unmarshal([]byte(body), &q); err != nil {
			t.Fatal(err)
		}
		if got, err := withExtensions(q.Values, q.Extensions); err == nil {
			t.Errorf("%s: got %v; want err != nil", body, got)
		}
	}
}

// The document of the API has them as fields of the request, and nothing else of how they are kept.
func TestNativeSchema(t *testing.T) {
	all := openapi.Schema(reflect.TypeFor[createRequest]())["properties"].(object)
	for _, key := range fields.Requests() {
		want := map[fields.Kind]string{fields.Truth: "boolean", fields.List: "array"}[fields.Requested(key).Kind]
		if got, has := all[key].(object); !has || got["type"] != cmp.Or(want, "string") {
			t.Errorf(`%s: got %v; want has and got["type"] == cmp.Or(want, "string")`, key, got)
		}
	}
	if all["Values"] != nil || all["entrypoint"] == nil {
		t.Errorf(`got all %v; want all["Values"] == nil and all["entrypoint"] != nil`, all)
	}
}
