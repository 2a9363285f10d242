package gitguard

import "testing"

func TestSpelled(t *testing.T) {
	for name, want := range map[string]bool{
		".GIT": true, ".Git": true, ".git.": true, ".git ": true, ".git. .": true, ".git::$INDEX_ALLOCATION": true, "git~1": true, "GIT~1": true, "GIT~1.": true,
		".g\u200cit": true, "\u200c.git": true, ".\u00adgit": true, ".git\ufe0f": true, "\U000e0001.GIT ": true, ".gi\u2064t": true,
		".git": false, "git": false, ".gitignore": false, ".github": false, "x.git": false, "git~2": false, "git~10": false, ".gi": false, "": false, "..git": false,
		".g.it": false, "\xff.git": false, "é.git": false, "Gemfile": false, "go.mod": false,
	} {
		if got := Spelled(name); got != want {
			t.Errorf("%q: got %t, want %t", name, got, want)
		}
	}
}

func BenchmarkSpelled(b *testing.B) {
	for b.Loop() {
		for _, name := range []string{"main.go", ".gitignore", "README.md", "go.sum"} {
			Spelled(name)
		}
	}
}
