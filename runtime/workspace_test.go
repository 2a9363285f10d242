package runtime

import (
	"encoding/json"
	"testing"
)

func TestChangeAsJSON(t *testing.T) {
	for _, c := range []Change{
		{Path: "a\x1b\n", Kind: ChangeAdded, Type: TypeFile, NewMode: 0o644},
		{Path: "a\xff", From: "b\xfe", Kind: ChangeRenamed, Type: TypeDirectory, Conflict: "c"},
	} {
		b, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		var got Change
		if err := json.Unmarshal(b, &got); err != nil || got != c {
			t.Errorf("%s: %+v, want %+v: %v", b, got, c, err)
		}
	}
}
