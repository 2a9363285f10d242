package runtime

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"wolffia/perm"
)

// The kinds of questions: what a sandbox asks for instead of refusing it. See SandboxConfig.Ask.
const (
	AskNetwork = "network" // a connection to a host that no rule of the network allows
	AskWrite   = "write"   // a change of what the rules of the codebase make read-only
	AskReveal  = "reveal"  // the content of what a rule with ask shows by name only
)

// Asks reports whether a sandbox asks for accesses of a kind.
func (c *SandboxConfig) Asks(kind string) bool { return slices.Contains(c.Ask, kind) }

// AskLimitOrDefault is AskLimit, or DefaultAskLimit.
func (c *SandboxConfig) AskLimitOrDefault() time.Duration { return cmp.Or(c.AskLimit, DefaultAskLimit) }

// AskKinds are the kinds of questions.
func AskKinds() []string { return []string{AskNetwork, AskWrite, AskReveal} }

// DefaultAskLimit is how long a question waits for an answer unless SandboxConfig.AskLimit says
// something else. MaxAskLimit is the most.
const (
	DefaultAskLimit = 2 * time.Minute
	MaxAskLimit     = time.Hour
)

// A Question is an access of a program inside that waits for an answer. Without one, at Until, it is
// refused. Its texts are printable and the program chose most of them.
type Question struct {
	// ID is of this sandbox, since its start.
	ID   string `json:"id"`
	Kind string `json:"kind"` // AskNetwork, AskWrite, AskReveal
	// Op is what was asked for, as in a Denial or a Refusal.
	Op string `json:"op"`
	// Path is relative to the codebase, of AskWrite and AskReveal. Level is what the rules give, Need
	// what the operation needs.
	Path  string     `json:"path,omitempty"`
	Level perm.Level `json:"level,omitzero"`
	Need  perm.Level `json:"need,omitzero"`
	// Dir says that Path is a directory, or a name to be made or removed in one.
	Dir bool `json:"dir,omitempty"`
	// Host is NAME:PORT, of AskNetwork.
	Host string `json:"host,omitempty"`
	// Rule and Source are of the rule that decided, as in a Denial; empty: none did.
	Rule   string `json:"rule,omitempty"`
	Source string `json:"source,omitempty"`
	// Secret says that the answer may reveal a secret: who allows it repeats Path.
	Secret bool `json:"secret,omitempty"`
	// PID is the process as the host numbers it, Program its name, and Command its command line; 0
	// and empty if they are unknown. A process chooses its own name.
	PID     int    `json:"pid,omitempty"`
	Program string `json:"program,omitempty"`
	Command string `json:"command,omitempty"`
	// Time is when it was asked first, Until when it is refused.
	Time  time.Time `json:"time"`
	Until time.Time `json:"until"`
	// Count is how many equal accesses wait for the answer. Recent is how many questions there were
	// in the last minute, this one among them.
	Count  int `json:"count"`
	Recent int `json:"recent"`
	// Allow is the flag that would have allowed it; empty if none would.
	Allow string `json:"allow,omitempty"`
	// Targets are what an Answer may allow, from the narrowest, which is the access itself: rules of
	// the codebase without their level, or of the network.
	Targets []string `json:"targets"`
}

// The scopes of an Answer. An empty one is ScopeOnce.
const (
	// ScopeOnce: the accesses that wait, and for a file what the same process does with it until it ends.
	ScopeOnce = "once"
	// ScopeSandbox: a rule of this sandbox, until it is destroyed. A refusal is not asked for again.
	ScopeSandbox = "sandbox"
	// ScopeAlways: the caller's or the project's configuration too. A front end writes it; an Asker
	// takes it for ScopeSandbox.
	ScopeAlways = "always"
)

// An Answer decides on a Question. The zero Answer refuses.
type Answer struct {
	Question string `json:"question"`
	Allow    bool   `json:"allow,omitempty"`
	Scope    string `json:"scope,omitempty"`
	// Target is one of the question's; empty: the first. ScopeOnce allows the first only.
	Target string `json:"target,omitempty"`
	// Path repeats the question's, to allow what is Secret.
	Path string `json:"path,omitempty"`
	// By says who answers, for the rule's source and the logs, such as "terminal".
	By string `json:"by,omitempty"`
}

// AddsRule reports whether an answer adds a rule to the sandbox.
func (a *Answer) AddsRule() bool { return a.Allow && a.Scope != "" && a.Scope != ScopeOnce }

// CheckAnswer returns an error of class ErrInvalid for an answer that cannot be given to the
// question.
func (q *Question) CheckAnswer(a *Answer) error {
	switch {
	case a.Allow && q.Secret && a.Path != q.Path:
		return Errorf(ErrInvalid, "question %s: what it reveals may be a secret: repeat its path, %s, to allow it", q.ID, q.Path)
	case !a.AddsRule():
		return nil
	case a.Target != "" && !slices.Contains(q.Targets, a.Target):
		return Errorf(ErrInvalid, "question %s: %.200q is not one of its targets: %s", q.ID, a.Target, strings.Join(q.Targets, ", "))
	case q.Allow == "":
		return Errorf(ErrInvalid, "question %s: no rule can allow it: answer it with scope %s", q.ID, ScopeOnce)
	}
	return nil
}

// Wish says what the program of a question wants, behind its name.
func (q *Question) Wish() string {
	switch q.Kind {
	case AskNetwork:
		return "wants to connect to " + q.Host + ", which no rule allows"
	case AskReveal:
		return "wants to read " + q.Path
	}
	return "wants to change " + q.Path + " (" + q.Op + ")"
}

// An Asker passes questions on. A runtime that can ask implements it.
type Asker interface {
	// Questions calls each with the questions of a sandbox that wait, oldest first: at once, and
	// after each change, until ctx ends, the sandbox stops, or each returns an error, which it
	// returns. Questions wait only while somebody runs Questions: else the access is refused at
	// once. A sandbox that does not run is ErrConflict.
	Questions(ctx context.Context, sandboxID string, each func([]Question) error) error

	// AllQuestions is Questions for all sandboxes that run and ask, and those that start later. It
	// calls each for one after the other, without questions when one ends. It returns nil when ctx
	// ends.
	AllQuestions(ctx context.Context, each func(sandboxID string, all []Question) error) error

	// Answer answers a question. The first answer holds: one that does not wait any more is
	// ErrNotFound, and adds no rule. With a wider scope than ScopeOnce the rule is in force, and
	// recorded, before the accesses go on.
	Answer(ctx context.Context, sandboxID string, a *Answer) error
}
