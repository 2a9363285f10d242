package probe

import "wolffia/internal/host/cause"

// A host has the facts that fixes depend on.
type host = cause.Host

// Warn fills in what the table says of the facts; ok is false if it knows no cause.
func (r *Result) Warn(f *cause.Facts) (ok bool) {
	c, ok := cause.Of(f)
	if ok {
		r.Code, r.Problem, r.Fix = c.Code, c.Problem, c.Fix
	}
	if said := firstLine(f.Said); ok && said != "" {
		r.Problem += ": " + said
	}
	return ok
}
