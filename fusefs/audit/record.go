// Package audit is a sandbox's log of the denials of its filtered tree. The refusals of its
// network are in a second log. It has the format, the [Log] that the tree's server and the shim
// write, and the [Reader].
//
// It decides neither what is denied nor where the log is. The log is a file at PATH and, once
// that was full, the older file PATH.1; each line is the JSON of one [Record].
//
// A sandbox chooses the content, and one that has broken out may have changed the files: they
// are opened without following links and read up to a limit; invalid lines are skipped and
// counted.
package audit

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"
	"unicode/utf16"
	"unicode/utf8"

	"wolffia/perm"
)

// A Record is one line of the log: a denial, or the number of denials without a line of their
// own.
type Record struct {
	// Time is when it happened; with Count or Dropped, when the last did.
	Time time.Time `json:"time"`
	// Since is when the first of Count or Dropped happened; zero otherwise.
	Since time.Time `json:"since,omitzero"`

	// Dropped is the number of denials that have no line of their own, because there were
	// too many at once or the log could not be written. If it is set, nothing below is.
	Dropped int64 `json:"dropped,omitempty"`

	// Count is the number of denials of the same kind, for the same path, of this line,
	// without those of earlier lines; at least 1. If it is more, or Since is set, process
	// and user are those of the first.
	Count int64 `json:"count"`

	Op   string `json:"op"`   // such as "write"
	Path string `json:"path"` // relative to the codebase; arbitrary bytes
	// PathBytes is for the JSON only, where U+FFFD replaces what in Path is not UTF-8: it
	// is the exact path then. Append ignores it, and Parse leaves it nil.
	PathBytes []byte `json:"pathBytes,omitempty"`

	Cut   bool       `json:"pathCut,omitempty"` // Path is only the beginning, and there is no Rule
	Level perm.Level `json:"level"`             // what the rules give
	// Need is the needed level, of a rename also a lower one; Level if the kind of object is
	// refused.
	Need  perm.Level `json:"need"`
	Errno string     `json:"errno"` // the process's error, such as "EACCES"; empty if a person has allowed it
	// Asked is the outcome if a person was asked: "allowed", "refused", or "withdrawn" when the
	// process has ended or was interrupted before.
	Asked string `json:"asked,omitempty"`
	// By is who has answered; empty if nobody has, in time.
	By string `json:"by,omitempty"`

	Rule    *perm.Rule `json:"rule"`              // the rule that decided; nil: none matches, or see Problem
	Problem string     `json:"problem,omitempty"` // why there is no Rule
	Reason  string     `json:"why,omitempty"`     // what git on the host would do with it; empty: the rule explains it
	Remedy  string     `json:"remedy,omitempty"`  // the flag that would allow it; empty: none would

	// Host is set for a refusal of the network; then no field from Path to Reason is set.
	Host *Host `json:"host,omitempty"`

	PID     uint32 `json:"pid"`     // of the thread, on the host; 0 if unknown
	Command string `json:"command"` // the thread's name, which it can choose; invalid UTF-8 is replaced
	UID     uint32 `json:"uid"`     // of the process, on the host
}

// A Host is what a program wanted to reach when the network refused it.
type Host struct {
	Name    string `json:"name,omitempty"`
	Address string `json:"address,omitempty"`
	Port    int    `json:"port,omitempty"`
	Reason  string `json:"reason"`
}

// String returns NAME, or else the address, and the port.
func (h *Host) String() string {
	host := cmp.Or(h.Name, h.Address)
	if h.Port == 0 {
		return host
	}
	return net.JoinHostPort(host, strconv.Itoa(h.Port))
}

// allowed is a Record's Asked.
const allowed = "allowed"

// maxHost bounds each text of a Host and the Remedy beside it, in bytes. A name of DNS has 253.
const maxHost = 300

// cut bounds the texts of a refusal of the network.
func (r *Record) cut() {
	short := func(s string) string { return s[:min(len(s), maxHost)] }
	r.Host = &Host{short(r.Host.Name), short(r.Host.Address), r.Host.Port, short(r.Host.Reason)}
	r.Remedy, r.Command = short(r.Remedy), short(r.Command)
}

