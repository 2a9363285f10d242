package audit

import (
	"wolffia/runtime"
)

// Denial returns r, which is not of the network, for front ends: all texts are printable.
func (r *Record) Denial() runtime.Denial {
	d := runtime.Denial{
		Op: r.Op, Path: Printable(r.Path), Level: r.Level, Reason: Printable(r.Reason), Allow: Printable(r.Remedy),
	}
	if r.Cut {
		d.Path += "..."
	}
	if r.Rule != nil && r.Need > r.Level {
		d.Rule, d.Source = Printable(r.Rule.String()), Printable(r.Rule.Source)
	}
	return d
}

// Refusal returns r, which is of the network, for front ends, as Denial does.
func (r *Record) Refusal() runtime.Refusal {
	return runtime.Refusal{
		Time: r.Time, Op: r.Op, Name: Printable(r.Host.Name), Address: Printable(r.Host.Address), Port: r.Host.Port,
		PID: int(r.PID), Program: Printable(r.Command), Reason: Printable(r.Host.Reason), Allow: Printable(r.Remedy), Count: int(r.Count),
	}
}
