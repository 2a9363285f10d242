package statedir

import (
	"bytes"

	"wolffia/runtime"
)

// rulesKey begins the rules in a configuration.
const rulesKey = `,"permissions":`

// Brief is Config without the rules, most of the text, whose decoding takes ten times as long as the rest: WithoutRules
// is set. It does not notice if they are damaged. A configuration in which they are not easily told from the rest
// has them.
func (b *Box) Brief() (*Config, error) {
	return b.read(func(text []byte) (*Config, error) {
		if less, ok := withoutRules(text); ok {
			if c, err := decode(less); err == nil {
				c.WithoutRules = true
				return c, nil
			}
		}
		return decode(text)
	})
}

// withoutRules returns a configuration that write has written without its rules. ok is false if it is not sure
// that they come last, or if there are none.
func withoutRules(text []byte) (less []byte, ok bool) {
	begin := []byte(rulesKey + "[") // not in a string, whose quotes JSON escapes
	i := bytes.LastIndex(text, begin)
	if i < 0 {
		return nil, false
	}
	// What else followed would begin behind the list's bracket.
	if rules := text[i+len(begin):]; !bytes.HasSuffix(rules, []byte("]}")) || bytes.Contains(rules, []byte(`],"`)) {
		return nil, false
	}
	return append(text[:i:i], '}'), true
}

// Whole returns an error if the rules were not read: then no sandbox may be started by c, and nothing may be written.
func (c *Config) Whole() error {
	if c.WithoutRules {
		return runtime.Errorf(runtime.ErrUnavailable, "configuration of sandbox %s: its rules were not read", c.ID)
	}
	return nil
}
