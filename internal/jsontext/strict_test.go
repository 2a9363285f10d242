package jsontext

import (
	"encoding/json"
	"strings"
	"testing"
)

type inner struct {
	Organization string `json:"organizationId"`
	Plain        float64
}

type outer struct {
	inner
	*Embedded
	Deep   *inner           `json:"deep"`
	List   []inner          `json:"list"`
	Map    map[string]inner `json:"map"`
	Bytes  []byte           `json:"bytes"`
	Own    own              `json:"own"`
	Any    any              `json:"any,omitempty"`
	Hidden string           `json:"-"`
}

type Embedded struct {
	Extra bool `json:"extra"`
}

// own is decoded by itself.
type own struct{ json.RawMessage }

func (o *own) UnmarshalJSON(b []byte) error { o.RawMessage = b; return nil }

func TestStrict(t *testing.T) {
	for text, says := range map[string]string{
		`{}`: "",
		" {\r\n\t\"organizationId\" : \"a\\\\\\\"\" , \"Plain\":-1.5e+3}\n":                                                                                        "",
		`{"deep":null,"list":[],"map":{},"extra":true,"bytes":"AAAA","any":null}`:                                                                                  "",
		`{"deep":{"organizationId":"x","Plain":1},"list":[{"organizationId":"}"},{"organizationId":"]"}],"map":{"A":{"Plain":1},"a":{"Plain":2}},"own":{"X":[1]}}`: "",
		`{"any":[{"a":1,"A":2},[[]],{"a":{"b":[true,false,null]}}]}`:                                                                                               "",

		`{"OrganizationId":"a"}`: `unknown field "OrganizationId"`,
		`{"organizationID":"a"}`: `unknown field "organizationID"`,
		`{"plain":1}`:            `unknown field "plain"`,
		`{"li\u017ft":[]}`:       `unknown field "liſt"`,
		`{"EXTRA":true}`:         `unknown field "EXTRA"`,
		`{"Hidden":"a"}`:         `unknown field "Hidden"`,

		`{"organizationId":"a","organizationId":"b"}`:          `field "organizationId" appears twice`,
		`{"organizationId":"a","\u006frganizationId":"b"}`:     `field "organizationId" appears twice`,
		`{"organizationId":"a","OrganizationId":"b"}`:          `unknown field "OrganizationId"`,
		`{"deep":{"organizationId":"a","organizationId":"a"}}`: `field "organizationId" appears twice`,
		`{"deep":{"ORGANIZATIONID":"a"}}`:                      `unknown field "ORGANIZATIONID"`,
		`{"list":[{"Plain":1},{"Plain":1,"Plain":2}]}`:         `field "Plain" appears twice`,
		`{"map":{"secret":{},"secret":{}}}`:                    "an object has the same name twice",
		`{"map":{"s\"\\":{},"s\u0022\u005c":{}}}`:              "an object has the same name twice",
		`{"map":{"a":{"plain":1}}}`:                            `unknown field "plain"`,
		`{"any":{"a":[{"b":{"c":1,"c":2}}]}}`:                  "an object has the same name twice",
		`{"own":{"a":1,"a":2}}`:                                "an object has the same name twice",
		`{"any":{"\ud800":1,"\udfff":2}}`:                      "an object has the same name twice", // both are U+FFFD

		`{"any":` + strings.Repeat("[", 5000) + strings.Repeat("]", 5000) + `,"x":1}`: `unknown field "x"`,
	} {
		var to outer
		if err := json.Unmarshal([]byte(text), &to); err != nil {
			t.Fatalf("%.200s: %v", text, err)
		}
		err := Strict([]byte(text), &to)
		switch {
		case says == "" && err != nil:
			t.Errorf(`%.200s: got err %v; want says != "" or err == nil`, text, err)
		case says != "" && (err == nil || !strings.Contains(err.Error(), says)):
			t.Errorf("%.200s: %v, want %q", text, err, says)
		case err != nil && strings.Contains(err.Error(), "secret"):
			t.Errorf("%.200s: the error shows a key: %v", text, err)
		}
	}
}

// FuzzStrict: what encoding/json takes is read to its end, without a panic, and what
// is written by encoding/json is strict.
func FuzzStrict(f *testing.F) {
	f.Add(`{"deep":{"organizationId":"x"},"list":[{}],"any":[1,"\\",{"a":"\""}]}`)
	f.Add(` { "any" : { "" : -0.1e-9 , "a":"\\\\" } } `)
	f.Fuzz(func(t *testing.T, text string) {
		var to outer
		if json.Unmarshal([]byte(text), &to) != nil {
			return
		}
		s := strict{data: []byte(text)}
		var object map[string]json.RawMessage
		if err := s.value(nil); err == nil && strings.TrimRight(text[s.pos:], " \t\r\n") != "" {
			t.Errorf("%q: it ends at %d", text, s.pos)
		}
		_ = Strict([]byte(text), &to)
		if json.Unmarshal([]byte(text), &object) != nil || object == nil {
			return
		}
		again, err := json.Marshal(to.Map)
		if err != nil {
			t.Fatal(err)
		}
		if err := Strict(again, &to.Map); err != nil {
			t.Errorf("%q: %v", again, err)
		}
	})
}
