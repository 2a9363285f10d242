package opensandbox

import (
	"encoding/json"
	"net/http"
	"time"

	"wolffia/ops/stream"
	"wolffia/service"
)

// A usageReply says how busy the machine is.
type usageReply struct {
	CPUs      int     `json:"cpu_count"`
	CPU       float64 `json:"cpu_used_pct"`
	MemTotal  float64 `json:"mem_total_mib"`
	MemUsed   float64 `json:"mem_used_mib"`
	Timestamp int64   `json:"timestamp"` // ms since 1970
}

// metrics serves GET /metrics.
func (d *execd) metrics(w http.ResponseWriter, r *http.Request, in *service.Inside) error {
	u, err := in.Usage(r.Context())
	if err != nil {
		return err
	}
	d.opts.JSON(w, http.StatusOK, describeUsage(u))
	return nil
}

func describeUsage(u *service.Usage) usageReply {
	const mib = 1 << 20
	return usageReply{u.CPUs, u.CPU, float64(u.MemTotal) / mib, float64(u.MemUsed) / mib, time.Now().UnixMilli()}
}

// watchPause is the time between two objects of GET /metrics/watch.
const watchPause = time.Second

// watchMetrics serves GET /metrics/watch: an object a second, the first one at once, until the
// client or the sandbox is gone. Each is JSON and a newline, as in OpenSandbox.
func (d *execd) watchMetrics(w http.ResponseWriter, r *http.Request, in *service.Inside) error {
	ticker := time.NewTicker(watchPause)
	defer ticker.Stop()
	control := http.NewResponseController(w)
	for begun := false; ; begun = true {
		u, err := in.Usage(r.Context())
		switch {
		case err != nil && !begun:
			return err
		case err != nil:
			return nil // the sandbox has ended
		case !begun:
			stream.Header(w)
		}
		text, err := json.Marshal(describeUsage(u))
		if err != nil {
			return err
		}
		stream.Patience(w, d.opts.WriteLimit)
		if _, err := w.Write(append(text, '\n')); err != nil || control.Flush() != nil {
			return nil // the client has gone
		}
		select {
		case <-ticker.C:
		case <-r.Context().Done():
			return nil
		}
	}
}
