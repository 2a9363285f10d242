package service

import (
	"testing"

	"wolffia/fusefs/audit"
	"wolffia/internal/test/resulttest"
	"wolffia/perm"
)

// What the log has of a denial is in an entry of the call audit.
func TestDeniedIsWhole(t *testing.T) {
	resulttest.Whole(t, func(r *audit.Record) (any, error) {
		if *r.Host == (audit.Host{}) {
			r.Host = nil
		}
		r.Need = perm.Write // else the rule has not decided
		return deniedOf(r), nil
	}, map[string]string{
		"Errno": "the process has it; Op and Level say why", "PathBytes": "of the JSON of the log only; PathBytes of an entry is of Path",
		"Problem": "then Rule is empty, which says so", "PID": "of the host", "UID": "of the host",
		"Need": "it says only that Rule decides",
	})
}
