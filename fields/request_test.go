package fields

import (
	"encoding/json"
	"errors"
	"slices"
	"testing"
)

// A request sets the fields with API, by their keys, and no others.
func TestDecodeRequest(t *testing.T) {
	v, err := DecodeRequest([]byte(`{"codebase":"/a","rules":["b=read"],"cow":true,"runtime":"","preset":null,
		"mount":["/etc"],"Values":{"mount":["/etc"]},"reveal":["x=read"]}`))
	if err != nil || len(v) != 3 || v.Text("codebase") != "/a" || !v.Truth("cow") || v.List("rule")[0] != "b=read" {
		t.Errorf(`DecodeRequest: got v %v, err %v; want err == nil and len(v) == 3 and v.Text("codebase") == "/a" and v.Truth("cow") and v.List("rule")[0] == "b=read"`,
			v, err)
	}
	for _, text := range []string{`{}`, `null`, `{"cow":false,"rules":[],"codebase":""}`} {
		if v, err := DecodeRequest([]byte(text)); v != nil || err != nil {
			t.Errorf("%s: got %v, %v; want nil, nil", text, v, err)
		}
	}
	var wrong *json.UnmarshalTypeError
	if _, err := DecodeRequest([]byte(`{"rules":"a=read"}`)); !errors.As(err, &wrong) || wrong.Field != "rules" {
		t.Errorf(`DecodeRequest: got err %v; want errors.As(err, &wrong) and wrong.Field == "rules"`, err)
	}
}

// What a request may set is what the service checks or what only takes away: a new field needs a look at
// choose of the command line and at the fleet of the service.
func TestRequests(t *testing.T) {
	if got, want := Requests(), []string{"codebase", "cow", "preset", "rules", "runtime"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
