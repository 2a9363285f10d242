package urlpath

import (
	"net/url"
	"testing"
)

// A path is what was sent, but for bytes that it cannot have; what it means stays the same.
func TestKeep(t *testing.T) {
	for sent, want := range map[string]string{
		"/":                  "/",
		"/a//b/../c":         "/a//b/../c",
		"//evil.example/":    "//evil.example/",
		"/a%2fb%5b{}^\"":     "/a%2fb%5b%7B%7D%5E%22",
		"/a%2Fb|c":           "/a%2Fb%7Cc",
		"/[a]%2e%2e/%7e":     "/[a]%2e%2e/%7e",
		"/\xc3\xa9%2f":       "/%C3%A9%2f",
		"/a#b%2f":            "/a%23b%2f",
		"/%0d%0aX:%20y%2f{}": "/%0d%0aX:%20y%2f%7B%7D",
		"*":                  "*",
	} {
		u, err := url.ParseRequestURI(sent)
		if err != nil {
			t.Errorf("%q: %v", sent, err)
			continue
		}
		path := u.Path
		if Keep(u); u.EscapedPath() != want || u.RequestURI() != want || u.Path != path {
			t.Errorf("%q: got %q, %q; want u.EscapedPath() == %q and u.RequestURI() == %q and u.Path == %v",
				sent, u.EscapedPath(), u.RequestURI(), want, want, path)
		}
	}
}

// A path stays a path: whatever was parsed, it has the same meaning, and no byte by which a request could end.
func FuzzKeep(f *testing.F) {
	f.Add("/a%2fb{}\x80")
	f.Fuzz(func(t *testing.T, sent string) {
		u, err := url.ParseRequestURI(sent)
		if err != nil || u.Opaque != "" {
			return
		}
		path := u.Path
		Keep(u)
		got := u.EscapedPath()
		for _, c := range []byte(got) {
			if !isPath(c) {
				t.Fatalf("%q: got %q; want isPath(c)", sent, got)
			}
		}
		if back, err := url.PathUnescape(got); err != nil || back != path || u.RawPath != "" && got != u.RawPath {
			t.Fatalf("%q: %q means %q, not %q: %v", sent, got, back, path, err)
		}
	})
}
