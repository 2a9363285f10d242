package statedir

import (
	"bytes"
	"encoding/json"

	"wolffia/perm"
	"wolffia/runtime"
)

// rulesKey begins the rules in a configuration.
const rulesKey = `,"permissions":`

// Brief is Config without the rules, most of the text, whose decoding takes ten times as long as the rest: WithoutRules
// is set. It does not notice if they are damaged. A configuration in which they are not easily told from the rest
// has them.
func (b *Box) Brief() (*Config, error) {
	return b.read(func(text []byte) (*Config, error) {
		if less, _, ok := withoutRules(text); ok {
			c := &Config{WithoutRules: true}
			if json.Unmarshal(less, c) == nil {
				return c, nil
			}
		}
		return decode(text)
	})
}

// withoutRules returns a configuration that write has written without its rules, and these. ok is false if it is not
// sure that they come last, or if there are none.
func withoutRules(text []byte) (less, rules []byte, ok bool) {
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

// Whole returns an error if the rules were not read: then no sandbox may be started by c, and nothing may be written.
func (c *Config) Whole() error {
	if c.NewerRules {
		return runtime.Errorf(runtime.ErrUnsupported, "configuration of sandbox %s: %w: use that version, or remove the sandbox with wolffia rm %s", c.ID, perm.ErrNewer, c.ID)
	}
	if c.WithoutRules {
		return runtime.Errorf(runtime.ErrUnavailable, "configuration of sandbox %s: its rules were not read", c.ID)
	}
	return nil
}
