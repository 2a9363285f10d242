package wire_test

import (
	"encoding/json"
	"strings"
	"testing"

	"wolffia/wire"
)

func TestCheckSessionName(t *testing.T) {
	for _, name := range []string{"a", "0", "main", "a.b-c_d", strings.Repeat("x", wire.MaxSessionName)} {
		if err := wire.CheckSessionName(name); err != nil {
			t.Error(err)
		}
	}
	for _, name := range []string{"", ".", "-a", "_", "a/b", "a b", "a\n", "\u00e4", "a\x00", strings.Repeat("x", wire.MaxSessionName+1)} {
		if wire.CheckSessionName(name) == nil {
			t.Errorf("%q is taken for a name", name)
		}
	}
}

// A path keeps its bytes, whatever they are.
func TestPath(t *testing.T) {
	for path, want := range map[wire.Path]string{
		"/tmp":      `"/tmp"`,
		"/a\nb":     `"/a\nb"`,
		"":          `""`,
		"/\xff\xfe": `{"base64":"L//+"}`,
	} {
		b, err := json.Marshal(path)
		if err != nil || string(b) != want {
			t.Errorf("%q becomes %s (%v), want %s", path, b, err, want)
		}
		var back wire.Path
		if err := json.Unmarshal(b, &back); err != nil || back != path {
			t.Errorf("%q comes back as %q (%v)", path, back, err)
		}
	}
	var p wire.Path
	if json.Unmarshal([]byte("7"), &p) == nil {
		t.Error("a number is taken for a path")
	}
}
