package perm

import (
	"fmt"
	"strconv"
	"strings"
)

// The priorities of the places that rules come from. A rule of a higher
// priority wins over any rule of a lower one.
const (
	PriorityPreset = 0    // the base rules of a preset
	PriorityFile   = 100  // a policy file, unless it says otherwise
	PriorityRule   = 200  // --rule
	PrioritySecret = 1000 // the secrets of a preset, and the git rules
	PriorityReveal = 2000 // --reveal
)

// A Kind says which kind of object a rule is about. The zero Kind is Glob.
type Kind uint8

// The kinds. Where two rules are otherwise equal, File wins over Directory and
// Directory over Glob.
const (
	Glob      Kind = iota // any object, and all below it if it is a directory
	Directory             // a directory and all below it
	File                  // an object that is not a directory
)

var kindNames = [...]string{Glob: "glob", Directory: "directory", File: "file"}

// String returns the name used in policy files: glob, directory or file.
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return fmt.Sprintf("Kind(%d)", uint8(k))
}

// MarshalText returns the name of k. A value that is no kind is an error.
func (k Kind) MarshalText() ([]byte, error) {
	if int(k) >= len(kindNames) {
		return nil, invalid("no such kind of rule: %d", uint8(k))
	}
	return []byte(kindNames[k]), nil
}

// UnmarshalText sets k to the kind named by text; no text means Glob.
func (k *Kind) UnmarshalText(text []byte) error {
	if len(text) == 0 {
		*k = Glob
		return nil
	}
	for v, name := range kindNames {
		if string(text) == name {
			*k = Kind(v)
			return nil
		}
	}
	return invalid("unknown type %q: want glob, directory or file", text)
}

// A Rule gives a level to the objects whose path its pattern matches. Rules
// are comparable with ==.
type Rule struct {
	// Pattern says which paths; its syntax is in the package comment.
	Pattern string `json:"pattern"`

	// Except is a pattern of one component: an object that Pattern matches is
	// left alone by the rule if its name matches Except. Empty: no exception.
	Except string `json:"except,omitempty"`

	// NotBelow is a pattern of one component: the rule matches nothing that is
	// below a directory with such a name. Empty: it matches everywhere. A Policy has
	// at most eight different ones.
	NotBelow string `json:"not_below,omitempty"`

	// Fold makes Pattern and Except match ASCII letters of either case.
	Fold bool `json:"fold,omitempty"`

	// Type limits the rule to one kind of object.
	Type Kind `json:"type,omitempty"`

	// Level is what the rule gives.
	Level Level `json:"level"`

	// AtMost makes the rule a limit: it gives nothing by itself, but what the
	// rules that it outranks give is cut down to Level.
	AtMost bool `json:"at_most,omitempty"`

	// Priority orders rules before all else; higher wins.
	Priority int `json:"priority,omitempty"`

	// Source says where the rule came from, for people: "preset agent-safe",
	// "policy.yaml:12", "--rule".
	Source string `json:"source,omitempty"`
}

// String returns PATTERN=LEVEL, and in parentheses what else distinguishes r.
func (r Rule) String() string {
	var more []string
	if r.Type != Glob {
		more = append(more, r.Type.String())
	}
	if r.AtMost {
		more = append(more, "at most")
	}
	if r.Except != "" {
		more = append(more, "except "+r.Except)
	}
	s := r.Pattern + "=" + r.Level.String()
	if r.NotBelow != packages { // what all secrets of the presets have is not said each time
		if r.NotBelow != "" {
			more = append(more, "not below "+r.NotBelow)
		}
		if r.Fold {
			more = append(more, "either case")
		}
	}
	if more != nil {
		s += " (" + strings.Join(more, ", ") + ")"
	}
	return s
}

// describe names r and where it came from, for errors.
func (r *Rule) describe() string {
	if r.Source == "" {
		return strconv.Quote(r.String())
	}
	return strconv.Quote(r.String()) + " of " + r.Source
}

// ParseRule parses PATTERN=LEVEL, as in --rule. The last '=' splits, so that a
// pattern may contain others. Priority and Source are left to the caller.
func ParseRule(s string) (Rule, error) {
	i := strings.LastIndexByte(s, '=')
	if i < 0 {
		return Rule{}, invalid("rule %q: want PATTERN=LEVEL", s)
	}
	level, err := ParseLevel(s[i+1:])
	if err != nil {
		return Rule{}, invalid("rule %q: %w", s, err)
	}
	r := Rule{Pattern: s[:i], Level: level}
	if _, err := r.alternatives(exceptions{}); err != nil {
		return Rule{}, invalid("rule %q: %w", s, err)
	}
	return r, nil
}
