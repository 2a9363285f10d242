package perm

import "fmt"

// A Level says how much of an object a sandbox may see. Levels are ordered:
// each includes all that the one before it allows. The zero Level is None.
type Level uint8

// The levels, from the strictest to the widest.
const (
	None  Level = iota // the name does not exist
	View               // name and attributes, not the content
	Read               // content too
	Write              // changes too
)

var levelNames = [...]string{None: "none", View: "view", Read: "read", Write: "write"}

// Levels lists every level, strictest first.
func Levels() []Level { return []Level{None, View, Read, Write} }

// String returns the name used in rules: none, view, read or write.
func (l Level) String() string {
	if int(l) < len(levelNames) {
		return levelNames[l]
	}
	return fmt.Sprintf("Level(%d)", uint8(l))
}
