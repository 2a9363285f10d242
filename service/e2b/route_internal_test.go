package e2b

import (
	"net/http/httptest"
	"reflect"
	"testing"
)

// Where requests go: what names a sandbox comes first, whatever the path; other interfaces keep their paths.
func TestRouteOf(t *testing.T) {
	const id = "0123456789ab"
	at := func(port int) route { return route{traffic, id, port} }
	for _, test := range []struct {
		host, path string
		headers    []string
		want       route
	}{
		{"", "/v2/sandboxes", nil, route{kind: control}},
		{"", "/sandboxes/" + id, nil, route{kind: control}},
		{"", "/sandboxes/" + id + "/pause", nil, route{kind: control}},
		{"", "/sandboxes/" + id + "/port/44772/ping", nil, route{}},
		{"", "/sandboxes/" + id + "/port", nil, route{kind: control}},
		{"", "/templates/aliases/a%2Fb", nil, route{kind: control}},
		{"", "/v1/sandboxes", nil, route{}},
		{"", "/v2", nil, route{kind: control}},
		{"", "/v20/x", nil, route{}},
		{"", "/api/v1/ensureSandbox", nil, route{}},
		{"", "/mcp", nil, route{}},
		{"", "/execute", nil, route{}},
		{"", "/health", nil, route{}},
		{"", "/files?path=/x", nil, route{}},
		{"", "/files?path=/x&signature=v1_a", nil, route{kind: signed}},
		{"", "/files/x?signature=v1_a", nil, route{}},
		{"", "/volumecontent/x/dir", nil, route{kind: inVolumes}},
		{"", "/health", []string{idHeader, id, portHeader, "49983"}, at(envdPort)},
		{"", "/mcp", []string{idHeader, id, portHeader, "3000"}, at(3000)},
		{"", "/v2/sandboxes", []string{idHeader, id, portHeader, "65536"}, at(0)},
		{"", "/x", []string{idHeader, id}, at(0)},
		{"", "/x", []string{portHeader, "3000"}, route{}},
		{"3000-" + id + ".localhost:8080", "/v2/sandboxes", nil, at(3000)},
		{"49983-" + id + ".box.example", "/health", nil, at(envdPort)},
		{"3000-" + id, "/mcp", nil, route{}},
		{"0-" + id + ".localhost", "/mcp", nil, route{}},
		{"3000-ABC.localhost", "/mcp", nil, route{}},
		{"x-" + id + ".localhost", "/mcp", nil, route{}},
	} {
		r := httptest.NewRequest("GET", test.path, nil)
		if test.host != "" {
			r.Host = test.host
		}
		for i := 0; i+1 < len(test.headers); i += 2 {
			r.Header.Set(test.headers[i], test.headers[i+1])
		}
		if got := routeOf(r); got != test.want {
			t.Errorf("%s %s %v: got %+v, want %+v", test.host, test.path, test.headers, got, test.want)
		}
	}
}

// Keys and values of the filter were escaped twice, or once, before the request was.
func TestMetadataOf(t *testing.T) {
	for text, want := range map[string]map[string]string{
		"":                         {},
		"a=b":                      {"a": "b"},
		"a%2520b=c%2526d":          {"a b": "c&d"},
		"a%20b=c%26d":              {"a b": "c&d"},
		"a=&b=x":                   {"a": "", "b": "x"},
		"percent=100%252525&a=%3D": {"percent": "100%25", "a": "="},
	} {
		if got, err := metadataOf(text); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%q: got %v, %v; want %v", text, got, err, want)
		}
	}
	if _, err := metadataOf("a=%zz"); err == nil {
		t.Error("what cannot be read is no error")
	}
}

// Names below localhost lead to this machine; other hosts are their own domain.
func TestDomainOf(t *testing.T) {
	for host, want := range map[string]string{
		"127.0.0.1:8080": "localhost:8080", "127.0.0.1": "localhost", "[::1]:80": "localhost:80",
		"box.example:443": "box.example:443", "box.example": "box.example", "localhost:1": "localhost:1",
	} {
		if got := domainOf(host); got != want {
			t.Errorf("%q: got %q, want %q", host, got, want)
		}
	}
}
