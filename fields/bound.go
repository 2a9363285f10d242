package fields

// A Bound says what a project's configuration file may set beside the user's own file.
type Bound struct {
	How    How
	Normal string // of Ranked: what counts as set if the user has set nothing; empty: nothing
	// a value may give more than a sandbox has by default, though the file may set it
	Widens  bool
	Refuse  string // a value with this text in it is as Deny
	Because string // of Deny and Refuse: the reason
	Note    string // replaces what docs/configuration.md says by How
}

// A How says how a project's value combines with the user's.
type How uint8

// The ways.
const (
	Deny    How = iota // the user's file must allow the key; the zero value, also of a new field
	Never              // not in a project's file at all
	Free               // the project's value counts
	Same               // a value that the user has set must be repeated
	Most               // not more than the user has set
	Ranked             // not later in the order of Values than what the user has set
	Named              // K=V is free; K, which takes a variable of the host, as Deny
	Ordered            // rules: perm gives those of a project a rank of their own
	Hosts              // names of hosts: those of the user, where the user's network has limits
)
