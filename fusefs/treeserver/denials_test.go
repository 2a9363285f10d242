package treeserver

import (
	"testing"

	"wolffia/fusefs"
	"wolffia/internal/test/resulttest"
)

// What the file system says of a denial is in the log.
func TestRecordIsWhole(t *testing.T) {
	resulttest.Whole(t, func(d *fusefs.Denial) (any, error) {
		r := recordOf(d)
		return &r, nil
	}, map[string]string{
		"Rules": "they explain the record, and are not of it", "Name": "Op says it",
	})
}
