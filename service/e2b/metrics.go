package e2b

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"wolffia/runtime"
	"wolffia/service"
	"wolffia/service/e2b/fault"
	"wolffia/service/gate"
)

// A metric is what a sandbox uses at one moment: of memory and processors it is what the machine
// does, as in the sandbox.
type metric struct {
	Time      time.Time `json:"timestamp"`
	Unix      int64     `json:"timestampUnix"`
	CPUs      int       `json:"cpuCount"`
	CPU       float64   `json:"cpuUsedPct"`
	MemUsed   uint64    `json:"memUsed"` // bytes
	MemTotal  uint64    `json:"memTotal"`
	MemCache  uint64    `json:"memCache"`
	DiskUsed  uint64    `json:"diskUsed"`
	DiskTotal uint64    `json:"diskTotal"`
}

// measure returns the metric of now.
func (h *Handler) measure(r *http.Request, id string) (*metric, error) {
	in, err := h.service.Inside(r.Context(), service.CallerOf(r.Context()), id)
	if err != nil {
		return nil, err
	}
	u, err := in.Usage(r.Context())
	if err != nil {
		return nil, err
	}
	used, err := in.DiskUsage(r.Context())
	if err != nil {
		return nil, err
	}
	now := time.Now().UTC()
	return &metric{
		Time: now, Unix: now.Unix(), CPUs: u.CPUs, CPU: u.CPU, MemUsed: u.MemUsed, MemTotal: u.MemTotal,
		DiskUsed: uint64(used), DiskTotal: uint64(in.Sandbox().Resources.Disk),
	}, nil
}

// metrics serves GET /sandboxes/{id}/metrics: no history is kept, so that there is one sample, of
// now, if the request wants that time.
func (h *Handler) metrics(w http.ResponseWriter, r *http.Request) error {
	values, err := gate.Query(r)
	if err != nil {
		return err
	}
	bounds := map[string]int64{"start": 0, "end": 1 << 62}
	for name := range bounds {
		if text := values.Get(name); text != "" {
			if bounds[name], err = strconv.ParseInt(text, 10, 64); err != nil {
				return fault.Invalid("%s %q: it must be seconds since 1970", name, text)
			}
		}
	}
	b, err := h.sandbox(r)
	if err != nil {
		return err
	}
	all := []*metric{}
	if now := time.Now().Unix(); b.State == runtime.StateRunning && bounds["start"] <= now && now <= bounds["end"] {
		m, err := h.measure(r, b.ID)
		if err != nil {
			return err
		}
		all = append(all, m)
	}
	h.reply(w, http.StatusOK, all)
	return nil
}

// maxMeasured is of how many sandboxes one request asks the metrics.
const maxMeasured = 100

// metricsOf serves GET /sandboxes/metrics: those of sandboxes by their ids. What does not run is
// left out.
func (h *Handler) metricsOf(w http.ResponseWriter, r *http.Request) error {
	ids := strings.Split(strings.Join(r.URL.Query()["sandbox_ids"], ","), ",")
	if len(ids) > maxMeasured {
		return fault.Invalid("sandbox_ids: the most are %d", maxMeasured)
	}
	all := map[string]*metric{}
	for n, id := range ids {
		if n > 0 { // the request has counted for one
			if err := h.service.AdmitRequest(service.CallerOf(r.Context())); err != nil {
				return err
			}
		}
		if m, err := h.measure(r, id); err == nil {
			all[id] = m
		}
	}
	h.reply(w, http.StatusOK, map[string]any{"sandboxes": all})
	return nil
}
