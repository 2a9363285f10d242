package console

import (
	"slices"
	"strconv"

	"wolffia/runtime"
	"wolffia/service"
)

// jobs lists the jobs of all sessions, oldest first.
func jobs(c *call, in *service.Inside) (any, error) {
	all, err := in.Sessions(c.Context())
	if err != nil {
		return nil, err
	}
	list := []*runtime.Job{}
	for _, s := range all {
		own, err := in.Jobs(s.Name).List(c.Context())
		if err != nil {
			return nil, err
		}
		list = append(list, own...)
	}
	slices.SortStableFunc(list, func(a, b *runtime.Job) int { return a.StartedAt.Compare(b.StartedAt) })
	return map[string]any{"jobs": list}, nil
}

// maxOutput is how many bytes of each stream of a job a reply has.
const maxOutput = 1 << 20

func jobOutput(c *call, in *service.Inside) (any, error) {
	q := c.URL.Query()
	most, err := c.number("max", 64<<10, 1, maxOutput)
	if err != nil {
		return nil, err
	}
	var at [2]*uint64
	for i, name := range []string{"stdout", "stderr"} {
		if text := q.Get(name); text != "" {
			n, err := strconv.ParseUint(text, 10, 64)
			if err != nil {
				return nil, runtime.Errorf(runtime.ErrInvalid, "%s %.40q: it must be an offset in bytes", name, text)
			}
			at[i] = &n
		}
	}
	of := in.Jobs(q.Get("session"))
	j, err := of.Get(c.Context(), q.Get("job"))
	if err != nil {
		return nil, err
	}
	out, err := of.Output(c.Context(), j, at[0], at[1], int(most))
	if err != nil {
		return nil, err
	}
	return map[string]any{"job": j, "stdout": out.Stdout.JSON(), "stderr": out.Stderr.JSON()}, nil
}

type jobRequest struct {
	Session string `json:"session"` // empty: the owner's persistent shell
	Name    string `json:"name"`
	Command string `json:"command"`
	Job     string `json:"job"`
	Signal  string `json:"signal"`
}

func startJob(h *Handler, c *call, q *jobRequest) (any, error) {
	in, err := h.opts.Service.Inside(c.Context(), c.caller, c.id)
	if err != nil {
		return nil, err
	}
	j, err := in.Jobs(q.Session).Start(c.Context(), q.Name, &runtime.Command{Command: []string{q.Command}})
	return map[string]any{"job": j}, err
}

func signalJob(h *Handler, c *call, q *jobRequest) (any, error) {
	in, err := h.opts.Service.Inside(c.Context(), c.caller, c.id)
	if err != nil {
		return nil, err
	}
	j, err := in.Jobs(q.Session).Signal(c.Context(), q.Job, q.Signal)
	return map[string]any{"job": j}, err
}