// Limits, in bytes, of a recorded path and of a line that is read. A byte of a path takes up to
// 6 in Path, 2 in PathBytes and 5 in Remedy; a rule has at most 12 KiB.
const (
	maxPath = 4096
	maxLine = 128 << 10
)

// A hostLine is the JSON of a Record with Host.
type hostLine struct {
	Time    time.Time `json:"time"`
	Since   time.Time `json:"since,omitzero"`
	Count   int64     `json:"count"`
	Op      string    `json:"op"` // "lookup", "connect" or "proxy"
	Host    *Host     `json:"host"`
	Remedy  string    `json:"remedy,omitempty"`
	PID     uint32    `json:"pid,omitempty"`
	Command string    `json:"command,omitempty"`
}

// A dropLine is the JSON of a Record with Dropped.
type dropLine struct {
	Time    time.Time `json:"time"`
	Since   time.Time `json:"since,omitzero"`
	Dropped int64     `json:"dropped"`
}

// Append appends the line of r, without its end, to b. All of it is printable: what a terminal
// would interpret is escaped.
func (r Record) Append(b []byte) []byte {
	r.Time = r.Time.UTC()
	if !r.Since.IsZero() {
		r.Since = r.Since.UTC()
	}
	r.PathBytes = nil
	if !utf8.ValidString(r.Path) {
		r.PathBytes = []byte(r.Path)
	}
	line := any(&r)
	switch {
	case r.Dropped > 0:
		line = dropLine{r.Time, r.Since, r.Dropped}
	case r.Host != nil:
		line = hostLine{r.Time, r.Since, r.Count, r.Op, r.Host, r.Remedy, r.PID, r.Command}
	}
	text, err := json.Marshal(line)
	if err != nil { // an invalid level, or a year beyond 9999
		text = fmt.Appendf(nil, `{"time":"0001-01-01T00:00:00Z","dropped":%d}`, max(1, r.Count, r.Dropped))
	}
	return appendPrintable(b, string(text))
}

// appendPrintable appends JSON with unprintable characters, which occur within strings only,
// escaped.
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

// Parse parses one line, with or without its end. It returns an error for a line that Append
// does not write.
func Parse(text []byte) (Record, error) {
	var r Record
	if err := json.Unmarshal(text, &r); err != nil {
		return Record{}, fmt.Errorf("audit log: %w", err)
	}
	switch {
	case r.Dropped > 0:
		return Record{Time: r.Time, Since: r.Since, Dropped: r.Dropped}, nil
	case r.Time.IsZero() || r.Dropped < 0 || r.Count < 1 || r.Op == "",
		(r.Errno == "" && r.Asked != allowed) == (r.Host == nil):
		return Record{}, errors.New("audit log: line is not a denial")
	case r.PathBytes != nil:
		r.Path, r.PathBytes = string(r.PathBytes), nil
	}
	return r, nil
}

// maxDepth bounds the components of a path for which Explain asks the rules: the sandbox
// chooses the path, and so the cost.
const maxDepth = 256

// Explain sets Rule, Problem and Remedy from the rules. Of a path that may be a directory or
// not it uses the explanation that gives r.Level. Without one, as after a change of rules or a
// rename, it sets only Problem.
func (r *Record) Explain(rules *perm.Policy) {
	switch {
	case rules == nil || r.Dropped > 0 || r.Host != nil:
		return
	case r.Cut || strings.Count(r.Path, "/") >= maxDepth:
		r.Problem = "path too long to find the rule"
		return
	}
	for _, dir := range []bool{false, true} {
		e := rules.Explain(r.Path, dir)
		if e.Level == r.Level {
			r.Rule, r.Problem, r.Remedy = e.Rule, e.Problem, e.Allow(r.Need)
			if r.Need < r.Level {
				r.Remedy = e.Flag(r.Need)
			}
			return
		}
	}
	r.Problem = "the rules or the name have changed since"
}
