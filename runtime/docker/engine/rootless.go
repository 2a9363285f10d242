package engine

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"syscall"

	"github.com/moby/moby/api/types/system"
	"github.com/moby/moby/client"

	"wolffia/runtime"
	"wolffia/runtime/launch"
)

// keepID maps the user of a rootless Podman to the same number inside, instead
// of to root (podman-run(1), --userns).
const keepID = "keep-id"

// info returns the engine's description of itself. A rootless Podman of another user is
// an error.
func (e *Engine) info(ctx context.Context) (*system.Info, error) {
	// The answer's headers tell whether it is Podman.
	if _, err := e.client.Ping(ctx, client.PingOptions{NegotiateAPIVersion: true}); err != nil {
		return nil, e.explain("ask for its abilities", err)
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

// checkTree returns an error if a container, which is not started yet, lacks the filtered
// tree. A rootless Podman has a mount namespace of its own. A new mount appears there if
// its parent mount is shared (mount_namespaces(7)); else the container would have the empty
// directory below it.
func (e *Engine) checkTree(ctx context.Context, spec *launch.Spec, id string) error {
	if spec.Config.CodebasePath == "" {
		return nil
	}
	r, err := e.client.ContainerInspect(ctx, id, client.ContainerInspectOptions{})
	if err != nil {
		return e.explain("look at the container", err)
	}
	if r.Container.State == nil || r.Container.State.Pid <= 0 {
		return runtime.Errorf(runtime.ErrUnavailable, "the engine at %s does not report the container's process", e.config.Docker.Host)
	}
	mounts, err := os.ReadFile("/proc/" + strconv.Itoa(r.Container.State.Pid) + "/mountinfo")
	if err != nil {
		return runtime.Errorf(runtime.ErrUnavailable, "look at the container's mounts: %w", err)
	}
	if !hasTree(string(mounts), spec.Config.MountPointOrDefault()) {
		return runtime.Errorf(runtime.ErrUnsupported, "the rootless engine at %s does not see the codebase's mount: mounts are not shared with it; as root: mount --make-rshared /, then podman system migrate, and start its service again", e.config.Docker.Host)
	}
	return nil
}

// hasTree reports whether a tree server's mount is at a place, by the text of mountinfo
// (proc_pid_mountinfo(5)).
func hasTree(mountinfo, place string) bool {
	is := false
	for line := range strings.Lines(mountinfo) {
		f := strings.Fields(line)
		if len(f) < 5 || f[4] != octal(place) {
			continue
		}
		_, after, _ := strings.Cut(line, " - ")
		kind, _, _ := strings.Cut(after, " ")
		is = kind == "fuse.wolffia" // the last one covers the others
	}
	return is
}

// octal escapes a path as mountinfo does.
func octal(path string) string {
	return strings.NewReplacer(" ", `\040`, "\t", `\011`, "\n", `\012`, `\`, `\134`).Replace(path)
}
