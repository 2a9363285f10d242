package engine

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"

	"github.com/moby/moby/api/types/system"
	"github.com/moby/moby/client"

	"wolffia/runtime"
)

// keepID maps the user of a rootless Podman to the same number inside, instead
// of to root (podman-run(1), --userns).
const keepID = "keep-id"

// info returns the engine's description of itself. A rootless Podman of another user is
// an error.
func (e *Engine) info(ctx context.Context) (*system.Info, error) {
	if err := e.ping(ctx); err != nil { // the answer's headers tell whether it is Podman
		return nil, err
	}
	if !e.podman.Load() {
		r, err := e.client.Info(ctx, client.InfoOptions{})
		return &r.Info, e.explain("ask for its abilities", err)
	}
	info, rootless, err := e.podmanInfo(ctx)
	if err != nil {
		return nil, e.explain("ask for its abilities", err)
	}
	if e.rootless = rootless; !rootless {
		return info, nil
	}
	return info, e.checkOwner()
}

// podmanInfo requests the description without the client library, which lacks the field
// that tells whether Podman is rootless; once, since Podman is slow to answer.
func (e *Engine) podmanInfo(ctx context.Context) (info *system.Info, rootless bool, err error) {
	dial := e.client.Dialer()
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) }}
	defer transport.CloseIdleConnections()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://engine/info", nil)
	if err != nil {
		return nil, false, err
	}
	answer, err := transport.RoundTrip(r)
	if err != nil {
		return nil, false, err
	}
	defer answer.Body.Close()
	var all struct {
		system.Info
		Rootless *bool
	}
	if err := json.NewDecoder(io.LimitReader(answer.Body, 1<<20)).Decode(&all); err != nil {
		return nil, false, err
	}
	if answer.StatusCode != http.StatusOK || all.Rootless == nil {
		return nil, false, errors.New("the answer does not tell whether it is rootless: " + answer.Status)
	}
	return &all.Info, *all.Rootless, nil
}

// checkOwner returns an error for another user's rootless Podman.
func (e *Engine) checkOwner() error {
	st, err := os.Stat(strings.TrimPrefix(e.config.Docker.Host, "unix://"))
	if err != nil {
		return e.explain("look at its socket", err)
	}
	if owner := int(st.Sys().(*syscall.Stat_t).Uid); owner != e.place.uid || owner == 0 {
		return runtime.Errorf(runtime.ErrUnsupported, "the engine is a rootless Podman of uid %d, which can run sandboxes of that user only", owner)
	}
	return nil
}
