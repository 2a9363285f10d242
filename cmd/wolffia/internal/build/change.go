package build

import (
	"context"
	"encoding/json"
	"strings"

	"wolffia/cmd/wolffia/internal/host"
	"wolffia/image/maker"
	"wolffia/internal/image/dockerfile"
	"wolffia/local"
	"wolffia/runtime"
)

// Change changes an image's configuration as instructions of a Dockerfile say, each of which makes
// no layer.
func Change(ctx context.Context, h *host.Host, rt *local.Runtime, c *maker.Config, changes []string) error {
	if len(changes) == 0 {
		return nil
	}
	text := "FROM scratch\n" + strings.Join(changes, "\n") + "\n"
	r, err := h.Make(ctx, rt, false, &maker.Request{Parse: []byte(text)})
	if err != nil {
		_, why, _ := strings.Cut(err.Error(), ": ")
		return runtime.Errorf(runtime.ErrInvalid, "--change: %s", why)
	}
	b := &builder{Options: new(Options), file: new(dockerfile.File)}
	if err := json.Unmarshal(r.Parsed, b.file); err != nil {
		return err
	}
	s := &stage{builder: b, config: c, args: map[string]string{}}
	for i := range b.file.Stages[0].Steps {
		in := &b.file.Stages[0].Steps[i]
		switch in.Name {
		case "WORKDIR":
			c.WorkingDir = inside(c, in.Value)
		case "CMD", "ENTRYPOINT", "ENV", "EXPOSE", "LABEL", "ONBUILD", "USER", "VOLUME", "STOPSIGNAL", "HEALTHCHECK":
			if err := s.do(ctx, in); err != nil {
				return runtime.Errorf(runtime.ErrInvalid, "--change: %w", err)
			}
		default:
			return runtime.Errorf(runtime.ErrInvalid, "--change %q: %s changes files; use a Dockerfile", in.Text, in.Name)
		}
	}
	return nil
}
