package perm

import "fmt"

// A Level says how much of an object a sandbox may see. Levels are ordered:
// each includes all that the one before it allows. The zero Level is None.
type Level uint8

// The levels, from the strictest to the widest.
const (
	None    Level = iota // the name does not exist
	View                 // name and attributes, not the content
	Read                 // content too
	Checked              // changes too, as far as the server of the tree knows what is meant: see [GitRules]; otherwise as Read
	Write                // all changes
)

var levelNames = [...]string{None: "none", View: "view", Read: "read", Checked: "checked", Write: "write"}

// Levels lists every level, strictest first.
func Levels() []Level { return []Level{None, View, Read, Checked, Write} }

// ParseLevel returns the level named s, which must be exactly one of the names
// that String gives.
func ParseLevel(s string) (Level, error) {
	for l, name := range levelNames {
		if s == name {
			return Level(l), nil
		}
	}
	return None, invalid("unknown level %q: want none, view, read, checked or write", s)
}

// String returns the name used in rules: none, view, read, checked or write.
func (l Level) String() string {
	if int(l) < len(levelNames) {
		return levelNames[l]
	}
	return fmt.Sprintf("Level(%d)", uint8(l))
}

// MarshalText returns the name of l. A value that is no level is an error.
func (l Level) MarshalText() ([]byte, error) {
	if int(l) >= len(levelNames) {
		return nil, invalid("no such level: %d", uint8(l))
	}
	return []byte(levelNames[l]), nil
}

// UnmarshalText sets l to the level named by text.
func (l *Level) UnmarshalText(text []byte) error {
	v, err := ParseLevel(string(text))
	if err != nil {
		return err
	}
	*l = v
	return nil
}
