package history

import "fmt"

// Note says what a check cannot show.
const Note = "the check shows that no line was changed, added or taken out between the first one and the head. " +
	"Who can write the state directory can write another chain, or cut off its end: keep the head elsewhere, " +
	"and check with --head that the log still has it"

// A Report is what a check of the log has found.
type Report struct {
	OK    bool   `json:"ok"`
	Lines int    `json:"lines"`
	First int64  `json:"first"` // number of the oldest entry of the chain; more than 1: older files were removed
	Last  int64  `json:"last"`  // number of the newest one
	Head  string `json:"head"`  // the hash of the last line; empty: there is none
	// Torn lines were cut off when their writers were killed, and Unchained ones are of an older
	// version.
	Torn      int     `json:"torn"`
	Unchained int     `json:"unchained"`
	Broken    *Broken `json:"broken,omitempty"` // the first one; nil: none
	Note      string  `json:"note"`
}

// A Broken is a line with which the chain ends.
type Broken struct {
	File    string `json:"file"` // in the directory history
	Line    int    `json:"line"`
	Problem string `json:"problem"`
}

// Verify checks the chain of the log of a state directory. If head is not empty, the log must have a
// line with that hash. The error is of reading; what is wrong with the log is in the report.
func Verify(state, head string) (*Report, error) {
	r := &Report{Note: Note}
	var before *Line
	found := head == ""
	err := Each(state, func(l *Line) error {
		r.Lines++
		r.Head = l.Hash
		found = found || l.Hash == head
		if problem := r.next(before, l); problem != "" && r.Broken == nil {
			r.Broken = &Broken{l.File, l.Row, problem}
		}
		own := *l
		before = &own
		return nil
	})
	if err == nil && !found && r.Broken == nil {
		r.Broken = &Broken{"", 0, "no line has the hash " + head + ": the log was cut off, or written anew, since that was its head"}
	}
	r.OK = err == nil && r.Broken == nil
	return r, err
}

// next counts a line, and returns what is wrong with it after the one before; nil: it is the first.
func (r *Report) next(before, l *Line) string {
	switch {
	case !l.Valid:
		r.Torn++ // the line after it says so, or is broken
		return ""
	case l.Seq == 0 && l.Prev == "":
		r.Unchained++
		if r.First > 0 {
			return "the line has no hash of the one before"
		}
		return ""
	}
	chained := r.First > 0
	if !chained {
		r.First = l.Seq
	}
	last := r.Last
	r.Last = l.Seq
	switch {
	case before == nil && l.Seq == 1 && l.Prev == "":
		return ""
	case before == nil && l.Prev != "":
		return "" // the files before were removed
	case before == nil:
		return "the line is the first, and its number is another"
	case l.Prev != before.Hash:
		return "the line before is another one than when this was written: one was changed, added or taken out"
	case l.Torn == before.Valid:
		return "the line says otherwise whether the one before was cut off"
	case chained && before.Valid && l.Seq != last+1:
		return fmt.Sprintf("its number is %d, after %d", l.Seq, last)
	}
	return ""
}
