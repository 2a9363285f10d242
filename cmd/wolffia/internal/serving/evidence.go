//go:build !small

package serving

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"slices"
	"strings"
	"time"

	"wolffia/cmd/wolffia/internal/history"
	"wolffia/service"
	page "wolffia/service/console"
)

// recorder returns a function that adds what callers of a service have done to the log of a state
// directory.
func recorder(state, who string, log *slog.Logger) func(*service.Record) {
	return func(r *service.Record) {
		e := history.Entry{
			Kind: r.Kind, Time: time.Now(), Codebase: r.Sandbox.CodebasePath, Sandbox: r.Sandbox.ID, Who: who,
			Question: r.Question, Answer: r.Answer, Changes: r.Changes, Paths: r.Paths,
			Command: r.Command, ExitCode: r.ExitCode, Duration: r.Duration,
		}
		if r.Kind == service.RecordCommand {
			e.Kind = history.KindCommand
		}
		if r.Key != "" {
			e.Who += ", key " + r.Key
		}
		if err := history.Add(state, e); err != nil {
			log.Error("the evidence log cannot be written", "error", err.Error())
		}
	}
}

// evidence is the log of a state directory, for the page.
type evidence struct{ state string }

// selects reports whether a line is an entry that a query selects.
func selects(q *page.EvidenceQuery, l *history.Line) bool {
	at := l.Time.UnixMilli()
	return l.Valid && (q.Since == 0 || at >= q.Since) && (q.Until == 0 || at < q.Until) && (q.Before == 0 || l.Seq < q.Before) &&
		(q.Sandbox == "" || l.Sandbox == q.Sandbox) && (q.Kind == "" || kindOf(l) == q.Kind) &&
		(q.Text == "" || bytes.Contains(bytes.ToLower(l.Text), []byte(strings.ToLower(q.Text))))
}

// kindOf returns the kind of an entry as the page has it.
func kindOf(l *history.Line) string {
	if l.Kind == history.KindCommand {
		return "command"
	}
	return l.Kind
}

// Find implements [page.Evidence].
func (v *evidence) Find(ctx context.Context, q *page.EvidenceQuery) (list []page.EvidenceEntry, more bool, err error) {
	err = history.Each(v.state, func(l *history.Line) error {
		if !selects(q, l) {
			return ctx.Err()
		}
		if len(list) == 2*q.Limit { // older ones are left out
			list, more = slices.Delete(list, 0, q.Limit), true
		}
		list = append(list, page.EvidenceEntry{
			Seq: l.Seq, Time: l.Time.UnixMilli(), Kind: kindOf(l), Sandbox: l.Sandbox, Codebase: l.Codebase, Dir: l.Dir,
			Command: append([]string{}, l.Command...), ExitCode: l.ExitCode, DurationMS: l.Duration.Milliseconds(),
			Denied: len(l.Denied) + l.DeniedMore, Refused: len(l.Refused) + l.RefusedMore, Notes: append([]string{}, l.Notes...),
			Who: l.Who, Hash: l.Hash, Question: l.Question, Answer: l.Answer, Changes: l.Changes, Paths: l.Paths,
		})
		return ctx.Err()
	})
	if n := len(list) - q.Limit; n > 0 {
		list, more = slices.Delete(list, 0, n), true
	}
	slices.Reverse(list)
	return list, more, err
}

// Export implements [page.Evidence].
func (v *evidence) Export(ctx context.Context, q *page.EvidenceQuery, w io.Writer) error {
	return history.Each(v.state, func(l *history.Line) error {
		if !selects(q, l) {
			return ctx.Err()
		}
		_, err := w.Write(append(slices.Clone(l.Text), '\n'))
		return err
	})
}

// Verify implements [page.Evidence].
func (v *evidence) Verify(context.Context) (any, error) { return history.Verify(v.state, "") }
