package e2b

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"wolffia/runtime"
	"wolffia/service"
	"wolffia/service/e2b/fault"
	"wolffia/service/e2b/steps"
	"wolffia/service/registry"
)

// ownSystem are the templates on what the service's own configuration says; the last one is the
// SDK's own for MCP.
var ownSystem = map[string]bool{"": true, baseTemplate: true, "code-interpreter-v1": true, "mcp-gateway": true}

// imageOf returns the image of an owner's template; empty: what the service's own configuration
// says. The owner's own templates come before images of this host.
func (h *Handler) imageOf(o registry.Owner, template string) (string, error) {
	name := strings.TrimSuffix(template, ":default")
	switch {
	case ownSystem[name]:
		return "", nil
	case len(name) > 255:
		return "", fault.Invalid("templateID: more than 255 bytes")
	}
	if base, tag, _ := strings.Cut(name, ":"); isTemplateName(base) {
		if own := h.templateImage(o, base) + ":" + orDefault(tag); h.service.HasImage(own) == nil {
			return own, nil
		}
	}
	return name, nil
}

// alias serves GET /templates/aliases/{alias}.
func (h *Handler) alias(w http.ResponseWriter, r *http.Request) error {
	name := r.PathValue("alias")
	image, err := h.imageOf(owner(service.CallerOf(r.Context())), name)
	if err == nil && image != "" {
		err = h.service.HasImage(image)
	}
	if err != nil {
		return err
	}
	h.reply(w, http.StatusOK, map[string]any{"templateID": name, "public": false})
	return nil
}

// maxTemplates is how many templates, NAME:TAG, an owner has without a quota.
const maxTemplates = 100

// names is Names of a service that may have none.
func (n *builder) names(begin string) ([]string, error) {
	if n.Names == nil {
		return nil, nil
	}
	return n.Names(begin)
}

// removeTemplate serves DELETE /templates/{id}, which can be a snapshot. A name without a tag means
// all of its tags.
func (h *Handler) removeTemplate(w http.ResponseWriter, r *http.Request) error {
	caller, id := service.CallerOf(r.Context()), r.PathValue("id")
	if name := snapshotID(id); runtime.IsID(name) {
		err := h.service.DestroySnapshot(r.Context(), caller, name)
		if !errors.Is(err, runtime.ErrNotFound) {
			if err == nil {
				h.reply(w, http.StatusNoContent, nil)
			}
			return err
		}
	}
	begin := h.templateImage(owner(caller), "")
	names, err := h.builds.names(begin)
	if err != nil {
		return err
	}
	removed := false
	for _, name := range names {
		if base, _, _ := strings.Cut(name, ":"); name != id && base != id {
			continue
		}
		if err := h.builds.Remove(r.Context(), begin+name); err != nil {
			return err
		}
		removed = true
	}
	if !removed {
		return fault.New(http.StatusNotFound, "template "+strconv.Quote(id)+" not found")
	}
	h.reply(w, http.StatusNoContent, nil)
	return nil
}

// begin gives a new sandbox what its template starts.
func (h *Handler) begin(p *service.Params) (readyCommand string) {
	if p.Image == "" || !strings.HasPrefix(p.Image, h.templateImage(p.Owner, "")) || h.builds.Command == nil {
		return ""
	}
	command, err := h.builds.Command(p.Image)
	if err != nil || len(command) != 6 || command[4] != steps.ReadyMark {
		return "" // else Create says what is wrong
	}
	p.Entrypoint = command[:4]
	return command[5]
}

// readyLimit is how long a template's ready command may take to succeed.
const (
	readyLimit = 60 * time.Second
	readyPause = 200 * time.Millisecond
)

// awaitReady waits until the ready command of a sandbox succeeds; empty: it is ready.
func (h *Handler) awaitReady(ctx context.Context, b *service.Sandbox, command string) error {
	if command == "" {
		return nil
	}
	in, err := h.service.Inside(ctx, b.Caller(), b.ID)
	if err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, readyLimit)
	defer cancel()
	for pause := time.NewTicker(readyPause); ; {
		r, err := in.Exec(limited, &runtime.Command{Command: []string{"/bin/bash", "-l", "-c", command}})
		if err == nil && r.ExitCode == 0 {
			pause.Stop()
			return nil
		}
		select {
		case <-pause.C:
			continue
		case <-limited.Done():
		}
		pause.Stop()
		const why = "template: its ready command has not succeeded in %v: %.200s"
		return runtime.Errorf(runtime.ErrUnavailable, why, readyLimit, command)
	}
}
