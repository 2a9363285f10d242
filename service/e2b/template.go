package e2b

import (
	"net/http"
	"strings"
)

// ownSystem are the templates on what the service's own configuration says; the last one is the
// SDK's own for MCP.
var ownSystem = map[string]bool{"": true, baseTemplate: true, "code-interpreter-v1": true, "mcp-gateway": true}

// imageOf returns the image of a template; empty: what the service's own configuration says.
func imageOf(template string) (string, error) {
	name := strings.TrimSuffix(template, ":default")
	switch {
	case ownSystem[name]:
		return "", nil
	case len(name) > 255:
		return "", invalid("templateID: more than 255 bytes")
	}
	return name, nil
}

// alias serves GET /templates/aliases/{alias}.
func (h *Handler) alias(w http.ResponseWriter, r *http.Request) error {
	name := r.PathValue("alias")
	image, err := imageOf(name)
	if err == nil && image != "" {
		err = h.service.HasImage(image)
	}
	if err != nil {
		return err
	}
	h.reply(w, http.StatusOK, map[string]any{"templateID": name, "public": false})
	return nil
}
