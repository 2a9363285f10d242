package console

import "testing"

func TestShellWord(t *testing.T) {
	for s, want := range map[string]string{
		"box": "box", "/a/b.c_d-e": "/a/b.c_d-e", "": "''", "a b": "'a b'", "it's": `'it'\''s'`, "~/x": "'~/x'", "$(x)": "'$(x)'", "a=b": "'a=b'",
	} {
		if got := ShellWord(s); got != want {
			t.Errorf("%q: %s, want %s", s, got, want)
		}
	}
}
