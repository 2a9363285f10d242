package pathname

import "testing"

func TestWithin(t *testing.T) {
	for _, c := range []struct {
		name, dir string
		want      bool
	}{
		{"/a", "/a", true},
		{"/a/b", "/a", true},
		{"/ab", "/a", false},
		{"/a", "/a/b", false},
		{"/", "/", true},
		{"/a", "/", true},
		{"/", "/a", false},
		{"/a", "", false},
		{"", "/", false},
		{"", "", false},
	} {
		if got := Within(c.name, c.dir); got != c.want {
			t.Errorf("Within(%q, %q) = %t, want %t", c.name, c.dir, got, c.want)
		}
	}
}
