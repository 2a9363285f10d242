package plainyaml

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParse(t *testing.T) {
	got, err := Parse([]byte("# c\na: 0777\nb: [~/x, 1.5, true]\n\"c\":\n  d:\n    - e: null\n"))
	want := &Node{Line: 2, Kind: Map, Fields: []Field{
		{"a", 2, &Node{Line: 2, Kind: Int, Text: "0777", Int: 511}},
		{"b", 3, &Node{Line: 3, Kind: List, Items: []*Node{
			{Line: 3, Kind: Text, Text: "~/x"},
			{Line: 3, Kind: Number, Text: "1.5"},
			{Line: 3, Kind: Bool, Text: "true"},
		}}},
		{"c", 4, &Node{Line: 5, Kind: Map, Fields: []Field{
			{"d", 5, &Node{Line: 6, Kind: List, Items: []*Node{
				{Line: 6, Kind: Map, Fields: []Field{{"e", 6, &Node{Line: 6}}}},
			}}},
		}}},
	}}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Error(err, diff)
	}
	for _, empty := range []string{"", "# only a comment\n", "---\n"} {
		if n, err := Parse([]byte(empty)); err != nil || n.Kind != Null {
			t.Errorf("%q: got n %+v, err %v; want err == nil and n.Kind == Null", empty, n, err)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for data, line := range map[string]int{
		"a: 1\nb: *x": 2, "a: &x 1": 1, "a: !!str 1": 1, "<<: {a: 1}": 1, "%YAML 1.1\n---\na: 1": 1,
		"a: 1\n---\nb: 1": 1, "a: [[[[[1]]]]]": 1, "a: .nan": 1, "\xff": 1, "a: 1\na: 2": 2,
	} {
		_, err := Parse([]byte(data))
		at := (*Error)(nil)
		if !errors.As(err, &at) || at.Line != line {
			t.Errorf("%q: %v, want line %d", data, err, line)
		}
	}
}
