package envd

import (
	"context"
	"errors"
	"net/http"
	"time"

	"connectrpc.com/connect"

	"wolffia/ops/stream"
	"wolffia/runtime"
	"wolffia/service/e2b/fault"
	"wolffia/service/gate"
)

// errGone is the error for a sandbox that does not run any more.
var errGone = errors.New("the sandbox does not run any more")

// isGone reports whether an error says that a sandbox does not run.
func isGone(err error) bool {
	class := runtime.Class(err)
	return errors.Is(err, errGone) || class == runtime.ErrNotFound || class == runtime.ErrConflict
}

// codes are the codes of faults by their status; others are internal.
var codes = map[int]connect.Code{
	http.StatusBadRequest: connect.CodeInvalidArgument, http.StatusUnauthorized: connect.CodeUnauthenticated,
	http.StatusForbidden: connect.CodePermissionDenied, http.StatusConflict: connect.CodeFailedPrecondition,
	http.StatusNotFound: connect.CodeNotFound, http.StatusNotImplemented: connect.CodeUnimplemented,
	http.StatusTooManyRequests: connect.CodeResourceExhausted, http.StatusBadGateway: connect.CodeUnavailable,
	http.StatusGatewayTimeout: connect.CodeDeadlineExceeded, gate.StatusCanceled: connect.CodeCanceled,
}

// rpcError returns an error as Connect sends it, nil for nil.
func (h *Handler) rpcError(ctx context.Context, err error) error {
	if err == nil || errors.As(err, new(*connect.Error)) {
		return err
	}
	if ended := ctx.Err(); ended != nil {
		return ended
	}
	f, ok := fault.Of(err)
	if !ok {
		h.opts.Log.Error("a request failed", "sandbox", callOf(ctx).box.ID, "error", err.Error())
	}
	code, known := codes[f.Status]
	switch {
	case !known:
		code = connect.CodeInternal
	case errors.Is(err, runtime.ErrExists):
		code = connect.CodeAlreadyExists
	}
	return connect.NewError(code, f)
}

// fail answers with an error.
func (h *Handler) fail(w http.ResponseWriter, r *http.Request, err error) {
	f, ok := fault.Of(err)
	if !ok {
		h.opts.Bug(w, r, err)
	}
	h.opts.JSON(w, f.Status, f.Reply())
}

// NotRunning answers a request about a sandbox, by E2B's name, that does not run, or does not
// exist.
func NotRunning(w http.ResponseWriter, id string) {
	(&Options{WriteLimit: time.Minute}).JSON(w, http.StatusBadGateway, struct {
		ID      string `json:"sandboxId"`
		Message string `json:"message"`
		Code    int    `json:"code"`
	}{id, "The sandbox was not found", http.StatusBadGateway})
}

func (h *Handler) unknown(http.ResponseWriter, *http.Request) error {
	return fault.New(http.StatusNotFound, "envd has no such method and path here")
}

// health answers that the sandbox runs, which was checked.
func (h *Handler) health(w http.ResponseWriter, _ *http.Request) error {
	stream.Patience(w, h.opts.WriteLimit)
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func (h *Handler) envs(w http.ResponseWriter, r *http.Request) error {
	w.Header().Set("Cache-Control", "no-store")
	h.opts.JSON(w, http.StatusOK, callOf(r.Context()).box.environment(nil))
	return nil
}

func (h *Handler) init(http.ResponseWriter, *http.Request) error {
	const why = "init: the service prepares its sandboxes itself: give envVars when you create one"
	return fault.New(http.StatusNotImplemented, why)
}

// A usage says how busy the machine is. Sizes are in bytes, but for those in MiB.
type usage struct {
	At        int64   `json:"ts"` // seconds since 1970
	CPUs      int     `json:"cpu_count"`
	CPU       float64 `json:"cpu_used_pct"`
	TotalMiB  uint64  `json:"mem_total_mib"`
	UsedMiB   uint64  `json:"mem_used_mib"`
	MemTotal  uint64  `json:"mem_total"`
	MemUsed   uint64  `json:"mem_used"`
	MemCache  uint64  `json:"mem_cache"`
	DiskUsed  uint64  `json:"disk_used"`
	DiskTotal uint64  `json:"disk_total"`
}

func (h *Handler) metrics(w http.ResponseWriter, r *http.Request) error {
	u, err := callOf(r.Context()).in.Usage(r.Context())
	if err != nil {
		return err
	}
	h.opts.JSON(w, http.StatusOK, usage{
		time.Now().Unix(), u.CPUs, u.CPU, u.MemTotal >> 20, u.MemUsed >> 20,
		u.MemTotal, u.MemUsed, u.MemCache, u.DiskUsed, u.DiskTotal,
	})
	return nil
}
