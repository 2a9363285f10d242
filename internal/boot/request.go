package boot

import (
	"encoding/json"
	"hash/fnv"
	"strconv"
	"time"

	"wolffia/internal/statedir"
	"wolffia/perm"
)

// What a client can ask of the shim itself.
const (
	OpNothing = "nothing"
	OpStop    = "stop"
	OpTouch   = "touch"
	OpRenew   = "renew"
	OpStats   = AskStats // passed on to the tree server
	OpAudit   = AskAudit // passed on to the tree server
	OpRules   = AskRules // passed on to the tree server
)

// A Request is what a client asks of the shim itself.
type Request struct {
	Op      string          `json:"op"`
	GraceMS *int64          `json:"graceMs,omitempty"` // for stop: between TERM and KILL; nil is stopGrace
	Rules   json.RawMessage `json:"rules,omitempty"`   // for rules: a list, which the shim does not read

	Lifetime *statedir.Lifetime `json:"lifetime,omitempty"` // for renew; the idle timeout stays
}

// A Reply answers a request.
type Reply struct {
	Failure
	Stats *TreeStats `json:"stats,omitempty"`
	// Unknown says that nobody knows whether the request took effect.
	Unknown bool `json:"unknown,omitempty"`
}

const (
	// statsLimit is how long the tree server may take to tell what it does, or to
	// have its audit log written.
	StatsLimit = 2 * time.Second
	// rulesLimit is how long it may take until other rules bind: the kernel has
	// to forget what the old ones allowed.
	RulesLimit = 30 * time.Second
)

// TreeStats are what a tree server has done and holds.
type TreeStats struct {
	Messages map[string]uint64 `json:"messages"` // requests of the kernel that were answered, by operation
	Nodes    int               `json:"nodes"`    // names that the kernel knows
	FDs      int               `json:"fds"`      // descriptors kept open
	// Rules is the fingerprint of the rules that are in force; empty while they
	// are being changed.
	Rules string `json:"rules"`
}

// Fingerprint tells sets of rules apart. It is no proof of anything.
func Fingerprint(rules []perm.Rule) string {
	h := fnv.New64a()
	if len(rules) == 0 {
		rules = nil // not an empty list
	}
	if err := json.NewEncoder(h).Encode(rules); err != nil {
		return ""
	}
	return strconv.FormatUint(h.Sum64(), 16)
}
