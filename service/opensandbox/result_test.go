package opensandbox

import (
	"io"
	"testing"

	"wolffia/internal/test/resulttest"
	"wolffia/runtime"
)

func TestResultIsWhole(t *testing.T) {
	resulttest.Check(t, func(_ io.Writer, r *runtime.Result) (any, error) {
		return lastEvent(*r, nil, r.Duration), nil
	}, map[string]string{"Stdout": "sent before", "Stderr": "sent before", "Refused.PID": "of the host"})
}
