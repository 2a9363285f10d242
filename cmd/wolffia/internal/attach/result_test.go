package attach

import (
	"io"
	"testing"

	"wolffia/internal/test/resulttest"
	"wolffia/runtime"
)

func TestResultIsWhole(t *testing.T) {
	resulttest.Check(t, func(w io.Writer, r *runtime.Result) (any, error) {
		return nil, printResult(w, &runtime.Sandbox{ID: "id"}, r, commandNote{})
	}, nil)
}
