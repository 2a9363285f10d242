package perm

import "fmt"

// A Level is how much of an object a sandbox may see and change. Levels are ordered:
// each allows all that the one before it allows. The zero Level is None.
type Level uint8

// The levels, from the strictest to the widest.
const (
	None  Level = iota // the name does not exist
	View               // name and attributes, not the content
	Read               // the content too
	Write              // all changes
)

var levelNames = [...]string{None: "none", View: "view", Read: "read", Write: "write"}

// Levels returns all levels, strictest first.
func Levels() []Level { return []Level{None, View, Read, Write} }

// ParseLevel returns the level named s, one of the names that String returns. Another
// name is an error.
func ParseLevel(s string) (Level, error) {
	for l, name := range levelNames {
		if s == name {
			return Level(l), nil
		}
	}
	return None, invalid("unknown level %q: want none, view, read or write", s)
}

// String returns the name used in rules: none, view, read or write.
func (l Level) String() string {
	if int(l) < len(levelNames) {
		return levelNames[l]
	}
	return fmt.Sprintf("Level(%d)", uint8(l))
}

// MarshalText returns the name of l. Another value than the four levels is an error.
func (l Level) MarshalText() ([]byte, error) {
	if int(l) >= len(levelNames) {
		return nil, invalid("unknown level %d", uint8(l))
	}
	return []byte(levelNames[l]), nil
}

// checked is the name of a level of earlier versions, for git's files. It gave what Read gives,
// and changes that a server of today does not know.
const checked = "checked"

// UnmarshalText sets l to the level named by text. A level "checked", as the configuration of a
// sandbox of an earlier version has it, is Read.
func (l *Level) UnmarshalText(text []byte) error {
	if string(text) == checked {
		*l = Read
		return nil
	}
	v, err := ParseLevel(string(text))
	if err != nil {
		return err
	}
	*l = v
	return nil
}
