package statedir

import (
	"bytes"
	"encoding/json"

	"wolffia/perm"
	"wolffia/runtime"
)

// rulesKey begins the rules in a configuration.
const rulesKey = `,"permissions":`

// LoadHeader is Config without the rules: they are most of the text, and decoding them takes ten
// times as long as decoding the rest. It sets HeaderOnly. It does not notice damaged rules. A
// configuration whose rules cannot be split off with certainty is returned with them.
func (rec *Record) LoadHeader() (*Config, error) {
	return rec.read(func(text []byte) (*Config, error) {
		if less, _, ok := splitRules(text); ok {
			c := &Config{HeaderOnly: true}
			if json.Unmarshal(less, c) == nil {
				return c, nil
			}
		}
		return decode(text)
	})
}

// splitRules returns a configuration that write has written without its rules, and the rules. ok
// is false if it has none, or if it is not certain that they come last.
func splitRules(text []byte) (less, rules []byte, ok bool) {
	begin := []byte(rulesKey + "[") // not in a string, whose quotes JSON escapes
	i := bytes.LastIndex(text, begin)
	if i < 0 {
		return nil, nil, false
	}
	// What else followed would begin behind the list's bracket.
	rules = text[i+len(begin)-1:]
	if !bytes.HasSuffix(rules, []byte("]}")) || bytes.Contains(rules, []byte(`],"`)) {
		return nil, nil, false
	}
	return append(text[:i:i], '}'), rules[:len(rules)-1], true
}

// RequireRules returns an error if the rules were not read. Then no sandbox may be started by c,
// and c may not be written.
func (c *Config) RequireRules() error {
	if c.NewerRules {
		return runtime.Errorf(runtime.ErrUnsupported, "configuration of sandbox %s: %w: use that version, or remove the sandbox with wolffia rm %s", c.ID, perm.ErrNewer, c.ID)
	}
	if c.HeaderOnly {
		return runtime.Errorf(runtime.ErrUnavailable, "configuration of sandbox %s: its rules were not read", c.ID)
	}
	return nil
}
