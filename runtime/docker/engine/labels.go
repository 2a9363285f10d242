package engine

import (
	"context"
	"maps"
	"strconv"
	"strings"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"wolffia/internal/boot"
	"wolffia/runtime"
	"wolffia/runtime/launch"
)

// The labels of a container, beside those of its sandbox.
const (
	labelName  = "wolffia.name"
	labelState = "wolffia.stateDir"
	labelUser  = "wolffia.uid" // of the state directory's owner
)

// ownerLabels record the owner. A container has all of them, if need be empty: an
// engine adds those of the image, which may be false.
var ownerLabels = []string{launch.LabelOrganizationID, launch.LabelProjectID, launch.LabelUserID, launch.LabelGitConfigured}

// maxLabel bounds a label that is believed, in bytes.
const maxLabel = 4096

// A place is where the configurations of sandboxes are: a state directory. The
// same path may be another's on an engine that several users share.
type place struct {
	stateDir string
	uid      int // whom it belongs to
}

// containerName is the container's name, by which it is found again.
func containerName(id string) string { return "wolffia-" + id }

// labels are a container's.
func labels(spec *launch.Spec, of place) map[string]string {
	all := map[string]string{labelName: ""}
	for _, k := range ownerLabels {
		all[k] = ""
	}
	maps.Copy(all, spec.Config.Labels)
	all[launch.LabelSandboxID], all[labelName] = spec.ID, spec.Config.Name
	all[labelState], all[labelUser] = of.stateDir, strconv.Itoa(of.uid)
	all[launch.LabelCreatedAt] = strconv.FormatInt(spec.CreatedAt, 10)
	return all
}

// has reports whether a container with this name and these labels is one of the
// place's, and which. An image can give a container labels, but no name; and
// whoever gives a container our name and labels could as well do anything else.
func (of place) has(name string, labels map[string]string) (id string, ok bool) {
	id = labels[launch.LabelSandboxID]
	return id, runtime.IsID(id) && strings.TrimPrefix(name, "/") == containerName(id) &&
		labels[labelState] == of.stateDir && labels[labelUser] == strconv.Itoa(of.uid)
}

// Scan finds all sandboxes of the state directory that are in the engine and that
// this user has made.
func (e *Engine) Scan(ctx context.Context) ([]boot.Found, error) {
	of := e.place
	r, err := e.client.ContainerList(ctx, client.ContainerListOptions{
		All: true, Filters: make(client.Filters).Add("label", labelState+"="+of.stateDir, labelUser+"="+strconv.Itoa(of.uid)),
	})
	if err != nil {
		return nil, e.explain("list the containers", err)
	}
	var all []boot.Found
	for i := range r.Items {
		if f, ok := found(&r.Items[i], of); ok {
			all = append(all, f)
		}
	}
	return all, nil
}

// found reads what a container says of its sandbox. One that is not of the
// place, or says nonsense, is not ok.
func found(c *container.Summary, of place) (f boot.Found, ok bool) {
	for _, name := range c.Names {
		if f.ID, ok = of.has(name, c.Labels); ok {
			break
		}
	}
	var err error
	if f.CreatedAt, err = strconv.ParseInt(c.Labels[launch.LabelCreatedAt], 10, 64); !ok || err != nil || f.CreatedAt < 0 {
		return boot.Found{}, false
	}
	f.Name, f.Labels = c.Labels[labelName], map[string]string{launch.LabelSandboxID: f.ID, launch.LabelCreatedAt: c.Labels[launch.LabelCreatedAt]}
	for _, k := range ownerLabels {
		if v := c.Labels[k]; v != "" {
			f.Labels[k] = v
		}
	}
	for _, v := range f.Labels {
		if len(v) > maxLabel || len(f.Name) > maxLabel {
			return boot.Found{}, false
		}
	}
	return f, true
}
