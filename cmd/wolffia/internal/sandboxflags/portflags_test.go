package sandboxflags

import (
	"testing"

	"wolffia/runtime"
)

func TestParsePorts(t *testing.T) {
	for text, want := range map[string]runtime.Publish{
		"80":                  {Local: 80, Port: 80},
		"8080:80":             {Local: 8080, Port: 80},
		"0.0.0.0:8080:80":     {Address: "0.0.0.0", Local: 8080, Port: 80},
		"[::1]:8080:80":       {Address: "::1", Local: 8080, Port: 80},
		"":                    {},
		":80":                 {},
		"80:":                 {},
		":8080:80":            {},
		"::1:8080:80":         {},
		"0:80":                {},
		"80:0":                {},
		"65536:80":            {},
		"+80:80":              {},
		"8080:80/udp":         {},
		"127.0.0.1:8080:80:1": {},
	} {
		got, err := parsePublish(text)
		if bad := want == (runtime.Publish{}); bad != (err != nil) || !bad && got != want {
			t.Errorf("publish %q: %+v, %v", text, got, err)
		}
		if err != nil && runtime.Class(err) != runtime.ErrInvalid {
			t.Errorf("publish %q: %v", text, err)
		}
	}
	for text, want := range map[string]runtime.Expose{
		"5432": {HostPort: 5432}, "5432:80": {HostPort: 5432, Port: 80}, "": {}, "5432:": {}, "0": {}, "localhost:1": {}, "1:2:3": {},
	} {
		got, err := parseExpose(text)
		if bad := want == (runtime.Expose{}); bad != (err != nil) || !bad && got != want {
			t.Errorf("expose %q: %+v, %v", text, got, err)
		}
	}
	for text, want := range map[string]runtime.Publish{
		"80": {Local: 80, Port: 80}, "0:80": {Port: 80}, "8080:80": {Local: 8080, Port: 80}, "0": {}, "80:0": {}, "x": {}, "1:2:3": {},
	} {
		got, err := ParseForward(text)
		if bad := want == (runtime.Publish{}); bad != (err != nil) || !bad && got != want {
			t.Errorf("forward %q: %+v, %v", text, got, err)
		}
	}
}
