package server

import (
	"net/http"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"wolffia/fields"
	"wolffia/runtime"
)

func TestDecode(t *testing.T) {
	const good = `{"organizationId":"a","projectId":"b","userId":"c","sandboxId":"d","command":"e","timeoutMs":5}`
	var bytes reviewRequest
	if err := decode([]byte(`{"paths64":["eA==","secret!!"]}`), &bytes); err == nil || !strings.Contains(err.Error(), "must be base64, and is not, from its byte 6 on") || runtime.Class(err) != runtime.ErrInvalid {
		t.Errorf("a path that is not base64: %v", err)
	}
	for _, c := range []struct{ body, says string }{
		{good, ""},
		{" \r\n\t" + good + "\n ", ""},
		{`{}`, ""},
		{``, "one JSON object"},
		{`null`, "one JSON object"},
		{`[]`, "one JSON object"},
		{`"a"`, "one JSON object"},
		{good + good, "data follows it"},
		{good + `,`, "data follows it"},
		{good + ` x`, "data follows it"},
		{good[:len(good)-1], "not JSON"},
		{`{"command":secret}`, "not JSON"},
		{`{"comand":"secret"}`, `unknown field "comand"`},
		{`{"sandboxId":"d","x":{"command":1}}`, `unknown field "x"`},
		{`{"timeoutMs":"secret"}`, `field "timeoutMs": a JSON string`},
		{`{"timeoutMs":1.5}`, `field "timeoutMs"`},
		{`{"timeoutMs":1e300}`, `field "timeoutMs"`},
		{`{"command":["secret"]}`, `field "command": a JSON array`},
		{`{"Command":"secret"}`, `unknown field "Command"`},
		{`{"sandboxID":"secret"}`, `unknown field "sandboxID"`},
		{`{"command":"e","command":"secret"}`, `field "command" appears twice`},
		{`{"organizationId":"acme","projectId":"b","userId":"zoe","OrganizationId":"victim","UserID":"vic"}`, `unknown field "OrganizationId"`},
		{`{"organizationId":"acme","projectId":"b","userId":"zoe","\u006frganizationId":"victim"}`, `field "organizationId" appears twice`},
		{"{\"command\":\"\xff\"}", "not UTF-8"},
		{strings.Repeat("[", 20000), "one JSON object"},
		{`{"x":` + strings.Repeat("[", 20000), "not JSON"},
	} {
		var r bashRequest
		err := decode([]byte(c.body), &r)
		switch {
		case c.says == "" && err != nil:
			t.Errorf(`%.100s: got err %v; want c.says != "" or err == nil`, c.body, err)
		case c.says == "":
		case err == nil || !strings.Contains(err.Error(), c.says) || runtime.Class(err) != runtime.ErrInvalid:
			t.Errorf("%.100s: %v, want %q", c.body, err, c.says)
		case strings.Contains(err.Error(), "secret"):
			t.Errorf("%.100s: the error shows the content: %v", c.body, err)
		}
	}
}

// A request sets fields of the table of settings beside its own members, and is as strict about both.
func TestDecodeSettings(t *testing.T) {
	const owner = `"organizationId":"a","projectId":"b","userId":"c"`
	for body, want := range map[string]fields.Values{
		`{` + owner + `}`: nil,
		`{` + owner + `,"cow":true,"rules":["a=read"]}`: fields.Values{}.With("cow", true).With("rule", []string{"a=read"}),
		`{"preset":"read-only","network":"none"}`:       fields.Values{}.With("preset", "read-only"),
		`{"cow":false,"runtime":""}`:                    nil,
	} {
		var r createRequest
		err := decode([]byte(body), &r)
		if diff := gocmp.Diff(want, r.Values); diff != "" || err != nil {
			t.Errorf("%s: %v, %s", body, err, diff)
		}
		if strings.Contains(body, owner) && (r.UserID != "c" || r.params().Settings.Truth("cow") != want.Truth("cow")) {
			t.Errorf("%s: got %+v", body, r)
		}
	}
	for body, says := range map[string]string{
		`{"cow":true,"cow":false}`:            `field "cow" appears twice`,
		`{"userId":"a","userId":"b"}`:         `field "userId" appears twice`,
		`{"Cow":true}`:                        `unknown field "Cow"`,
		`{"UserId":"a","cow":true}`:           `unknown field "UserId"`,
		`{"cow":"secret"}`:                    `field "cow": a JSON string`,
		`{"rules":"secret"}`:                  `field "rules": a JSON string`,
		`{"mount":["/etc"]}`:                  `unknown field "mount"`,
		`{"values":{"cow":true}}`:             `unknown field "values"`,
		`{"cow":true}{"cow":true}`:            "data follows it",
		`{"cow":true,"gitConfig":{"name":1}}`: `unknown field "name"`,
	} {
		var r createRequest
		err := decode([]byte(body), &r)
		if err == nil || !strings.Contains(err.Error(), says) || runtime.Class(err) != runtime.ErrInvalid {
			t.Errorf("%s: %v, want %q", body, err, says)
		}
	}
}

func TestRequestID(t *testing.T) {
	for id, good := range map[string]bool{
		"a": true, "b.c_d-E9": true, strings.Repeat("x", 128): true,
		"": false, strings.Repeat("x", 129): false, "a b": false, "a\x1b[2J": false, `a"b`: false, "ä": false, "a\nb": false,
	} {
		got := requestID(http.Header{requestHeader: {id}})
		if (got == id) != good || got == "" {
			t.Errorf(`requestID: got id %q, %q; want (got == id) == %v and got != ""`, id, got, good)
		}
	}
	if a, b := requestID(nil), requestID(nil); a == b {
		t.Errorf("both are %q", a)
	}
}
