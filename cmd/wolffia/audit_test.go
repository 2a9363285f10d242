package main

import (
	"slices"
	"testing"
	"time"

	"wolffia/fusefs/audit"
)

// The line of a repeated denial comes where its time is, whenever it was written.
func TestAuditByTime(t *testing.T) {
	at := func(s int64, path string) audit.Record { return audit.Record{Time: time.Unix(s, 0), Path: path} }
	var got []string
	err := byTime(func(each func(audit.Record) error) error {
		for _, r := range []audit.Record{at(3, "c"), at(1, "a"), at(2, "b"), at(3, "d")} {
			if err := each(r); err != nil {
				return err
			}
		}
		return nil
	}, func(r audit.Record) error {
		got = append(got, r.Path)
		return nil
	})
	if err != nil || !slices.Equal(got, []string{"a", "b", "c", "d"}) {
		t.Errorf("%v, %v", got, err)
	}
}
