package config

import "testing"

func TestAdd(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"", "allow-host:\n  - \"a:443\"\n"},
		{"memory: 4g # mine\n", "memory: 4g # mine\nallow-host:\n  - \"a:443\"\n"},
		{"allow-host: []\n", "allow-host: [\"a:443\"]\n"},
		{"allow-host: [b, c] # some\nmemory: 4g\n", "allow-host: [b, c, \"a:443\"] # some\nmemory: 4g\n"},
		{"allow-host: [b, a:443]\n", "allow-host: [b, a:443]\n"},
		{"allow-host:\n- b\n# of the tests\n- c # x\nmemory: 4g", "allow-host:\n- b\n# of the tests\n- c # x\n- \"a:443\"\nmemory: 4g\n"},
		{"allow-host:\n    - b\n\nmemory: 4g\n", "allow-host:\n    - b\n    - \"a:443\"\n\nmemory: 4g\n"},
		{"allow-host:\n  - 'a:443' # x\n", "allow-host:\n  - 'a:443' # x\n"},
		{"profiles:\n  p:\n    allow-host: [x]\n", "profiles:\n  p:\n    allow-host: [x]\nallow-host:\n  - \"a:443\"\n"},
	} {
		got, err := Add(tt.text, "allow-host", "a:443")
		if err != nil || got != tt.want {
			t.Errorf("%q: got %q, %v; want %q", tt.text, got, err, tt.want)
		}
		if _, err := Parse(testKeys(), Place{Name: "f", Home: "/h", Dir: "/d"}, []byte(got)); err != nil {
			t.Errorf("%q: %v", got, err)
		}
	}
	if got, err := Add("allow-host: b\n", "allow-host", "a"); err == nil {
		t.Errorf("a text in the place of a list: %q", got)
	}
}
