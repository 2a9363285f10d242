package runtime

import (
	"wolffia/perm"
)

// Denials are what the rules of the codebase have denied while a command ran: to that command,
// or to another process of the sandbox at the same time. They are known only with FilterFuse.
// All texts are printable, and for the caller: the sandbox does not get them, and they say
// which hidden files exist.
type Denials struct {
	// List are the different denials in the order in which they happened, at least one. It
	// is bounded.
	List []Denial `json:"list"`
	// More is the number of other different denials, as far as they are known.
	More int `json:"more,omitempty"`
}

// A Denial is an access to the codebase that its rules have denied. What a process asks for
// and does not exist, such as an optional configuration file, is not a Denial.
type Denial struct {
	// Op is what was asked for: "lookup" of a hidden file, which the process sees as one that
	// does not exist; "read", "write", "create", "mkdir", "unlink", ...
	Op string `json:"op"`
	// Path is relative to the codebase. Unprintable bytes in it are escaped as in a Go string.
	Path string `json:"path"`
	// Level is what the rules give.
	Level perm.Level `json:"level"`
	// Rule is the rule that decided, as PATTERN=LEVEL, and Source where it comes from. They
	// are empty if no rule matches, or if the rule is unknown.
	Rule   string `json:"rule,omitempty"`
	Source string `json:"source,omitempty"`
	// Reason is the reason if the rule alone is not: what git on the host would do with the
	// file.
	Reason string `json:"why,omitempty"`
	// Allow is the flag of wolffia run, create and policy add that would allow it, quoted
	// for a shell, such as --rule '/docs/a.md=write'; empty if no flag would.
	Allow string `json:"allow,omitempty"`
}
