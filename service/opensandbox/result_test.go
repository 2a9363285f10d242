package opensandbox

import (
	"encoding/json"
	"testing"

	"wolffia/internal/test/resulttest"
	"wolffia/runtime"
)

func TestResultIsWhole(t *testing.T) {
	resulttest.Check(t, func(r *runtime.Result) string {
		text, err := json.Marshal(lastEvent(*r, nil, r.Duration))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}, map[string]string{"Stdout": "sent before", "Stderr": "sent before", "Refused.PID": "of the host"})
}
