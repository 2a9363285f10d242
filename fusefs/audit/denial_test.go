package audit_test

import (
	"testing"

	"wolffia/fusefs/audit"
	"wolffia/internal/test/resulttest"
)

// What the log has of a denial is in the runtime's: a front end passes that on.
func TestDenialIsWhole(t *testing.T) {
	left := map[string]string{
		"Time": "of the log only: a result is of now", "Since": "as Time", "Count": "a result has each denial once",
		"Dropped": "a result counts those that it leaves out", "Errno": "the process has it; Op and Level say why",
		"PathBytes": "of the JSON of the log only", "Problem": "then Rule is empty, which says so", "PID": "of the host", "UID": "of the host",
		"Command": "of the log only: a result is of one command",
		"Asked":   "of the log: who has answered knows it", "By": "as Asked",
		"Host.Name": "see Refusal", "Host.Address": "see Refusal", "Host.Port": "see Refusal", "Host.Reason": "see Refusal",
	}
	resulttest.Whole(t, func(r *audit.Record) (any, error) { return r.Denial(), nil }, left)
}

// So is what it has of a refusal of the network.
func TestRefusalIsWhole(t *testing.T) {
	rules := "of the rules"
	resulttest.Whole(t, func(r *audit.Record) (any, error) { return r.Refusal(), nil }, map[string]string{
		"Since": "Time is that of the first", "Dropped": "a result counts those that it leaves out", "PathBytes": rules, "Path": rules, "Cut": rules,
		"Level": rules, "Need": rules, "Errno": rules, "Rule": rules, "Problem": rules, "Reason": rules, "Asked": rules, "By": rules, "UID": "of the host",
	})
}
