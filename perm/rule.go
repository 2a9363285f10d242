package perm

import (
	"fmt"
	"strconv"
	"strings"
)

// The priorities of rules by where they come from. A rule of a higher priority wins
// over all rules of a lower one. Other values are allowed.
const (
	PriorityPreset        = 0    // the base rules of a preset
	PriorityProject       = 50   // rules of the codebase's own configuration file
	PriorityFile          = 100  // a policy file, unless a rule in it has its own
	PriorityRule          = 200  // --rule
	PrioritySecret        = 1000 // the secrets of a preset, and the git rules
	PriorityProjectReveal = 1500 // reveals of the codebase's own configuration file
	PriorityReveal        = 2000 // --reveal
)

// A Kind is the kind of object that a rule applies to. The zero Kind is Glob.
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

// MarshalText returns the name of k. Another value than the three kinds is an error.
func (k Kind) MarshalText() ([]byte, error) {
	if int(k) >= len(kindNames) {
		return nil, invalid("unknown type %d", uint8(k))
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

// A Rule gives a level to the objects whose path its pattern matches. Rules are
// comparable with ==. The zero Rule is malformed: it has no pattern.
type Rule struct {
	// Pattern matches paths; the package comment has its syntax.
	Pattern string `json:"pattern"`

	// Except is a pattern of one component: the rule does not apply to an object whose
	// name matches it. "" means no exception.
	Except string `json:"except,omitempty"`

	// NotBelow is a pattern of one component: the rule does not apply below a directory
	// whose name matches it. "" means that it applies everywhere. The rules of a Policy
	// have at most eight different ones.
	NotBelow string `json:"not_below,omitempty"`

	// Fold makes Pattern and Except match ASCII letters of either case.
	Fold bool `json:"fold,omitempty"`

	// Copies makes the rule apply to copies, too, of files that it applies to: files in the same
	// directory with the names that editors and people give to backups and to files beside an open
	// one. Copies of files that match Except are excepted, too.
	Copies bool `json:"copies,omitempty"`

	// Type limits the rule to one kind of object.
	Type Kind `json:"type,omitempty"`

	// Level is the level that the rule gives.
	Level Level `json:"level"`

	// AtMost makes the rule a limit: it gives nothing itself, and the rules that it
	// outranks give at most Level.
	AtMost bool `json:"at_most,omitempty"`

	// Ask makes a server that can ask a person do so before it refuses the content of what this
	// rule decides about. Level is View, and so is what other servers give.
	Ask bool `json:"ask,omitempty"`

	// Priority is the first criterion of the order of rules; the higher one wins.
	Priority int `json:"priority,omitempty"`

	// Source is where the rule comes from, for messages: "preset agent-safe",
	// "policy.yaml:12", "--rule".
	Source string `json:"source,omitempty"`
}

// String returns PATTERN=LEVEL, and in parentheses the other fields that are set, but
// for Priority and Source. It leaves out the end of a long Except.
func (r Rule) String() string {
	var more []string
	if r.Type != Glob {
		more = append(more, r.Type.String())
	}
	if r.AtMost {
		more = append(more, "at most")
	}
	if r.Except != "" {
		more = append(more, "except "+shortened(r.Except))
	}
	s := r.Pattern + "=" + r.LevelText()
	if r.NotBelow != packages { // all secrets of the presets have that, either case, and copies
		if r.NotBelow != "" {
			more = append(more, "not below "+r.NotBelow)
		}
		if r.Fold {
			more = append(more, "either case")
		}
		if r.Copies {
			more = append(more, "and copies")
		}
	}
	if more != nil {
		s += " (" + strings.Join(more, ", ") + ")"
	}
	return s
}

// askText stands in rules for View with Ask.
const askText = "ask"

// LevelText returns the name of r's level, or ask.
func (r *Rule) LevelText() string {
	if r.Ask {
		return askText
	}
	return r.Level.String()
}

// setLevel sets Level and Ask to what LevelText returns for them.
func (r *Rule) setLevel(text string) (err error) {
	if r.Ask = text == askText; r.Ask {
		text = View.String()
	}
	if err = r.Level.UnmarshalText([]byte(text)); err != nil {
		err = invalid("unknown level %q: want none, view, ask, read or write", text)
	}
	return err
}

// shortened returns a pattern, or the beginning of one that has very many alternatives.
func shortened(pattern string) string {
	const most = 700
	if len(pattern) <= most {
		return pattern
	}
	return pattern[:strings.LastIndexByte(pattern[:most], ',')+1] + "...}"
}

// describe returns r and its source, for errors.
func (r *Rule) describe() string {
	if r.Source == "" {
		return strconv.Quote(r.String())
	}
	return strconv.Quote(r.String()) + " of " + r.Source
}

// ParseRule parses PATTERN=LEVEL, as in --rule, and checks the pattern. LEVEL may be ask. The last
// '=' splits, so a pattern may contain others. Priority and Source are not set. The error matches
// ErrInvalid.
func ParseRule(s string) (Rule, error) {
	i := strings.LastIndexByte(s, '=')
	if i < 0 {
		return Rule{}, invalid("rule %q: want PATTERN=LEVEL", s)
	}
	r := Rule{Pattern: s[:i]}
	if err := r.setLevel(s[i+1:]); err != nil {
		return Rule{}, invalid("rule %q: %w", s, err)
	}
	if err := r.checkWritten(); err != nil {
		return Rule{}, invalid("rule %q: %w", s, err)
	}
	return r, nil
}

// checkWritten returns the faults of the pattern of r, which a person has written, or the reason
// why it would match other paths than that person expects.
func (r *Rule) checkWritten() error {
	const blanks = " \t\r\n"
	if strings.HasPrefix(r.Pattern, "!") {
		return invalid("a leading ! negates nothing here: write another rule for what should have another level, or \\! for a name that begins with it")
	}
	text := strings.TrimSuffix(r.Pattern, "/")
	if end := strings.TrimRight(text, blanks); end != text && (len(text)-len(end) > 1 || !escapes(end)) || strings.TrimLeft(text, blanks) != text {
		return invalid("the pattern begins or ends with a blank: remove it, or write \\x20 for a name that has it")
	}
	_, err := r.alternatives(new(parsing))
	return err
}

// escapes reports whether the last byte of a pattern is a backslash that escapes what follows.
func escapes(s string) bool { return (len(s)-len(strings.TrimRight(s, `\`)))%2 == 1 }
