package perm

import "fmt"

// A Level is how much of an object a sandbox may see and change. Levels are ordered:
// each allows all that the one before it allows. The zero Level is None.
type Level uint8

// The levels, from the strictest to the widest.
const (
	None    Level = iota // the name does not exist
	View                 // name and attributes, not the content
	Read                 // the content too
	Checked              // also the changes to git's files that the server of the tree recognizes, see [GitRules]; otherwise as Read
	Write                // all changes
)

var levelNames = [...]string{None: "none", View: "view", Read: "read", Checked: "checked", Write: "write"}

// Levels returns all levels, strictest first.
func Levels() []Level { return []Level{None, View, Read, Checked, Write} }

// ParseLevel returns the level named s, one of the names that String returns. Another
// name is an error.
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

// MarshalText returns the name of l. Another value than the five levels is an error.
func (l Level) MarshalText() ([]byte, error) {
	if int(l) >= len(levelNames) {
		return nil, invalid("unknown level %d", uint8(l))
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
