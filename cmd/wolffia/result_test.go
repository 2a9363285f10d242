package main

import (
	"strings"
	"testing"

	"wolffia/internal/test/resulttest"
	"wolffia/runtime"
)

func TestResultIsWhole(t *testing.T) {
	resulttest.Check(t, func(r *runtime.Result) string {
		var b strings.Builder
		if err := printResult(&b, "id", r, commandNote{}); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}, nil)
}
