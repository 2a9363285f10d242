package gateway

import "testing"

// TestRepeats: a part of a secret is one, but for the name of a scheme.
func TestRepeats(t *testing.T) {
	for _, tt := range []struct {
		value, secret string
		want          bool
	}{
		{"Bearer abcdefgh1234", "Bearer abcdefgh1234", true},
		{"x=abcdefgh1234;", "Bearer abcdefgh1234", true},
		{"https://h/?t=abcdefgh1234", "token  abcdefgh1234 ", true},
		{"Bearer realm=x", "Bearer abcdefgh1234", false},
		{"abcdefgh", "Bearer abcdefgh1234", false},
		{"no-cache", "a b c", false},
	} {
		if got := repeats(tt.value, tt.secret); got != tt.want {
			t.Errorf("repeats(%q, %q): got %v, want %v", tt.value, tt.secret, got, tt.want)
		}
	}
}
