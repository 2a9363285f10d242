package console

import "wolffia/service"

// A denial is an entry of the log of denials, with the command line that would allow it.
type denial struct {
	service.Denied
	Remedy string `json:"remedy,omitempty"`
}

func deniedOf(id string, d *service.Denied) denial {
	switch {
	case d.Refused != nil && d.Refused.Allow != "":
		return denial{*d, "wolffia network allow " + id + " " + d.Refused.Allow}
	case d.Denial != nil && d.Allow != "":
		return denial{*d, "wolffia policy add " + id + " " + d.Allow}
	}
	return denial{Denied: *d}
}

func (h *Handler) denied(c *call) (any, error) {
	limit, err := c.number("limit", 200, 1, 1000)
	if err != nil {
		return nil, err
	}
	all, err := h.opts.Service.Denials(c.Context(), c.caller, c.id)
	if err != nil {
		return nil, err
	}
	list := []denial{}
	before := max(0, len(all)-int(limit))
	for i := range all[before:] {
		list = append(list, deniedOf(c.id, &all[before+i]))
	}
	return map[string]any{"denied": list, "before": before}, nil
}
