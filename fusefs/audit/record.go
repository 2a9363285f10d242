// Package audit is a sandbox's log of what its filtered tree has denied: its
// form, the [Log] that is written by the process that serves the tree, and the
// [Reader] of whoever wants to know.
//
// It does not decide what is denied, nor where the log is. The log is a file
// and, once that was full, an older one beside it, PATH and PATH.1; each line is
// the JSON of one [Record].
//
// What is in it was chosen by a sandbox, and the files may have been changed by
// one that has broken out: they are opened without following links, read up to
// a bound, and lines that are none are skipped and counted.
package audit

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf16"
	"unicode/utf8"

	"wolffia/perm"
)

// A Record is one line: a denial, or the number of those that were not
// recorded one by one.
type Record struct {
	// Time is when it happened; with Count or Dropped, when the last did.
	Time time.Time
	// Since is when the first of Count or Dropped happened; zero otherwise.
	Since time.Time

	// Dropped says that so many denials have no line of their own, because they
	// were too many at once or could not be written. Nothing below is set.
	Dropped int64

	// Count is how many denials of the same kind, for the same path, this line
	// stands for, beyond those of earlier lines; it is at least 1. Where it is
	// more, or Since is set, process and user are those of the first.
	Count int64

	Op    string     // what was asked for, such as "write"
	Path  string     // relative to the codebase; arbitrary bytes
	Cut   bool       // Path is only the beginning of it, and there is no Rule
	Level perm.Level // what the rules give
	Need  perm.Level // what was needed; equal to Level if the kind of object is refused
	Errno string     // what the process was told, such as "EACCES"

	Rule    *perm.Rule // the rule that decided; nil: none matches, or Problem says why
	Problem string     // why there is no Rule
	Why     string     // what git outside of the sandbox would do with it; empty: the rule says it all
	Remedy  string     // the flag that would allow it; empty: none would

	PID     uint32 // of the thread that asked, on the host; 0 if it is not known
	Command string // its name, which it can choose; not UTF-8 is replaced
	UID     uint32 // of the process, on the host
}

// The longest path that is recorded, and the longest line that is read, in
// bytes. A byte of a path takes up to 6 in Path, 2 in its exact bytes, and 5 in
// Remedy; a rule has 12 KiB at most.
const (
	maxPath = 4096
	maxLine = 128 << 10
)

// A line is a Record as JSON. Path is text for people: where the path is not
// UTF-8, what is not is replaced by U+FFFD, and PathBytes has it exactly, in
// base64.
type line struct {
	Time  time.Time `json:"time"`
	Since time.Time `json:"since,omitzero"`

	Dropped int64 `json:"dropped,omitempty"`

	*denial
}

type denial struct {
	Count     int64      `json:"count"`
	Op        string     `json:"op"`
	Path      string     `json:"path"`
	PathBytes []byte     `json:"pathBytes,omitempty"`
	Cut       bool       `json:"pathCut,omitempty"`
	Level     perm.Level `json:"level"`
	Need      perm.Level `json:"need"`
	Errno     string     `json:"errno"`
	Rule      *perm.Rule `json:"rule"`
	Problem   string     `json:"problem,omitempty"`
	Why       string     `json:"why,omitempty"`
	Remedy    string     `json:"remedy,omitempty"`
	PID       uint32     `json:"pid"`
	Command   string     `json:"command"`
	UID       uint32     `json:"uid"`
}

// Append appends r to b, as JSON on one line without its end. All of it is
// printable: what would mean something to a terminal is escaped.
func (r *Record) Append(b []byte) []byte {
	l := line{Time: r.Time.UTC(), Since: r.Since, Dropped: r.Dropped}
	if !l.Since.IsZero() {
		l.Since = l.Since.UTC()
	}
	if r.Dropped == 0 {
		l.denial = &denial{
			Count: r.Count, Op: r.Op, Path: r.Path, Cut: r.Cut, Level: r.Level, Need: r.Need, Errno: r.Errno,
			Rule: r.Rule, Problem: r.Problem, Why: r.Why, Remedy: r.Remedy, PID: r.PID, Command: r.Command, UID: r.UID,
		}
		if !utf8.ValidString(r.Path) {
			l.PathBytes = []byte(r.Path)
		}
	}
	text, err := json.Marshal(l)
	if err != nil { // a level that is none, a year beyond 9999
		text = fmt.Appendf(nil, `{"time":"0001-01-01T00:00:00Z","dropped":%d}`, max(1, r.Count, r.Dropped))
	}
	return appendPrintable(b, string(text))
}

// appendPrintable appends JSON with all that cannot be printed escaped. It only
// occurs within strings.
func appendPrintable(b []byte, text string) []byte {
	for _, c := range text {
		switch {
		case strconv.IsPrint(c):
			b = utf8.AppendRune(b, c)
		case c > 0xffff:
			hi, lo := utf16.EncodeRune(c)
			b = fmt.Appendf(b, `\u%04x\u%04x`, hi, lo)
		default:
			b = fmt.Appendf(b, `\u%04x`, c)
		}
	}
	return b
}

// Parse reads one line, with or without its end. An error means that it is not
// one that Append has made.
func Parse(text []byte) (Record, error) {
	l := line{denial: new(denial)}
	if err := json.Unmarshal(text, &l); err != nil {
		return Record{}, fmt.Errorf("audit log: %w", err)
	}
	r := Record{Time: l.Time, Since: l.Since, Dropped: l.Dropped}
	switch {
	case l.Dropped > 0:
		return r, nil
	case l.Time.IsZero() || l.Dropped < 0 || l.Count < 1 || l.Op == "" || l.Errno == "":
		return Record{}, errors.New("audit log: not a denial")
	}
	r.Count, r.Op, r.Path, r.Cut, r.Level, r.Need, r.Errno = l.Count, l.Op, l.Path, l.Cut, l.Level, l.Need, l.Errno
	r.Rule, r.Problem, r.Why, r.Remedy, r.PID, r.Command, r.UID = l.Rule, l.Problem, l.Why, l.Remedy, l.PID, l.Command, l.UID
	if l.PathBytes != nil {
		r.Path = string(l.PathBytes)
	}
	return r, nil
}

// maxDepth is the most components of a path that rules are asked about one by
// one: what it costs is the sandbox's to choose.
const maxDepth = 256

// Explain fills in what rules say about the denial. Of a path that may be a
// directory or not the explanation is told that gives the level that was given;
// without one, as after a change of rules or a rename, there is none.
func (r *Record) Explain(rules *perm.Policy) {
	switch {
	case rules == nil || r.Dropped > 0:
		return
	case r.Cut || strings.Count(r.Path, "/") >= maxDepth:
		r.Problem = "the path is too long to say why"
		return
	}
	for _, dir := range []bool{false, true} {
		e := rules.Explain(r.Path, dir)
		if e.Level == r.Level {
			r.Rule, r.Problem, r.Remedy = e.Rule, e.Problem, e.Remedy(r.Need)
			return
		}
	}
	r.Problem = "the rules, or its name, have changed since"
}
