package serving

import "testing"

func TestUnitWord(t *testing.T) {
	for word, want := range map[string]string{
		"--memory": "--memory", "2g": "2g", "": `""`, "a b": `"a b"`, "50%": "50%%", "$HOME": "$$HOME", `a"b\`: `"a\"b\\"`, "a'b;": `"a'b;"`, "a\nb": `a\nb`,
	} {
		if got := unitWord(word); got != want {
			t.Errorf("unitWord(%q) = %s, want %s", word, got, want)
		}
	}
}
