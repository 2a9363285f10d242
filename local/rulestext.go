package local

import (
	"encoding/json"
	"slices"
	"sync"

	"wolffia/internal/host/statedir"
	"wolffia/perm"
)

// rulesText is the JSON of the rules that were asked for last: callers mostly have the same for
// many sandboxes, and to encode those of a preset takes a tenth of a millisecond. The zero value
// is ready.
type rulesText struct {
	mu    sync.Mutex
	rules []perm.Rule // guarded by mu
	text  []byte      // guarded by mu; never changed
}

// of returns the JSON of c's rules, which no caller may change.
func (r *rulesText) of(c *statedir.Config) ([]byte, error) {
	if err := c.RequireRules(); err != nil {
		return nil, err
	}
	rules := c.Permissions
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.text != nil && slices.Equal(r.rules, rules) {
		return r.text, nil
	}
	text, err := json.Marshal(rules)
	if err != nil {
		return nil, err
	}
	r.rules, r.text = slices.Clone(rules), text
	return text, nil
}
