package shellword

import "testing"

func TestQuote(t *testing.T) {
	for s, want := range map[string]string{
		"box": "box", "/a/b.c_d-e": "/a/b.c_d-e", "": "''", "a b": "'a b'", "it's": `'it'\''s'`, "~/x": "'~/x'", "$(x)": "'$(x)'", "a=b": "'a=b'",
	} {
		if got := Quote(s); got != want {
			t.Errorf("%q: %s, want %s", s, got, want)
		}
	}
}
