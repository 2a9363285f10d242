package policy

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestCovering(t *testing.T) {
	name := strings.Repeat("n", 250)
	deep := strings.Repeat(name+"/", 16) + name
	var wide, nested []string
	for i := range 1500 {
		wide = append(wide, fmt.Sprint("d", i))
		nested = append(nested, fmt.Sprintf("x/y/d%d", i))
	}
	for _, tt := range []struct{ paths, want []string }{
		{nil, nil},
		{[]string{"b/[c]", ".git"}, []string{"/.git", `/b/\[c\]`}},
		{[]string{deep}, []string{"/" + strings.TrimSuffix(strings.Repeat(name+"/", 4), "/")}},
		{nested, []string{"/x/y"}},
		{wide, []string{"**"}},
	} {
		if got := covering(tt.paths); !slices.Equal(got, tt.want) {
			t.Errorf("%.60q: %.300q, want %.300q", tt.paths, got, tt.want)
		}
	}
}
